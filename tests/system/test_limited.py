"""A server of limited memory is asked for more than it has: the request fails, and the server still answers others."""

import resource

import pytest
import torch

import halohop
from halohop.errors import RemoteError
from halohop.net.messages import server_codec
from halohop.store.draw import Draw, Rules
from halohop.store.requests import FetchRequest, HopQuery, RowQuery, SampleRequest
from halohop.tables.messages import MakeTableRequest
from halohop.tables.spec import TableSpec
from halohop.testing.worlds import TOKEN
from halohop.transport import Limits, connect

LIMIT = 6 << 30
LIMITS = Limits(call_seconds=60)
NODES = torch.arange(4)
REASONS = {
    "rows": "2048 names, 1 of them distinct; name each once",
    "draws": "MemoryError",
    "one draw": "take 68719476736 bytes",
    "table": "Cannot allocate memory",
    "huge table": "takes 2.34 TiB",
}


def absurd(kind: str) -> object:
    """A small request whose answer takes more than the limit."""
    match kind:
        case "rows":
            return FetchRequest(queries=(RowQuery(table="node", columns=("x",) * 2**11, gid=NODES.repeat(2**18)),))
        case "draws":
            hop = HopQuery(relation=("node", "to", "node"), fanout=2**25, dst_gid=NODES)
            draw = Draw(seed=1, epoch=0, batch=0, hop=0, rules=Rules(replace=True))
            return SampleRequest(draw=draw, queries=(hop,) * 8)
        case "one draw":
            hop = HopQuery(relation=("node", "to", "node"), fanout=2**31, dst_gid=NODES)
            return SampleRequest(draw=Draw(seed=1, epoch=0, batch=0, hop=0, rules=Rules(replace=True)), queries=(hop,))
        case "table":
            width = LIMIT // 4 // 300
        case _:
            width = 2**31
    spec = TableSpec(name="huge", key="node", num_rows=600, shape=(width,), dtype="float32")
    return MakeTableRequest(spec=spec, sender="c", parts=(0, 1))


SLOW = [pytest.param(kind, marks=pytest.mark.full) for kind in ("rows", "draws", "huge table")]


@pytest.mark.parametrize("kind", ["one draw", "table", *SLOW])
def test_an_absurd_request_fails_and_the_server_goes_on(parts, start, kind: str) -> None:
    process, address = start("0,1")
    resource.prlimit(process.pid, resource.RLIMIT_AS, (LIMIT, LIMIT))
    with halohop.connect([address], token=TOKEN) as graph:
        before = [batch.n_id.tolist() for batch in halohop.NeighborLoader(graph, [3, 2], batch_size=200)]
        with (
            connect(address, codec=server_codec(), token=TOKEN, limits=LIMITS) as channel,
            pytest.raises(RemoteError, match=REASONS[kind]),
        ):
            channel.call(absurd(kind))
        assert [batch.n_id.tolist() for batch in halohop.NeighborLoader(graph, [3, 2], batch_size=200)] == before
