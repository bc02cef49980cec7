"""Which gids nodes and edges get: a partition owns one range per node type and relation."""

from dataclasses import dataclass

import torch
from torch import Tensor

from halohop import ops
from halohop.store.tables import NodeTable

INT32_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeNumbers:
    """How the nodes of a type are renumbered.

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
class EdgeNumbers:
    """How the edges of a relation are renumbered.

    Args:
        bounds: gids of the partitions.
        indptr: where the list of each gid begins, of all destinations (of sources in a graph with lists of out-edges), int64.
        row: table row of every edge gid, int32 or int64; None if they are the same.
    """

    bounds: tuple[int, ...]
    indptr: Tensor
    row: Tensor | None


def number_nodes(table: NodeTable, part: Tensor, num_parts: int) -> NodeNumbers:
    """Orders the nodes of a type by (partition, raw id); `part` is the partition of every row."""
    raw = None if table.raw_id is None else table.raw_id.long()
    by_raw = None if raw is None or _ascending(raw) else torch.argsort(raw)
    starts, row = ops.build_csc(part if by_raw is None else part[by_raw], num_parts)
    row = row if by_raw is None else by_raw[row]
    identity = torch.arange(table.num_nodes)
    raw = row if raw is None else raw[row]
    raw = None if torch.equal(raw, identity) else raw
    bounds = tuple(starts.tolist())
    if torch.equal(row, identity):
        return NodeNumbers(bounds=bounds, row=None, gid=None, raw=raw)
    gid = torch.empty_like(identity)
    gid[row] = identity
    return NodeNumbers(bounds=bounds, row=row, gid=gid, raw=raw)


def number_edges(ends: Tensor, listed: NodeNumbers) -> EdgeNumbers:
    """Orders the edges of a relation by the gid of the node in whose list they are; those of one stay in the order of the table.

    Args:
        ends: table rows of these nodes, int32 or int64 ``[num_edges]``.
        listed: how they are renumbered.
    """
    indptr, row = ops.build_csc(translated(ends, listed.gid), listed.bounds[-1])
    row = row.to(id_dtype(len(ends)))
    identity = torch.arange(len(ends), dtype=row.dtype)
    return EdgeNumbers(
        bounds=tuple(indptr[list(listed.bounds)].tolist()), indptr=indptr, row=None if torch.equal(row, identity) else row
    )


def translated(rows: Tensor, gid: Tensor | None) -> Tensor:
    """The gids of some rows of a table, or of raw ids; None where they are the same."""
    return rows if gid is None else ops.gather_rows(gid, rows)


def id_dtype(count: int) -> torch.dtype:
    """The smaller type that holds the ids 0 to count - 1."""
    return torch.int32 if count - 1 <= INT32_MAX else torch.int64


def _ascending(ids: Tensor) -> bool:
    return bool((ids[1:] > ids[:-1]).all())
