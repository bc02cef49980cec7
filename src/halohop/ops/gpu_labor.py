"""Drawing by random numbers of the sources, on a GPU: what `halohop.ops.cpu_labor` draws, bit for bit."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import triton.language as tl
from torch import Tensor

from halohop.ops.device import DevicePool
from halohop.ops.device_pieces import DevicePieces
from halohop.ops.gpu_eligible import DeviceSpans, begins_of, every_place, kept_of, pack, slices
from halohop.ops.gpu_launch import kernel, launch
from halohop.ops.gpu_numbers import logarithm
from halohop.ops.gpu_sample import fraction, stream_of
from halohop.ops.gpu_weight_lists import refuse, weights_of
from halohop.ops.rows import gather_rows

if TYPE_CHECKING:
    from halohop.ops.labor import Sources


@kernel
def number_sources(
    sources: tl.tensor,
    copies: tl.tensor,
    key: tl.tensor,
    shares: tl.tensor,
    numbers: tl.tensor,
    count: tl.int64,
    by_weight: tl.constexpr,
    block: tl.constexpr,
) -> None:
    """Number `copies` of the stream of each source, between 0 and 1; by weight its logarithm times the entry's share."""
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    live = at < count
    stream = stream_of(key, tl.load(sources + at, mask=live, other=0))
    number = fraction(stream, tl.load(copies + at, mask=live, other=0))
    if by_weight:
        number = logarithm(number) * tl.load(shares + at, mask=live, other=0.0)
    tl.store(numbers + at, number, mask=live)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entries:
    """Entries of lists, one list behind the other: their rows and positions, and weights where there are any. What was dropped
    has left room at the end, for entries of the row behind the last."""

    lengths: Tensor
    row_of: Tensor
    positions: Tensor
    weights: Tensor | None = None


def race(
    parts: Iterator[tuple[slice, DeviceSpans]],
    sources: "Sources",
    weights: DevicePieces | None,
    key: Tensor,
    limit: int,
    pool: DevicePool,
) -> Iterator[tuple[slice, DeviceSpans]]:
    """What is drawn of each list: the entries with the `limit` greatest numbers, greatest first; a list that is no longer than
    that keeps its order. By weight, entries without one are none.

    Entries are listed, some rows at a time; the host waits for their number, and by weight for whether all weights are right.

    Args:
        parts: rows, and the entries of their lists that may be drawn.
        sources: whom the numbers belong to.
        weights: of all positions.
        key: on the device.
        limit: the most entries of a list.
        pool: of the device.

    Raises:
        WeightError: a weight is negative or not finite.
    """
    for part, spans in parts:
        for rows, total in slices(spans.lengths, pool):
            some = spans.rows(rows)
            shift = None if sources.shift is None else sources.shift[part][rows]
            row_of, places = every_place(some.starts, some.lengths, pool, total)
            entries = _Entries(lengths=some.lengths, row_of=row_of, positions=some.meant(places))
            if weights is not None and total:
                entries = _weighed(entries, weights, pool)
            first = part.start + rows.start
            yield slice(first, first + len(some.lengths)), _greatest(entries, sources, shift, key, limit, pool)


def _weighed(entries: _Entries, weights: DevicePieces, pool: DevicePool) -> _Entries:
    """The entries that have a weight."""
    found = weights_of(weights, entries.positions, pool)
    count, num_rows = len(found), len(entries.lengths)
    wrong = torch.where((found >= 0) & (found < torch.inf), count, pool.arange(count))
    (first,) = pool.numbers(wrong.amin()[None])
    if first < count:
        refuse(entries.positions[first : first + 1], weights, pool)
    keep = found > 0
    positions, row_of, found = pack(keep, [(entries.positions, 0), (entries.row_of, num_rows), (found, 1.0)], pool)
    return _Entries(lengths=kept_of(keep, entries.lengths, pool), row_of=row_of, positions=positions, weights=found)


def _greatest(
    entries: _Entries, sources: "Sources", shift: Tensor | None, key: Tensor, limit: int, pool: DevicePool
) -> DeviceSpans:
    row_of, positions, total = entries.row_of, entries.positions, len(entries.positions)
    lengths = torch.cat([entries.lengths, pool.zeros((1,), torch.int64)])  # of the row behind the last, too
    ids = positions if sources.via is None else gather_rows(sources.via, positions, pool=pool)
    ids = gather_rows(sources.ids, ids, pool=pool).long()
    if shift is not None:
        ids = ids + torch.cat([shift, pool.zeros((1,), torch.int64)]).index_select(0, row_of)
    numbers = pool.empty((total,), torch.float64)
    shares = numbers if entries.weights is None else _shares(entries.weights, row_of, len(lengths), pool)
    arguments = ids, _copies(ids, row_of, pool), key, shares, numbers
    launch(number_sources, total, *arguments, total, by_weight=entries.weights is not None)
    order = torch.sort(numbers, descending=True, stable=True).indices  # of equal numbers the earlier entry comes first
    order = order.index_select(0, torch.sort(row_of.index_select(0, order), stable=True).indices)
    many = (lengths > limit).index_select(0, row_of)
    listing = torch.where(many, positions.index_select(0, order), positions)
    return DeviceSpans(starts=begins_of(entries.lengths), lengths=entries.lengths.clamp(max=limit), listing=listing)


def _shares(weights: Tensor, row_of: Tensor, num_rows: int, pool: DevicePool) -> Tensor:
    """How often each weight goes into the greatest one of its list."""
    greatest = pool.zeros((num_rows,), torch.float64).scatter_reduce_(0, row_of, weights, "amax")
    return greatest.index_select(0, row_of) / weights


def _copies(ids: Tensor, row_of: Tensor, pool: DevicePool) -> Tensor:
    """How often the source of each entry comes before it in its row, int64."""
    order = torch.sort(ids, stable=True).indices
    order = order.index_select(0, torch.sort(row_of.index_select(0, order), stable=True).indices)
    known, rows, place = ids.index_select(0, order), row_of.index_select(0, order), pool.arange(len(ids))
    again = pool.zeros((len(ids),), torch.bool)
    again[1:] = (known[1:] == known[:-1]) & (rows[1:] == rows[:-1])
    first = torch.where(again, 0, place).cummax(0).values
    return torch.empty_like(ids).scatter_(0, order, place - first)
