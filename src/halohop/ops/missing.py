"""Rows of which some are missing: ids -1, whose rows are zeros, or what one says."""

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from halohop.ops.pieces import Pieces
from halohop.ops.plain import places_in
from halohop.ops.pool import Pool, empty
from halohop.ops.rows import gather_rows

if TYPE_CHECKING:
    from halohop.ops.device_pieces import DevicePieces


def gather_known(source: "Tensor | Pieces | DevicePieces", rows: Tensor, *, pool: Pool | None = None) -> Tensor:
    """`gather_rows`, but a row -1 is none: zeros. It works run by run, so they should come in runs.

    Args:
        source, pool: as of `gather_rows`.
        rows: int64 ``[n]``.

    Raises:
        IdError, InputError: as of `gather_rows`.

    Example:
        >>> gather_known(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1, -1])).tolist()
        [[3.0, 4.0], [0.0, 0.0]]
    """
    if rows.is_cuda:
        from halohop.ops import gpu_rows

        return gpu_rows.gather_known(source, rows, pool)
    row_shape = tuple(source.shape[1:]) if isinstance(source, Tensor) else source.row_shape
    out = empty(pool, (len(rows), *row_shape), source.dtype)
    for begin, end, known in _runs(rows):
        if known:
            gather_rows(source, rows[begin:end], out=out[begin:end])
    fill_missing(out, rows)
    return out


def known_places(rows: Tensor, *, pool: Pool | None = None) -> Tensor:
    """Where `rows` (int64 ``[n]``) is not -1: int64, ascending. On a device the host waits for their number (`pool`)."""
    if rows.is_cuda:
        from halohop.ops import gpu_rows

        return gpu_rows.places(rows >= 0, pool)
    return torch.from_numpy(np.flatnonzero(rows.numpy() >= 0))


def missing_places(rows: Tensor, *, pool: Pool | None = None) -> Tensor:
    """Where `rows` (int64 ``[n]``) is -1: int64, ascending. On a device the host waits for their number (`pool`)."""
    if rows.is_cuda:
        from halohop.ops import gpu_rows

        return gpu_rows.places(rows < 0, pool)
    return torch.from_numpy(np.flatnonzero(rows.numpy() < 0))


def fill_missing(column: Tensor, rows: Tensor, value: float = 0) -> None:
    """Writes `value` wherever `rows` (int64 ``[n]``) is -1.

    Args:
        column: ``[n, ...]``, contiguous, any dtype.
        rows, value: which places, and what.

    Example:
        >>> column = torch.tensor([5, 6])
        >>> fill_missing(column, torch.tensor([0, -1]), -100)
        >>> column.tolist()
        [5, -100]
    """
    if rows.is_cuda:
        column.masked_fill_((rows < 0).view(-1, *[1] * (column.dim() - 1)), value)
        return
    size = column.element_size()
    word = np.dtype(f"u{min(size, 8)}")  # NumPy fills words fast, and wakes none of torch's threads
    pattern = torch.full((1,), value, dtype=column.dtype).view(torch.uint8).numpy().view(word)
    for begin, end, known in _runs(rows):
        if not known and column[begin:end].numel():
            words = column[begin:end].reshape(-1).view(torch.uint8).numpy().view(word)
            for part, bits in enumerate(pattern):  # two of complex128
                words[part :: len(pattern)] = bits


def link_empty(ids: Tensor, nodes: Tensor, out: Tensor) -> None:
    """Writes the places of nodes that are none, in turn, for the edges that are none, on a device.

    Args:
        ids: of edges, int64 ``[n]``, -1 where there is none.
        nodes: ids of nodes, int64 ``[m]``, -1 where there is none.
        out: int64 ``[n]``.
    """
    if not len(out):
        return
    none, empty_edge = nodes < 0, ids < 0
    count = none.sum()
    number = torch.where(none, none.cumsum(0) - 1, len(nodes))
    listed = nodes.new_zeros(len(nodes) + 1).scatter_(0, number, places_in(nodes))  # real ones go behind
    turn = (empty_edge.cumsum(0) - 1).clamp_(min=0) % count.clamp(min=1)
    out.copy_(torch.where(empty_edge, listed.index_select(0, turn), out))


def _runs(rows: Tensor) -> list[tuple[int, int, bool]]:
    """Begin and end of each run of rows that are known, or missing."""
    known = rows.numpy() >= 0
    edges = [0, *(np.flatnonzero(known[1:] != known[:-1]) + 1).tolist(), len(known)]
    return [(begin, end, bool(known[begin])) for begin, end in pairwise(edges) if begin < end]
