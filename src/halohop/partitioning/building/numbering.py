"""Which gids nodes get: a partition owns one range per node type, and within it nodes are in the order of their raw ids."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from halohop import ops
from halohop.store.ordering import ascending_rows, ascends, ends_of, slices
from halohop.store.tables import NodeTable

INT32_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeNumbers:
    """How the nodes of a type are renumbered where their owners are given, and raw ids are rows.

    Args:
        bounds: gids of the partitions.
        row: table row of every gid, int64; None if they are the same.
        gid: gid of every table row, int64; None likewise.
        raw: raw id of every gid, int64; None if they are the same.
    """

    bounds: tuple[int, ...]
    row: Tensor | None
    gid: Tensor | None
    raw: Tensor | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOrder:
    """How the nodes of a table are renumbered.

    Args:
        bounds: gids of the partitions.
        gid: gid of every table row, int32 or int64; None if they are the same.
        by_part: whether the rows of each partition have the order of the table.
        raw_ends: the least and the greatest raw id; None where raw ids are gids.
    """

    bounds: tuple[int, ...]
    gid: Tensor | None
    by_part: bool
    raw_ends: tuple[int, int] | None

    def rows(self) -> Tensor | None:
        """Table row of every gid; None if they are the same."""
        if self.gid is None:
            return None
        rows = torch.empty_like(self.gid)
        rows[self.gid.long()] = torch.arange(len(rows), dtype=rows.dtype)
        return rows


def number_nodes(table: NodeTable, part: Tensor, num_parts: int, memory: int | None = None) -> NodeOrder:
    """Orders the nodes of a type by (partition, raw id).

    Args:
        part: the partition of every row, integers ``[num_nodes]``.
        num_parts: how many there are.
        memory: bytes that this may take beside the result; None: as many as it needs.
    """
    count, raw = table.num_nodes, table.raw_id
    if num_parts == 1 and raw is None:
        return NodeOrder(bounds=(0, count), gid=None, by_part=True, raw_ends=None)
    counts = torch.zeros(num_parts, dtype=torch.int64)
    for rows in slices(count, memory):
        counts += torch.bincount(part[rows], minlength=num_parts)
    bounds = (0, *accumulate(counts.tolist()))
    cursors = torch.tensor(bounds[:-1])
    by_part = raw is None or ascends(raw, memory)
    gid = torch.empty(count, dtype=id_dtype(count))
    in_turn: Iterable[slice | Tensor] = slices(count, memory) if by_part or raw is None else ascending_rows(raw, memory)
    for some in in_turn:
        gid[some] = ops.number(part[some].int(), cursors, gid.dtype)
    same = raw_is_gid = True
    for rows in slices(count, memory):
        numbers = torch.arange(rows.start, rows.stop)
        same = same and torch.equal(gid[rows].long(), numbers)
        raw_is_gid = raw_is_gid and torch.equal(gid[rows].long(), numbers if raw is None else raw[rows].long())
    return NodeOrder(
        bounds=bounds,
        gid=None if same else gid,
        by_part=by_part,
        raw_ends=None if raw_is_gid else (0, count - 1) if raw is None else ends_of(raw, memory),
    )


def translated(rows: Tensor, gid: Tensor | None) -> Tensor:
    """The gids of some rows of a table, or of raw ids; None where they are the same."""
    return rows if gid is None else ops.gather_rows(gid, rows)


def id_dtype(count: int) -> torch.dtype:
    """The smaller type that holds the ids 0 to count - 1."""
    return torch.int32 if count - 1 <= INT32_MAX else torch.int64
