"""Assigners that look at no edge: at random, and by ranges of ids."""

import torch
from torch import Tensor

from halohop.errors import InputError
from halohop.partitioning.assigners.division import Assignment, AssignRequest, Division
from halohop.store.tables import GraphTables, NodeTable
from halohop.typing import NODE

_PIECE = 1 << 18  # nodes that are dealt at a time
_MOST_MASKS = 10  # by which nodes are told apart; more would make more splits than nodes


def deal_evenly(tables: GraphTables, request: AssignRequest) -> Division:
    """Deals shuffled nodes like cards, split by split, each type going on where the last one stopped.

    They are shuffled a piece of the table at a time.
    """
    generator = torch.Generator().manual_seed(request.seed)
    assignment, dealt = {}, 0
    for name, table in tables.nodes.items():
        masks = _masks(table)
        sizes = torch.zeros(2 ** len(masks), dtype=torch.int64)
        for piece in _pieces(table):
            sizes += _splits(masks, *piece).bincount(minlength=len(sizes))
        turn = dealt + sizes.cumsum(0) - sizes  # of the next node of each split
        part = torch.empty(table.num_nodes, dtype=torch.int32)
        for low, high in _pieces(table):
            shuffled = torch.randperm(high - low, generator=generator)
            splits = _splits(masks, low, high)[shuffled]
            order = torch.argsort(splits, stable=True)
            counts = splits.bincount(minlength=len(turn))
            place = torch.arange(high - low) + (turn - (counts.cumsum(0) - counts)).repeat_interleave(counts)
            part[low + shuffled[order]] = (place % request.num_parts).int()
            turn += counts
        assignment[name] = part
        dealt += table.num_nodes
    return Division(part=assignment)


def place_at_random(num_nodes: int, num_parts: int, *, seed: int = 0) -> Tensor:
    """The partition of each node, at random and even in number, int32 ``[num_nodes]``.

    It is a function of the numbers, so processes that write slices of one graph (`halohop.slices.SliceWriter`) do not send it to
    each other. Public as `halohop.placement.place_at_random`.

    Raises:
        InputError: fewer than no nodes, or no partition.

    Example:
        >>> place_at_random(6, 3).bincount().tolist()
        [2, 2, 2]
    """
    if num_parts < 1:
        raise InputError(f"num_parts={num_parts}; there is at least one partition")
    tables = GraphTables(nodes={NODE: NodeTable(num_nodes=num_nodes)}, edges={})
    return deal_evenly(tables, AssignRequest(num_parts=num_parts, seed=seed)).part[NODE]


def cut_into_ranges(tables: GraphTables, request: AssignRequest) -> Division:
    """Gives each partition a range of the rows of every node type, as many rows as every other, or one more."""
    assignment = {}
    for name, table in tables.nodes.items():
        bounds = [table.num_nodes * part // request.num_parts for part in range(request.num_parts + 1)]
        part = torch.empty(table.num_nodes, dtype=torch.int32)
        for index in range(request.num_parts):
            part[bounds[index] : bounds[index + 1]] = index
        assignment[name] = part
    return Division(part=assignment)


def pieces_by_type(tables: GraphTables, numbers: Tensor) -> Assignment:
    """A number for each node, types one after another, as one tensor for each type."""
    pieces = torch.split_with_sizes(numbers, [table.num_nodes for table in tables.nodes.values()])
    return dict(zip(tables.nodes, pieces, strict=True))


def _pieces(table: NodeTable) -> list[tuple[int, int]]:
    return [(low, min(low + _PIECE, table.num_nodes)) for low in range(0, table.num_nodes, _PIECE)]


def _masks(table: NodeTable) -> list[Tensor]:
    return [
        mask for name, mask in table.columns.items() if name.endswith("_mask") and mask.dtype == torch.bool and mask.dim() == 1
    ][:_MOST_MASKS]


def _splits(masks: list[Tensor], low: int, high: int) -> Tensor:
    """Equal for nodes that are in the same splits, int64 ``[high - low]``."""
    number = torch.zeros(high - low, dtype=torch.int64)
    for mask in masks:
        number = number * 2 + mask[low:high]
    return number
