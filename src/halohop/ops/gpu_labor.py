"""Drawing by random numbers of the sources, on a GPU: what `halohop.ops.cpu_labor` draws, bit for bit, but by weights."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
import triton.language as tl
from torch import Tensor

from halohop.ops.device import DevicePool
from halohop.ops.gpu_eligible import DeviceSpans, every_place, slices
from halohop.ops.gpu_launch import kernel, launch
from halohop.ops.gpu_sample import mix, stream_of
from halohop.ops.rows import gather_rows

if TYPE_CHECKING:
    from halohop.ops.labor import Sources


@kernel
def number_sources(
    sources: tl.tensor, copies: tl.tensor, key: tl.tensor, numbers: tl.tensor, count: tl.tensor, block: tl.constexpr
) -> None:
    """Number `copies` of the stream of each source, between 0 and 1."""
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    live = at < count
    stream = stream_of(key, tl.load(sources + at, mask=live, other=0))
    word = mix(stream + (tl.load(copies + at, mask=live, other=0) + 1).to(tl.uint64) * 0x9E3779B97F4A7C15)
    number = ((word >> 11) | 1).to(tl.int64).to(tl.float64) * 1.1102230246251565e-16
    tl.store(numbers + at, number, mask=live)


def race(
    parts: Iterator[tuple[slice, DeviceSpans]], sources: "Sources", stream: int, limit: int, pool: DevicePool
) -> Iterator[tuple[slice, DeviceSpans]]:
    """What is drawn of each list: the entries with the `limit` greatest numbers, greatest first; a list that is no longer than
    that keeps its order.

    Entries are listed, some rows at a time; the host waits for their number.

    Args:
        parts: rows, and the entries of their lists that may be drawn.
        sources: whom the numbers belong to.
        stream: the key.
        limit: the most entries of a list.
        pool: of the device.
    """
    key = pool.put(torch.tensor([stream - 2**64 if stream >= 2**63 else stream]))
    for part, spans in parts:
        for rows, total in slices(spans.lengths, pool):
            some = replace(spans, starts=spans.starts[rows], lengths=spans.lengths[rows])
            shift = None if sources.shift is None else sources.shift[part][rows]
            first = part.start + rows.start
            yield slice(first, first + len(some.lengths)), _greatest(some, total, sources, shift, key, limit, pool)


def _greatest(
    spans: DeviceSpans, total: int, sources: "Sources", shift: Tensor | None, key: Tensor, limit: int, pool: DevicePool
) -> DeviceSpans:
    row_of, places = every_place(spans.starts, spans.lengths, pool, total)
    positions = spans.meant(places)
    entries = positions if sources.via is None else gather_rows(sources.via, positions, pool=pool)
    ids = gather_rows(sources.ids, entries, pool=pool).long()
    if shift is not None:
        ids = ids + shift.index_select(0, row_of)
    numbers = pool.empty((total,), torch.float64)
    launch(number_sources, total, ids, _copies(ids, row_of, pool), key, numbers, total)
    order = torch.sort(numbers, descending=True, stable=True).indices  # of equal numbers the earlier entry comes first
    order = order.index_select(0, torch.sort(row_of.index_select(0, order), stable=True).indices)
    many = (spans.lengths > limit).index_select(0, row_of)
    listing = torch.where(many, positions.index_select(0, order), positions)
    ends = spans.lengths.cumsum(0)
    return DeviceSpans(starts=ends - spans.lengths, lengths=spans.lengths.clamp(max=limit), listing=listing)


def _copies(ids: Tensor, row_of: Tensor, pool: DevicePool) -> Tensor:
    """How often the source of each entry comes before it in its row, int64."""
    order = torch.sort(ids, stable=True).indices
    order = order.index_select(0, torch.sort(row_of.index_select(0, order), stable=True).indices)
    known, rows, place = ids.index_select(0, order), row_of.index_select(0, order), pool.arange(len(ids))
    again = pool.zeros((len(ids),), torch.bool)
    again[1:] = (known[1:] == known[:-1]) & (rows[1:] == rows[:-1])
    first = torch.where(again, 0, place).cummax(0).values
    return torch.empty_like(ids).scatter_(0, order, place - first)
