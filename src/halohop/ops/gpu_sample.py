"""Drawing neighbours on a GPU: the draws of `halohop.ops.cpu_sample`, bit for bit."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from halohop.ops.device import DevicePool, Fault
from halohop.ops.device_pieces import DevicePieces
from halohop.ops.gpu_launch import kernel, launch, piece_of

FEW = 32
"""Largest fanout whose picks stay in registers: with 64 a thread has too few, and compiling takes 15 s."""

_PICKS = 512  # of one program: rows x fanout


@kernel
def mix(x: tl.tensor) -> tl.tensor:
    """The finalizer of SplitMix64, as `halohop.ops.random.mix`."""
    x ^= x >> 30
    x *= 0xBF58476D1CE4E5B9
    x ^= x >> 27
    x *= 0x94D049BB133111EB
    return x ^ (x >> 31)


@kernel
def stream_of(key: tl.tensor, raw: tl.tensor) -> tl.tensor:
    """The stream of each node; `key` points to the key's bits."""
    return mix(tl.load(key).to(tl.uint64, bitcast=True) + raw.to(tl.uint64) * 0xD1342543DE82EF95)


@kernel
def drawn(stream: tl.tensor, number: tl.tensor, choices: tl.tensor) -> tl.tensor:
    """Draw `number` of each stream, one of so many choices."""
    word = mix(stream + (number // 2 + 1).to(tl.uint64) * 0x9E3779B97F4A7C15)
    half = (word >> (32 * (number % 2)).to(tl.uint64)) & 0xFFFFFFFF
    return (half * choices) >> 32


@kernel
def fraction(stream: tl.tensor, number: tl.tensor) -> tl.tensor:
    """Word `number` of each stream as a number between 0 and 1, never 0 or 1: its top 53 bits, the last of them set."""
    word = mix(stream + (number + 1).to(tl.uint64) * 0x9E3779B97F4A7C15)
    return ((word >> 11) | 1).to(tl.int64).to(tl.float64) * 1.1102230246251565e-16


@kernel
def find_lists(
    addresses: tl.tensor,
    bounds: tl.tensor,
    num_pieces: tl.tensor,
    offsets: tl.tensor,
    rows: tl.tensor,
    starts: tl.tensor,
    degrees: tl.tensor,
    faults: tl.tensor,
    count: tl.int64,
    padded: tl.constexpr,
    block: tl.constexpr,
) -> None:
    """Where the list of each row begins, and how long it is; that of a row that is not there is empty, and a fault, unless it is
    -1 and rows are padded."""
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = at < count
    row = tl.load(rows + at, mask=inside, other=0).to(tl.int64)
    live = inside & (row >= tl.load(bounds)) & (row < tl.load(bounds + num_pieces))
    piece = piece_of(row, bounds, num_pieces)
    base = tl.load(addresses + piece, mask=live, other=0).to(tl.pointer_type(tl.int64))
    local = row - tl.load(bounds + piece, mask=live, other=0)
    first = tl.load(base + local, mask=live, other=0)
    degree = tl.load(base + local + 1, mask=live, other=0) - first
    right = live & (degree >= 0) & (degree < 4294967296)
    wrong = inside & ~right
    if padded:
        wrong = wrong & (row != -1)
    tl.atomic_max(faults + tl.zeros_like(at), row, mask=wrong, sem="relaxed")
    tl.store(starts + at, first + tl.load(offsets + piece, mask=live, other=0), mask=inside)
    tl.store(degrees + at, tl.where(right, degree, 0), mask=inside)


@kernel
def draw_few(
    starts: tl.tensor,
    degrees: tl.tensor,
    raw: tl.tensor,
    key: tl.tensor,
    counts: tl.tensor,
    ends: tl.tensor,
    positions: tl.tensor,
    count: tl.int64,
    fanout: tl.constexpr,
    width: tl.constexpr,
    block: tl.constexpr,
) -> None:
    """Without replacement, by Floyd's algorithm (Bentley & Floyd 1987): all picks of a row stay in registers."""
    i = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    live = i < count
    start = tl.load(starts + i, mask=live, other=0)
    degree = tl.load(degrees + i, mask=live, other=0).to(tl.uint64)
    begin = tl.load(ends + i, mask=live, other=0) - tl.load(counts + i, mask=live, other=0)
    stream = stream_of(key, tl.load(raw + i, mask=live, other=0))
    j = tl.arange(0, width)
    picks = tl.full((block, width), 0xFFFFFFFFFFFFFFFF, tl.uint64)
    for number in tl.static_range(fanout):
        last = degree - fanout + number
        pick = drawn(stream, tl.full((block,), number, tl.int64), last + 1)
        seen = tl.max((picks == pick[:, None]).to(tl.int32), axis=1)
        picks = tl.where((j == number)[None, :], tl.where(seen > 0, last, pick)[:, None], picks)
    whole = degree <= fanout
    choice = tl.where(whole[:, None], j[None, :].to(tl.uint64), picks)
    most = tl.where(whole, degree, fanout)
    ok = live[:, None] & (j[None, :].to(tl.uint64) < most[:, None])
    tl.store(positions + begin[:, None] + j[None, :], start[:, None] + choice.to(tl.int64), mask=ok)


@kernel
def draw_each(
    starts: tl.tensor,
    degrees: tl.tensor,
    raw: tl.tensor,
    key: tl.tensor,
    counts: tl.tensor,
    ends: tl.tensor,
    positions: tl.tensor,
    row_of: tl.tensor,
    count: tl.int64,
    replace: tl.constexpr,
    block: tl.constexpr,
) -> None:
    """Entry by entry: with replacement, or whole lists."""
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    live = at < count
    i = tl.load(row_of + at, mask=live, other=0)
    number = at - tl.load(ends + i, mask=live, other=0) + tl.load(counts + i, mask=live, other=0)
    if replace:
        degree = tl.load(degrees + i, mask=live, other=1).to(tl.uint64)
        number = drawn(stream_of(key, tl.load(raw + i, mask=live, other=0)), number, degree).to(tl.int64)
    tl.store(positions + at, tl.load(starts + i, mask=live, other=0) + number, mask=live)


@kernel
def draw_many(
    starts: tl.tensor,
    degrees: tl.tensor,
    raw: tl.tensor,
    key: tl.tensor,
    counts: tl.tensor,
    ends: tl.tensor,
    positions: tl.tensor,
    count: tl.int64,
    fanout: tl.tensor,
    block: tl.constexpr,
) -> None:
    """Without replacement, any fanout: a program a row. What was picked is looked up among the row's earlier picks."""
    i = tl.program_id(0).to(tl.int64) * block
    start, degree = tl.load(starts + i), tl.load(degrees + i)
    begin = tl.load(ends + i) - tl.load(counts + i)
    lane = tl.arange(0, 128)
    if degree <= fanout:
        for first in range(0, degree, 128):
            ok = first + lane < degree
            tl.store(positions + begin + first + lane, start + first + lane, mask=ok)
    else:
        stream = stream_of(key, tl.load(raw + i))
        for number in range(0, fanout):
            last = degree - fanout + number
            pick = drawn(stream, tl.full((), 0, tl.int64) + number, (last + 1).to(tl.uint64)).to(tl.int64)
            seen = tl.zeros((128,), tl.int32)
            for first in range(0, number, 128):
                earlier = tl.load(positions + begin + first + lane, mask=first + lane < number, other=-1)
                seen += (earlier == start + pick).to(tl.int32)
            chosen = tl.where(tl.sum(seen, axis=0) > 0, last, pick)
            tl.store(positions + begin + number, start + chosen)
            tl.debug_barrier()


def key_of(stream: int, pool: DevicePool) -> Tensor:
    """A key for kernels: its 64 bits, int64 ``[1]`` on the device."""
    return pool.put(torch.tensor([stream - 2**64 if stream >= 2**63 else stream]))


@kernel
def repeat_rows(
    ends: tl.tensor, out: tl.tensor, begin: tl.int64, num_rows: tl.int64, count: tl.int64, block: tl.constexpr
) -> None:
    """``begin`` and the number of the row whose entries, up to ``ends[row]``, each entry is among; `num_rows` behind all."""
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    live = at < count
    low = tl.zeros_like(at)
    high = tl.where(live, low + num_rows, 0)
    while tl.max((low < high).to(tl.int32), axis=0) > 0:
        searched = low < high
        middle = (low + high) >> 1
        before = tl.load(ends + middle, mask=searched, other=0) <= at
        low = tl.where(searched & before, middle + 1, low)
        high = tl.where(searched & ~before, middle, high)
    tl.store(out + at, low + begin, mask=live)


def find(lists: DevicePieces, rows: Tensor, edge_bounds: Any, pool: DevicePool, *, padded: bool = False) -> tuple[Tensor, Tensor]:
    """Where the rows' lists begin, and their lengths, int64 ``[n]`` each; if `padded`, that of a row -1 is empty."""
    starts, degrees = (pool.empty((len(rows),), torch.int64) for _ in range(2))
    offsets = edge_bounds if isinstance(edge_bounds, Tensor) else pool.put(torch.as_tensor(edge_bounds, dtype=torch.int64))
    pieces = lists.places, lists.ends, lists.num_pieces
    faults, rows = pool.faults[Fault.ROW :], rows.contiguous()
    launch(find_lists, len(rows), *pieces, offsets, rows, starts, degrees, faults, len(rows), padded=padded)
    return starts, degrees


def draw(
    starts: Tensor,
    degrees: Tensor,
    raw: Tensor,
    key: Tensor,
    limit: int,
    *,
    replace: bool,
    pool: DevicePool,
    most: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Uniform draws from lists: how many from each, int64 ``[n]``, and their positions. The host waits for their number.

    Args:
        starts, degrees: of the lists, int64 ``[n]``.
        raw: ids that the random numbers depend on, int64 ``[n]``.
        key: on the device.
        limit: the most entries of a list.
        replace: whether an entry may be drawn again.
        pool: of the device.
        most: that number at most, for which the host then does not wait: so many positions are returned, -1 behind those drawn.
            Rows whose draws have no room draw nothing, which is a fault.
    """
    counts = (degrees > 0).to(torch.int64) * limit if replace else degrees.clamp(max=limit)
    ends = counts.cumsum(0)
    if most is not None and len(ends):
        pool.require(ends[-1:], most)
        degrees, counts = (torch.where(ends <= most, lengths, 0) for lengths in (degrees, counts))
        ends = counts.cumsum(0)
    (total,) = (most,) if most is not None else pool.numbers(ends[-1:]) if len(ends) else (0,)
    positions = pool.empty((total,), torch.int64)
    if most is not None:
        positions.fill_(-1)
        if not len(counts):
            return counts, positions
    lists = starts, degrees, raw.contiguous().long(), key, counts, ends, positions
    if replace or limit >= 2**32 - 1:
        row_of = torch.searchsorted(ends, pool.arange(total), right=True)  # behind the last row, where nothing is drawn
        launch(draw_each, total, *lists, row_of.clamp_(max=len(ends) - 1), total, replace=replace)
        if most is not None:
            positions = torch.where(pool.arange(total) < ends[-1:], positions, -1)
    elif limit <= FEW:
        width = triton.next_power_of_2(max(limit, 1))
        count = len(counts) if limit else 0
        launch(draw_few, count, *lists, count, block=_PICKS // width, fanout=limit, width=width)
    else:
        launch(draw_many, len(counts), *lists, len(counts), limit, block=1)
    return counts, positions


def repeat_positions(counts: Tensor, begin: int, out: Tensor) -> None:
    """`halohop.ops.repeat_positions`."""
    launch(repeat_rows, len(out), counts.cumsum(0), out, begin, len(counts), len(out))
