"""Well-formed requests that no honest peer sends: every field of good requests in turn becomes something of its type.

Run as a program, with or without ``python -O``, it prints what a server answers that is neither a reply nor an error of halohop.
"""

import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import halohop
from halohop.cluster.holding import Holding
from halohop.errors import HalohopError
from halohop.net.attendance import AttendRequest
from halohop.net.finders import Listed
from halohop.net.messages import DescribeRequest, MeetRequest, server_codec
from halohop.net.seed_files import SeedsRequest
from halohop.net.serve import Server
from halohop.net.servers import Servers
from halohop.net.service import Keeping
from halohop.sampling.batch import NodeSet, Seeds
from halohop.sampling.columns import Columns
from halohop.sampling.fanouts import Fanouts
from halohop.sampling.link_seeds import LinkSeeds
from halohop.sampling.remote import BatchRequest, Options
from halohop.store.checksums import FileRecord
from halohop.store.draw import Draw, Rules
from halohop.store.requests import (
    EdgesRequest,
    FetchRequest,
    HopQuery,
    LocateEdgesRequest,
    LocateRequest,
    RowQuery,
    RowsByIdRequest,
    SampleRequest,
    SelectRequest,
)
from halohop.tables.change_messages import (
    AbortRequest,
    ApplyRequest,
    ChangeRequest,
    LeaveRequest,
    Moment,
    Share,
    TrainRequest,
)
from halohop.tables.messages import (
    ClearCheckpointsRequest,
    DropTableRequest,
    FilledRequest,
    ListTablesRequest,
    LoadTablesRequest,
    MakeTableRequest,
    ReadRowsRequest,
    SavedTable,
    SaveTablesRequest,
    TableQuery,
)
from halohop.tables.rule_spec import RuleSpec
from halohop.tables.spec import Beginning, TableSpec
from halohop.testing.graphs import ring
from halohop.testing.worlds import TOKEN
from halohop.transport import Limits

RELATION = ("node", "to", "node")
IDS = torch.tensor([3, 1, 7])


def good_requests() -> Iterator[Any]:
    """One or more of each kind."""
    sgd = RuleSpec(kind="sgd")
    spec = TableSpec(name="t", key="node", num_rows=40, shape=(2,), dtype="float32", begin=Beginning(kind="normal", high=1.0))
    own = Moment(group="client", session="", rank=0, size=1, round=0, index=0)
    step = replace(own, group="sgd", session="s")
    rows = Share(name="t", gid=IDS, rows=torch.ones(3, 2), lr=0.1)
    yield MakeTableRequest(spec=spec, sender="c", parts=(0,))
    yield TrainRequest(moment=step, rules={"t": sgd}, sender="r")
    yield ChangeRequest(moment=own, way="write", shares=(rows,), alone=True, seconds=0.1)
    yield ChangeRequest(moment=replace(own, index=1), way="add", shares=(rows,), alone=False, seconds=0.1)
    yield ChangeRequest(moment=step, way="step", shares=(rows,), alone=True, norm=True, max_norm=1.0, seconds=0.1)
    yield ApplyRequest(moment=replace(own, index=1))
    yield AbortRequest(moment=replace(own, index=2), reason="r")
    yield LeaveRequest(moment=step)
    yield ReadRowsRequest(queries=(TableQuery(name="t", gid=IDS),))
    yield FilledRequest(name="t", parts=(0,), sender="c")
    yield ListTablesRequest()
    yield SaveTablesRequest(folder="run/step-1-00c0ffee", names=("t",))
    yield LoadTablesRequest(token="l", folder="run/step-1-00c0ffee", tables=(), only_check=False)
    file = FileRecord(dtype="int64", shape=(5,), bytes=168, checksums=("00000000",))
    for files in ({}, {"id": file}):
        saved = SavedTable(spec=spec, optimizer="", rule=sgd, steps=0, num_rows=5, owns="", path="x", files=files)
        yield LoadTablesRequest(token=f"l{len(files)}", folder="run/step-1-00c0ffee", tables=(saved,), only_check=True)
    yield ClearCheckpointsRequest(folder="run", keep=("step-1-00c0ffee",))
    draw = Draw(seed=1, epoch=0, batch=0, hop=0, rules=Rules())
    hop = HopQuery(relation=RELATION, fanout=2, dst_gid=IDS, edge_ids=True)
    forest = replace(hop, tree=torch.arange(3), latest=torch.tensor([5, 6, 7]), excluded=torch.tensor([1, 4]))
    yield SampleRequest(draw=draw, queries=(hop, replace(hop, fanout=-1, src_gid=torch.tensor([2, 0, 6]))))
    yield SampleRequest(draw=replace(draw, rules=Rules(disjoint=True, time="time")), queries=(forest,))
    yield SampleRequest(draw=replace(draw, rules=Rules(weight="weight", replace=True)), queries=(forest,))
    yield SampleRequest(draw=replace(draw, rules=Rules(labor=True)), queries=(forest,))
    yield FetchRequest(queries=(RowQuery(table="node", columns=("x", "\0raw_id"), gid=IDS),))
    yield FetchRequest(queries=(RowQuery(table="node", columns=("x", "\0degree node__to__node"), gid=IDS, padded=True),))
    yield FetchRequest(queries=(RowQuery(table=RELATION, columns=("\0edge_id",), gid=IDS),))
    yield RowsByIdRequest(table="node", columns=("x",), ids=IDS)
    yield RowsByIdRequest(table=RELATION, columns=(), ids=IDS)
    yield LocateRequest(node_type="node", raw=IDS)
    yield LocateEdgesRequest(relation=RELATION, edge_id=IDS)
    yield SelectRequest(node_type="node", mask=None, parts=(0, 1))
    yield SelectRequest(node_type="node", mask="x", parts=(0,))
    yield EdgesRequest(relation=RELATION, parts=(0, 1), edge_id=torch.tensor([1, 4]))
    seeds = Seeds(node_type="node", gid=IDS, input_id=IDS, epoch=0, index=0, time=torch.tensor([1, 2, 3]))
    options = Options(fanouts=Fanouts(per_relation={RELATION: (2, 2)}), rules=Rules(), seed=1)
    columns = Columns(nodes={"node": ("x",)}, edges={RELATION: ()})
    yield BatchRequest(options=options, columns=columns, nodes=seeds)
    for rules in (Rules(disjoint=True), Rules(subgraph="induced"), Rules(subgraph="bidirectional", expand="all")):
        yield BatchRequest(options=replace(options, rules=rules), columns=None, nodes=seeds)
    links = LinkSeeds(relation=RELATION, src_gid=IDS, dst_gid=IDS.flip(0), input_id=IDS, epoch=0, index=0, label=IDS)
    links = replace(links, excluded={RELATION: torch.tensor([1, 4])})
    yield BatchRequest(options=options, columns=columns, links=links)
    yield BatchRequest(options=replace(options, rules=Rules(disjoint=True)), columns=columns, links=replace(links, time=IDS))
    yield BatchRequest(options=options, columns=columns, links=replace(links, triplet=True, label=None))
    for rules in (Rules(), Rules(disjoint=True), Rules(disjoint=True, time="time", time_window=3)):
        nodes = NodeSet(gid={"node": IDS}, epoch=0, index=0)
        yield BatchRequest(options=replace(options, rules=rules), columns=columns, node_set=nodes)
        yield BatchRequest(options=replace(options, rules=rules), columns=columns, nodes=replace(seeds, time=None))
    yield SeedsRequest(file="ids.npy")
    yield SeedsRequest(split="own", node_type="node")
    yield AttendRequest(client="c", job="j", size=2)
    yield MeetRequest(address="")
    yield DescribeRequest()
    yield DropTableRequest(name="t")


def hostile(value: Any) -> Iterator[Any]:
    """Values of the same type that do not fit."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (-1, 0, 7, 2**31, 2**62, -(2**63), 2**63 - 1)
    elif isinstance(value, float):
        yield from (-1.0, float("nan"), float("inf"), 1e300)
    elif isinstance(value, str):
        yield from ("", "nowhere", "\0", "x" * 400, "../..", "\ud7ff\n", "y", "float64", "bool")
    elif isinstance(value, Tensor):
        yield from (value[:0], value[:1], value[:, None], torch.cat([value, value, value]), value.float() + 0.5)
        yield from (value.bool(), value.int(), value.to(torch.complex64), value.to(torch.uint8), value.flip(0))
        yield torch.tensor(5, dtype=value.dtype)
        if value.dtype == torch.int64:
            yield from (torch.full_like(value, number) for number in (2**62, -(2**63), 2**63 - 1, -1, 39, 40))
        yield torch.zeros(3, 0, 2, dtype=value.dtype)
    elif isinstance(value, tuple):
        yield from ((), value * 2, value[:1])
        for number, part in enumerate(value):
            yield from ((*value[:number], other, *value[number + 1 :]) for other in hostile(part))
    elif isinstance(value, dict):
        yield {}
        for key, part in value.items():
            yield from ({key: other} for other in hostile(part))
            yield from ({other: part} for other in hostile(key))
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            was = getattr(value, field.name)
            for other in (*hostile(was), *([] if field.name in ("options",) else [None])):
                with suppress(
                    HalohopError, TypeError, AttributeError, AssertionError
                ):  # cannot be made, nor decoded: the same checks
                    yield replace(value, **{field.name: other})


def answers(server: Server, request: Any) -> str:
    """How a server's answer fails otherwise than by name; empty: it does not."""
    codec = server_codec()
    try:
        frames = [bytearray(frame) for frame in codec.encode(request)]
        asked = codec.decode(frames)
    except HalohopError:
        return ""  # refused where it is read
    try:
        reply = server._service.answer(asked)
        if isinstance(reply, Future):
            reply.result(20)
    except HalohopError:
        return ""
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:150]
    return ""


def bare_errors(folder: Path, every: int = 1) -> tuple[int, list[str]]:
    """How many hostile requests were answered, of every so many one, and those that failed otherwise than by name."""
    torch.save(IDS, folder / "ids.pt")
    halohop.partition(ring(40), folder / "parts", num_parts=2, method="random")
    servers = Servers(finder=Listed(addresses=()), token=TOKEN, limits=Limits())
    holding = replace(Holding.of(folder / "parts"), tables=folder / "tables", saves_anywhere=False)
    found, count = [], 0
    with Server(holding, listen=None, servers=servers, keeping=Keeping(), seeds=folder, splits={"own": {"node": IDS}}) as server:
        for good in good_requests():
            for request in islice(hostile(good), 0, None, every):
                count += 1
                if why := answers(server, request):
                    found.append(f"{why} <- {str(request)[:300]!r}")
            count += 1
            if why := answers(server, good):
                found.append(f"{why} <- {str(good)[:300]!r}")
    return count, found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        count, found = bare_errors(Path(place))
    print(f"{count} requests, {len(found)} bare errors, python -O: {sys.flags.optimize}")
    print("\n".join(found))
    sys.exit(bool(found))
