"""METIS as an assigner: blocks by recursive bisection, of which partitions are runs; or all partitions at once."""

import math
from collections import deque
from typing import NamedTuple

import torch
from torch import Tensor

from halohop import ops
from halohop.errors import InputError
from halohop.memory import format_size
from halohop.partitioning.assigners import libmetis
from halohop.partitioning.assigners.dealing import deal_evenly, pieces_by_type
from halohop.partitioning.assigners.division import AssignRequest, Division
from halohop.partitioning.assigners.loads import Loads, even_out
from halohop.partitioning.assigners.union import Adjacency, union_graph
from halohop.store.tables import GraphTables

BLOCKS, MORE_BLOCKS = 16, 64
"""The default number of blocks, and that for more partitions: with more, models learn later (docs/guide/performance.md)."""

_LEAST_NODES = 8  # in a block, or there are none
_END_BYTES, _NODE_BYTES = 32, 150  # 780 MB were measured for 20 million ends and a million nodes
_KEPT = 0.4  # of the tolerance, for the levels below each bisection
_TRIES, _FEW_ENDS = 3, 1 << 21  # of METIS, on graphs of so few ends of edges: its first find may be a bad one
_TIGHTEST = 1.001  # times the mean: METIS wants some room


class _Piece(NamedTuple):
    """Some nodes of the graph and what lies among them."""

    graph: Adjacency
    loads: Tensor
    nodes: Tensor


def metis(tables: GraphTables, request: AssignRequest) -> Division:
    """Few edges between partitions: multilevel partitioning of all types and relations as one graph, with each load a constraint.

    Blocks are the leaves of recursive bisection, and partition p has the blocks from ``p * blocks / partitions`` on. METIS makes
    all partitions at once, and there are no blocks, with partitions that do not divide the blocks; and where bisection leaves
    them more uneven than the tolerance and than METIS does at once, as with one node that has most edges. Blocks that were asked
    for are made in any case.

    The first bisection may be uneven by six tenths of the tolerance, the next by as much of the rest, and so on: so partitions
    are within the tolerance, however many blocks each has. What METIS leaves uneven is evened out.
    """
    num_blocks = blocks_of(tables, request)
    if (need := least_bytes(tables)) > request.memory.bytes:
        raise InputError(
            f"METIS takes about {format_size(need)} for this graph, the memory for partitioning is {request.memory}; give more "
            'memory, or use method="ldg", which takes a few bytes a node'
        )
    loads = Loads(tables, balance_types=request.balance_types, classes=request.classes)
    libmetis.check_size(2 * sum(table.num_edges for table in tables.edges.values()), loads.totals)
    graph = union_graph(tables)
    if graph.num_nodes < request.num_parts or len(graph.neighbors) == 0:  # METIS prints complaints then, and divides badly
        return deal_evenly(tables, request)
    block = _bisected(graph, loads, num_blocks, request) if num_blocks else None
    runs = None if block is None else block.int() * request.num_parts // num_blocks
    if runs is None or (request.num_blocks is None and (over := loads.fullest(runs, request)) > 1):
        part = _at_once(graph, loads, request)
        if runs is None or loads.fullest(part, request) < over:
            return Division(part=pieces_by_type(tables, part))
    assert block is not None
    return Division(part=pieces_by_type(tables, runs), block=pieces_by_type(tables, block), num_blocks=num_blocks)


def least_bytes(tables: GraphTables) -> int:
    """About what METIS and the graph that it divides take, at most."""
    ends = 2 * sum(table.num_edges for table in tables.edges.values())
    return _END_BYTES * ends + _NODE_BYTES * sum(table.num_nodes for table in tables.nodes.values())


def blocks_of(tables: GraphTables, request: AssignRequest) -> int:
    """How many blocks there will be.

    Raises:
        InputError: the number that was asked for is no power of two, too large, or no multiple of the partitions.
    """
    wanted, num_parts = request.num_blocks, request.num_parts
    if wanted is None:
        num_nodes = sum(table.num_nodes for table in tables.nodes.values())
        fitting = (b for b in (BLOCKS, MORE_BLOCKS) if b % num_parts == 0 and num_nodes >= b * _LEAST_NODES)
        return next(fitting, 0) if num_parts > 1 else 0
    if wanted and (wanted < 2 or wanted & (wanted - 1) or wanted > 2**14):
        raise InputError(f"blocks={wanted}; give a power of two from 2 to {2**14}, such as {BLOCKS}, or 0 for none")
    if wanted % num_parts:
        raise InputError(
            f"{num_parts} partitions cannot be runs of {wanted} blocks; give a number of partitions that divides the blocks "
            "(2, 4, 8, ...), or blocks=0"
        )
    return wanted


def _at_once(graph: Adjacency, loads: Loads, request: AssignRequest) -> Tensor:
    rows = loads.rows(0, graph.num_nodes)
    limit = loads.limit(request.num_parts, request.tolerance)
    slack, tries = limit * request.num_parts / loads.totals, _tries(graph)
    part = _divided(graph, rows, loads.totals, request.num_parts, slack, request.seed, tries)
    even_out(part, graph, rows, limit, request.num_parts)
    counts = part.bincount(minlength=request.num_parts)
    for empty in (counts == 0).nonzero().view(-1).tolist():  # METIS leaves parts empty where they are a few nodes
        giver = int(counts.argmax())
        part[(part == giver).nonzero()[-1]] = empty
        counts[giver] -= 1
    return part


def _bisected(graph: Adjacency, loads: Loads, num_blocks: int, request: AssignRequest) -> Tensor:
    """The block of every node, uint8 or int16 ``[n]``."""
    block = torch.zeros(graph.num_nodes, dtype=torch.uint8 if num_blocks <= 256 else torch.int16)
    tries = _tries(graph)
    level = deque([_Piece(graph, loads.rows(0, graph.num_nodes), torch.arange(graph.num_nodes))])
    for depth in range(1, int(math.log2(num_blocks)) + 1):
        limit = loads.limit(2**depth, request.tolerance * (1 - _KEPT**depth))
        for _ in range(len(level)):
            level.extend(_halves(level.popleft(), limit, request.seed, tries))
    for number, piece in enumerate(level):
        block[piece.nodes] = number
    return block


def _tries(graph: Adjacency) -> int:
    return _TRIES if len(graph.neighbors) < _FEW_ENDS else 1


def _halves(piece: _Piece, limit: Tensor, seed: int, tries: int) -> list[_Piece]:
    totals = piece.loads.sum(0)
    slack = (2 * limit / totals.clamp(min=1)).clamp(min=_TIGHTEST, max=2)
    part = _divided(piece.graph, piece.loads, totals, 2, slack, seed, tries)
    even_out(part, piece.graph, piece.loads, limit, 2)
    sides = [(part == side).nonzero().view(-1) for side in (0, 1)]
    return [_Piece(piece.graph.induced(own), piece.loads[own], piece.nodes[own]) for own in sides]


def _divided(graph: Adjacency, loads: Tensor, totals: Tensor, num_parts: int, slack: Tensor, seed: int, tries: int) -> Tensor:
    """The part of each node, int32; a graph without edges, or of hardly more nodes than parts, is dealt."""
    if len(graph.neighbors) == 0 or graph.num_nodes <= 2 * num_parts:
        parts = ops.Parts(
            torch.full((graph.num_nodes,), -1, dtype=torch.int32),
            torch.zeros(num_parts, loads.size(1), dtype=torch.int64),
            (totals.double() / num_parts).clamp(min=1) * slack,
        )
        whole = ops.Lists(first=0, indptr=graph.indptr, neighbors=graph.neighbors, weights=graph.weights, loads=loads)
        parts.deal(whole, rule="ldg")
        return parts.part
    if not (totals > 0).all():
        loads, slack = loads[:, totals > 0], slack[totals > 0]
    return libmetis.part_graph(graph, loads, num_parts, slack=slack, seed=seed, tries=tries, recursive=num_parts == 2)
