"""Drawing neighbours by weight on a GPU: the draws of `halohop.ops.cpu_weighted`, bit for bit.

A draw finds its block of 8 by the running sums, and its entry by the weights of the block. Lists of which draws find nothing new
for long are summed anew without what they gave, as there; the host then asks how many these are.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from halohop.ops import gpu_rows
from halohop.ops.device import DevicePool
from halohop.ops.device_pieces import DevicePieces
from halohop.ops.gpu_eligible import DeviceSpans, every_place, slices
from halohop.ops.gpu_launch import kernel, launch
from halohop.ops.gpu_sample import FEW, fraction, stream_of
from halohop.ops.gpu_weight_lists import WeightLists, refuse, summed, summed_in_range, weights_of

_WORDS = {
    **{torch.float64: tl.float64, torch.float32: tl.float32, torch.float16: tl.float16, torch.bfloat16: tl.uint16},
    **{torch.int64: tl.int64, torch.int32: tl.int32, torch.int16: tl.int16, torch.int8: tl.int8},
    **{torch.uint8: tl.uint8, torch.bool: tl.uint8},
}
_WARP = 32  # picks of a program at once
_MOST_PICKS = 16  # of a list at once: with 32, registers are too few
_LEFT, _WRONG = 1, 2  # states of a list that is not done: it must be summed anew, or has a weight that is none


@kernel
def weight_of(pointers: tl.tensor, live: tl.tensor) -> tl.tensor:
    """Weights in float64, exactly; uint16 are the bits of bfloat16, which the interpreter does not know."""
    words = tl.load(pointers, mask=live, other=0)
    if words.dtype == tl.uint16:
        words = (words.to(tl.uint32) << 16).to(tl.float32, bitcast=True)
    return words.to(tl.float64)


@kernel
def find_entries(place: tl.tensor, sums: tl.tensor, length: tl.tensor, target: tl.tensor, asked: tl.tensor) -> tl.tensor:
    """The first entry of each list ``[rows]`` whose running sum exceeds each of its targets ``[rows, numbers]``; the numbers
    that are not asked for give any."""
    size = (length + 7) >> 3
    sum_block = tl.zeros(target.shape, tl.int64)
    while tl.max(size, axis=0) > 1:
        half = tl.where(size > 1, size >> 1, 0)
        probed = asked & (half > 0)[:, None]
        below = tl.load(sums[:, None] + (sum_block + half[:, None] - 1), mask=probed, other=0.0) <= target
        sum_block = tl.where(probed & below, sum_block + half[:, None], sum_block)
        size = size - half
    before = tl.load(sums[:, None] + (sum_block - 1), mask=asked & (sum_block > 0), other=0.0)
    first = sum_block * 8
    entry = first
    part = tl.zeros(target.shape, tl.float64)
    for c in tl.static_range(7):
        more = asked & (first + c < length[:, None] - 1)
        part += weight_of(place[:, None] + (first + c), more)
        entry += (more & (before + part <= target)).to(tl.int64)
    return entry


@kernel
def draw_by_weight(
    places: tl.tensor,
    sum_places: tl.tensor,
    lengths: tl.tensor,
    rows: tl.tensor,
    raw: tl.tensor,
    key: tl.tensor,
    begins: tl.tensor,
    found: tl.tensor,
    numbers: tl.tensor,
    states: tl.tensor,
    picks: tl.tensor,
    fanout: tl.tensor,
    count: tl.int64,
    replace: tl.constexpr,
    word: tl.constexpr,
    width: tl.constexpr,
    block: tl.constexpr,
) -> None:
    """Draws entries of lists, from number ``numbers[row]`` of the row's stream on, behind the ``found[row]`` picks that there
    are: some numbers at a time, of which those count that give an entry not drawn yet, until there are as many as the fanout.

    List i is that of ``rows[i]``, and lies at an address, as its running sums do. Without replacement one of no more entries than
    the fanout gives all that have a weight.
    """
    i = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    j = tl.arange(0, width)
    live = i < count
    length = tl.load(lengths + i, mask=live, other=0)
    place = tl.load(places + i, mask=live, other=0).to(tl.pointer_type(word))
    sums = tl.load(sum_places + i, mask=live, other=0).to(tl.pointer_type(tl.float64))
    total = tl.load(sums + ((length + 7) >> 3) - 1, mask=length > 0, other=0.0)
    row = tl.load(rows + i, mask=live, other=0)
    stream = stream_of(key, tl.load(raw + row, mask=live, other=0))
    begin = tl.load(begins + row, mask=live, other=0)
    got = tl.load(found + row, mask=live, other=0)
    number = tl.load(numbers + row, mask=live, other=0)
    most = tl.zeros_like(length) + fanout
    whole = length <= most
    tries = tl.where(whole, length, 2 * most + (length >> 4))
    if replace:
        whole = tl.zeros_like(live)
        tries = most
    exact = (total >= 1.1830521861667747e-271) & (total < float("inf"))  # from 2^-900 on
    end = number + tl.where(whole | exact, tries, 0)
    active = (number < end) & (got < most)
    while tl.max(active.to(tl.int32), axis=0) > 0:
        at = number[:, None] + j[None, :]
        asked = active[:, None] & (at < end[:, None])
        target = fraction(stream[:, None], at) * total[:, None]
        searched = active & ~whole
        entries = find_entries(place, sums, tl.where(searched, length, 0), target, asked & searched[:, None])
        entry = tl.where(whole[:, None], at, entries)
        fresh = asked
        if not replace:
            again = (entry[:, :, None] == entry[:, None, :]) & (j[None, None, :] < j[None, :, None])
            known = tl.max(again.to(tl.int32), axis=2)
            for first in range(0, tl.max(tl.where(searched, got, 0), axis=0), width):
                earlier = first + j[None, :]
                there = searched[:, None] & (earlier < got[:, None])
                pick = tl.load(picks + begin[:, None] + earlier, mask=there, other=-1)
                known = tl.maximum(known, tl.max((entry[:, :, None] == pick[:, None, :]).to(tl.int32), axis=2))
            weight = weight_of(place[:, None] + entry, asked & whole[:, None])
            fresh = asked & tl.where(whole[:, None], weight > 0.0, known == 0)
        into = got[:, None] + tl.cumsum(fresh.to(tl.int64), axis=1) - 1
        tl.store(picks + begin[:, None] + into, entry, mask=fresh & (into < most[:, None]))
        got = tl.minimum(got + tl.sum(fresh.to(tl.int64), axis=1), most)
        number = tl.where(active, tl.minimum(number + width, end), number)
        active = (number < end) & (got < most)
        tl.debug_barrier()
    state = tl.where(~whole & (got < most) & (total > 0.0), 1, tl.where(total == total, 0, 2))
    tl.store(found + row, got, mask=live)
    tl.store(numbers + row, number, mask=live)
    tl.store(states + row, state.to(tl.int64), mask=live)


def draw_listed(
    parts: Iterator[tuple[slice, DeviceSpans]],
    raw: Tensor,
    key: Tensor,
    limit: int,
    weights: DevicePieces,
    *,
    replace: bool,
    pool: DevicePool,
) -> Iterator[tuple[Tensor, Tensor]]:
    """`draw` from lists whose sums are not known, or which miss entries: they are gathered, some rows at a time. The host waits
    for their number, too."""
    for part, spans in parts:
        for rows, total in slices(spans.lengths, pool):
            some = spans.rows(rows)
            _, places = every_place(some.starts, some.lengths, pool, total)
            lists = summed(weights_of(weights, some.meant(places), pool), some.lengths, pool)
            yield draw(some, lists, raw[part][rows], key, limit, weights, replace=replace, pool=pool)


def draw(
    spans: DeviceSpans,
    lists: WeightLists,
    raw: Tensor,
    key: Tensor,
    limit: int,
    weights: DevicePieces,
    *,
    replace: bool,
    pool: DevicePool,
) -> tuple[Tensor, Tensor]:
    """Draws by weight: how many from each list, int64 ``[n]``, and their positions. The host waits once, for their number and for
    what is left to do; then for each further round, and above a fanout of `FEW` for the number of entries.

    Args:
        spans: the lists.
        lists: their weights.
        raw: ids that the random numbers depend on, int64 ``[n]``.
        key: on the device.
        limit: the most entries of a list, not 0.
        weights: of all positions.
        replace: whether an entry may be drawn again.
        pool: of the device.

    Raises:
        WeightError: a weight is negative or not finite.
    """
    count = len(spans.lengths)
    if not count:
        return pool.empty((0,), torch.int64), pool.empty((0,), torch.int64)
    drawing = _Drawing(raw.contiguous().long(), key, spans.lengths, limit, replace, pool)
    left = drawing.draw(lists, pool.arange(count))
    if left.wrong < count:
        start, length = pool.numbers(torch.stack([spans.starts[left.wrong], spans.lengths[left.wrong]]))
        refuse(spans.meant(start + pool.arange(length)), weights, pool)
    while left.rows:
        rows = drawing.left(left)
        some = spans.rows(rows)
        row_of, entries = every_place(torch.zeros_like(rows), some.lengths, pool, left.entries)
        chances = weights_of(weights, some.meant(some.starts.index_select(0, row_of) + entries), pool)
        drawing.forget_drawn(chances, some.lengths, rows, left)
        left = drawing.draw(summed_in_range(chances, row_of, some.lengths, pool), rows)
    row_of, picks = drawing.drawn(left)
    return drawing.found, spans.meant(spans.starts.index_select(0, row_of) + picks)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Left:
    """What the host knows after a round: how many picks there are, in all and of the rows that are left, the number of these and
    of their entries, and the first row with a wrong weight (behind the last row where there is none)."""

    drawn: int
    rows: int
    entries: int
    picks: int
    wrong: int


class _Drawing:
    """What is drawn from lists, round after round.

    Attributes:
        found: how many picks each row has.
    """

    def __init__(self, raw: Tensor, key: Tensor, lengths: Tensor, limit: int, replace: bool, pool: DevicePool) -> None:
        count = len(lengths)
        self._raw, self._key, self._lengths, self._limit, self._replace, self._pool = raw, key, lengths, limit, replace, pool
        self._begins, room = pool.arange(count) * limit, count * limit
        if limit > FEW:
            ends = ((lengths > 0).long() * limit if replace else lengths.clamp(max=limit)).cumsum(0)
            self._begins = torch.cat([pool.zeros((1,), torch.int64), ends[:-1]])
            (room,) = pool.numbers(ends[-1:])
        self._picks = pool.empty((room,), torch.int64)  # a row's behind each other, but with gaps between rows
        self.found, self._numbers, self._states = (pool.zeros((count,), torch.int64) for _ in range(3))

    def draw(self, lists: WeightLists, rows: Tensor) -> _Left:
        """Draws from lists, those of some rows."""
        width = min(triton.next_power_of_2(self._limit), _MOST_PICKS)
        lists_of = lists.places, lists.sums, lists.lengths, rows, self._raw, self._key
        state = self._begins, self.found, self._numbers, self._states, self._picks
        options = {"replace": self._replace, "word": _WORDS[lists.dtype], "width": width, "num_warps": 1}
        launch(draw_by_weight, len(rows), *lists_of, *state, self._limit, len(rows), block=_WARP // width, **options)
        left, count = (self._states == _LEFT).long(), len(self.found)
        wrong = torch.where(self._states == _WRONG, self._pool.arange(count), count).amin()
        sums = self.found.sum(), left.sum(), (left * self._lengths).sum(), (left * self.found).sum()
        drawn, number, entries, picks, first = self._pool.numbers(torch.stack([*sums, wrong]))
        return _Left(drawn=drawn, rows=number, entries=entries, picks=picks, wrong=first)

    def left(self, left: _Left) -> Tensor:
        """The rows that are left."""
        return gpu_rows.places(self._states == _LEFT, self._pool, left.rows)

    def forget_drawn(self, chances: Tensor, lengths: Tensor, rows: Tensor, left: _Left) -> None:
        """Makes zeros of the weights that are drawn; they are those of some rows, list after list."""
        row_of, where = every_place(self._begins[rows], self.found[rows], self._pool, left.picks)
        begins = (lengths.cumsum(0) - lengths).index_select(0, row_of)
        chances.index_fill_(0, begins + self._picks.index_select(0, where), 0.0)

    def drawn(self, left: _Left) -> tuple[Tensor, Tensor]:
        """Row and pick, row after row."""
        row_of, where = every_place(self._begins, self.found, self._pool, left.drawn)
        return row_of, self._picks.index_select(0, where)
