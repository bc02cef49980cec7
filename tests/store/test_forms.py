"""Tensors of messages that have another form than their fields declare."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from halohop.errors import ProtocolError
from halohop.net.messages import server_codec
from halohop.sampling.batch import NodeSet
from halohop.sampling.fanouts import Fanouts
from halohop.sampling.remote import BatchRequest, Options
from halohop.store.draw import TAKE_ALL, Rules
from halohop.store.requests import FetchRequest, HopAnswer, HopQuery, RowQuery, SampleReply, SampleRequest
from halohop.typing import EDGE

IDS = torch.tensor([3, 1, 7])
HOP = HopQuery(relation=EDGE, fanout=2, dst_gid=IDS, tree=IDS, latest=IDS.double(), excluded=IDS[:1], src_gid=IDS)
ANSWER = HopAnswer(counts=IDS[:2], src_gid=IDS.int(), edge_gid=IDS)
OPTIONS = Options(fanouts=Fanouts(per_relation={EDGE: (2,)}), rules=Rules(), seed=1)


def _sent(message: Any) -> Any:
    codec = server_codec()
    return codec.decode([bytearray(frame) for frame in codec.encode(message)])


def _asked(**changed: Any) -> SampleRequest:
    return SampleRequest(draw=TAKE_ALL, queries=(HOP, replace(HOP, **changed)))


def _answered(**changed: Any) -> SampleReply:
    return SampleReply(answers=(ANSWER, replace(ANSWER, **changed)))


def test_records_and_options_of_different_lengths_are_taken() -> None:
    short = {name: getattr(HOP, name)[:2] for name in ("dst_gid", "tree", "latest", "src_gid")}
    assert len(_sent(_asked(**short, excluded=None)).queries[1].dst_gid) == 2
    assert len(_sent(_answered(counts=IDS)).answers[1].counts) == 3


@pytest.mark.parametrize(
    ("message", "name"),
    [
        (_asked(dst_gid=IDS.int()), "dst_gid has shape"),
        (_asked(dst_gid=IDS[:, None]), "dst_gid has shape"),
        (_asked(dst_gid=torch.tensor(3)), "dst_gid has shape"),
        (_asked(tree=IDS[:2]), r"tree has shape \[2\] .*expected \[3\]"),
        (_asked(latest=IDS.float()), "latest .*expected .*int64 or torch.float64"),
        (_asked(excluded=IDS.bool()), "excluded has shape"),
        (_asked(src_gid=IDS[:0]), "src_gid has shape"),
        (_asked(fanout=-2), "fanout"),
        (_asked(fanout=2**62), "fanout"),
        (FetchRequest(queries=(RowQuery(table="node", columns=(), gid=IDS.double()),)), "gid has shape"),
        (BatchRequest(options=OPTIONS, columns=None, node_set=NodeSet(gid={"node": IDS.float()}, epoch=0, index=0)), "gid has"),
        (_answered(src_gid=IDS[:2]), "edge_gid has shape"),
        (_answered(counts=IDS.double()), "counts has shape"),
    ],
    ids=range(13),
)
def test_a_tensor_of_another_form_is_refused_when_it_is_read(message: Any, name: str) -> None:
    with pytest.raises(ProtocolError, match=name):
        _sent(message)
