"""Assigners that read the lists of neighbours a few times, from first to last: LDG and Fennel, for graphs larger than memory."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from halohop import ops
from halohop.ops.dealing import Rule
from halohop.partitioning.assigners.dealing import deal_evenly, pieces_by_type
from halohop.partitioning.assigners.division import AssignRequest, Division
from halohop.partitioning.assigners.loads import Loads, even_out, lists_of
from halohop.partitioning.assigners.union import Adjacency, union_graph
from halohop.store.tables import GraphTables

_ROOM = (*[0.3] * 5, 0.2, 0.1, 0.05, 0.0, 0.0)  # above the limit in each pass: full parts would keep clusters from meeting
_PRICE = 1.5  # of a full part, as in Fennel's paper
_ENTRY_BYTES = 24  # of an end of an edge while the lists are made in memory


def ldg(tables: GraphTables, request: AssignRequest) -> Division:
    """Linear deterministic greedy with restreaming: see `halohop.ops.dealing.Parts.deal`."""
    return _streamed(tables, request, "ldg")


def fennel(tables: GraphTables, request: AssignRequest) -> Division:
    """Fennel with restreaming: see `halohop.ops.dealing.Parts.deal`."""
    return _streamed(tables, request, "fennel")


def _streamed(tables: GraphTables, request: AssignRequest, rule: Rule) -> Division:
    if sum(table.num_edges for table in tables.edges.values()) == 0:
        return deal_evenly(tables, request)
    loads = Loads(tables, balance_types=request.balance_types, classes=request.classes)
    with lists_in_bounds(tables, request) as graph:
        part, limit = torch.full((graph.num_nodes,), -1, dtype=torch.int32), loads.limit(request.num_parts, request.tolerance)
        carried = torch.zeros(request.num_parts, len(loads.kinds), dtype=torch.int64)
        price = _PRICE * len(graph.neighbors) / 2 / request.num_parts
        begin = _first(graph, request.seed)
        for room in _ROOM:
            parts = ops.Parts(part, carried, (1 + room) * limit)
            for lists in lists_of(graph, loads, begin):
                parts.deal(lists, rule=rule, price=price)
        even_out(part, graph, loads, limit, request.num_parts)
    return Division(part=pieces_by_type(tables, part))


@contextmanager
def lists_in_bounds(tables: GraphTables, request: AssignRequest) -> Iterator[Adjacency]:
    """The union graph: in memory where the budget has room for it, else in a folder that is removed at the end."""
    ends = 2 * sum(table.num_edges for table in tables.edges.values())
    nodes = sum(table.num_nodes for table in tables.nodes.values())
    room = request.memory.bytes - 24 * nodes
    if ends * _ENTRY_BYTES <= room:
        yield union_graph(tables, merged=False)
        return
    with tempfile.TemporaryDirectory(prefix="halohop-lists-", dir=request.scratch) as folder:
        yield union_graph(tables, merged=False, folder=Path(folder), room=max(room // 2, 1 << 24))


def _first(graph: Adjacency, seed: int) -> int:
    """The node with which a pass begins: the seed decides nothing else, and lists are read from first to last."""
    return int(torch.randint(max(graph.num_nodes, 1), (1,), generator=torch.Generator().manual_seed(seed)))
