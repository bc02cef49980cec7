"""CPU kernels that decide which entries of a list may be drawn. `halohop.ops.reference` says in plain Python what they compute.

They work on a listing: `listing` holds the positions of the entries that are still possible, row after row, ascending within a
row, `lengths` how many each row has. Every kernel moves what it keeps to the front and corrects the lengths.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from halohop.ops.cpu_jit import kernel, prefetch

u64, i64 = np.uint64, np.int64

_ZERO, _ONE, _TWO = u64(0), u64(1), u64(2)
_ROWS = u64(16)  # lists that are searched together


@kernel
def drop_excluded(excluded: NDArray[Any], firsts: NDArray[Any], lengths: NDArray[Any], listing: NDArray[Any]) -> Any:
    """Drops positions that occur in `excluded`, which ascends; the search of row i begins at firsts[i]. Returns how many stay."""
    at, out, num_excluded = _ZERO, _ZERO, u64(excluded.size)
    for i in range(u64(lengths.size)):
        begin, e = out, u64(firsts[i])
        for _ in range(u64(lengths[i])):
            position = listing[at]
            at += _ONE
            while e < num_excluded and excluded[e] < position:
                e += _ONE
            listing[out] = position
            out += u64(e >= num_excluded or excluded[e] != position)
        lengths[i] = i64(out - begin)
    return out


@kernel
def keep_between(
    times: NDArray[Any], earliest: NDArray[Any], latest: NDArray[Any], lengths: NDArray[Any], listing: NDArray[Any]
) -> Any:
    """Keeps entries with earliest[row] <= times[entry] <= latest[row], and their times. Returns how many. NaN is never kept."""
    at, out = _ZERO, _ZERO
    for i in range(u64(lengths.size)):
        begin, low, high = out, earliest[i], latest[i]
        for _ in range(u64(lengths[i])):  # no branch on a comparison that is a coin toss
            time = times[at]
            listing[out], times[out] = listing[at], time
            at += _ONE
            out += u64(low <= time) & u64(time <= high)
        lengths[i] = i64(out - begin)
    return out


@kernel
def _search(
    times: NDArray[Any], begins: NDArray[Any], sizes: NDArray[Any], count: Any, bounds: NDArray[Any], first: Any, through: Any
) -> None:
    """Moves the begins of lists to the first time that is after a bound; without `through`, that is not before it."""
    longest = _ONE
    while longest > _ZERO:
        longest = _ZERO
        for r in range(count):
            size, half = sizes[r], sizes[r] >> _ONE
            if size > _ZERO:
                time, bound = times[begins[r] + half], bounds[first + r]
                is_before = time <= bound if through else time < bound
                begins[r] = begins[r] + half + _ONE if is_before else begins[r]
                sizes[r] = size - half - _ONE if is_before else half
                prefetch(times, begins[r] + (sizes[r] >> _ONE))
                longest = max(longest, sizes[r])


@kernel
def cut_between(
    times: NDArray[Any],
    places: NDArray[Any],
    earliest: NDArray[Any],
    latest: NDArray[Any],
    has_earliest: Any,
    starts: NDArray[Any],
    lengths: NDArray[Any],
) -> None:
    """Cuts lists whose times never fall to the entries with earliest[row] <= time <= latest[row]. NaN is never kept.

    Binary searches, in some lists together: each waits for memory while the others go on. List i begins at times[places[i]].
    """
    num_rows = u64(lengths.size)
    begins, sizes, ends = np.empty(_ROWS, np.uint64), np.empty(_ROWS, np.uint64), np.empty(_ROWS, np.uint64)
    for first in range(_ZERO, num_rows, _ROWS):
        for i in range(min(first + _ROWS, num_rows), min(first + _ROWS + _ROWS, num_rows)):
            prefetch(times, places[i] + (u64(lengths[i]) >> _ONE))
        count = min(_ROWS, num_rows - first)
        for r in range(count):
            begins[r], sizes[r] = places[first + r], u64(lengths[first + r])
        _search(times, begins, sizes, count, latest, first, True)
        for r in range(count):
            ends[r] = begins[r]
            begins[r], sizes[r] = places[first + r], begins[r] - places[first + r]
        if has_earliest:
            _search(times, begins, sizes, count, earliest, first, False)
        for r in range(count):
            starts[first + r] += i64(begins[r] - places[first + r])
            lengths[first + r] = i64(ends[r] - begins[r])


@kernel
def _sink(keys: NDArray[Any], places: NDArray[Any], size: Any, at: Any, key: Any, place: Any) -> None:
    """Puts (key, place) where the heap has a gap, or further down; the least pair is at the top."""
    while True:
        child = at * _TWO + _ONE
        if child >= size:
            break
        other = child + _ONE
        if other < size and (keys[other] < keys[child] or (keys[other] == keys[child] and places[other] < places[child])):
            child = other
        if key < keys[child] or (key == keys[child] and place < places[child]):
            break
        keys[at], places[at] = keys[child], places[child]
        at = child
    keys[at], places[at] = key, place


@kernel
def _select(
    keys: NDArray[Any], listing: NDArray[Any], begin: Any, end: Any, flip: Any, best: NDArray[Any], places: NDArray[Any], k: Any
) -> None:
    """Makes a heap of the k greatest (key, position ^ flip) of a row, which has more entries than that."""
    for j in range(k):
        best[j], places[j] = keys[begin + j], listing[begin + j] ^ flip
    for j in range(k >> _ONE):
        at = (k >> _ONE) - _ONE - j
        _sink(best, places, k, at, best[at], places[at])
    for at in range(begin + k, end):
        key = keys[at]
        if key < best[_ZERO]:
            continue
        place = listing[at] ^ flip
        if key > best[_ZERO] or place > places[_ZERO]:
            _sink(best, places, k, _ZERO, key, place)


@kernel
def keep_greatest(keys: NDArray[Any], fanout: Any, newest_last: Any, lengths: NDArray[Any], listing: NDArray[Any]) -> Any:
    """Keeps the `fanout` entries with the greatest keys of each row that has more. Returns how many stay in all.

    newest_last: of equal keys the later position counts as greater, and the greatest comes last. Otherwise the earlier position
    counts as greater, and the greatest comes first. Rows that keep everything keep their order. `fanout` is not 0.
    """
    flip = i64(0) if newest_last else i64(-1)  # position ^ -1 has the opposite order
    room = min(fanout, u64(listing.size))
    best, places = np.empty(room, keys.dtype), np.empty(room, np.int64)
    begin, out = _ZERO, _ZERO
    for i in range(u64(lengths.size)):
        end = begin + u64(lengths[i])
        if end - begin <= fanout:
            for at in range(begin, end):
                listing[out + at - begin] = listing[at]
            out += end - begin
        else:
            _select(keys, listing, begin, end, flip, best, places, fanout)
            for j in range(fanout):
                left = fanout - _ONE - j
                listing[out + (j if newest_last else left)] = places[_ZERO] ^ flip
                _sink(best, places, left, _ZERO, best[left], places[left])
            lengths[i] = i64(fanout)
            out += fanout
        begin = end
    return out


@kernel
def look_up_listed(listing: NDArray[Any], positions: NDArray[Any]) -> None:
    """Positions below zero count from the end of the listing: replaces them by what stands there."""
    for i in range(u64(positions.size)):
        at = positions[i] + i64(listing.size)
        if positions[i] < 0 and at >= 0:
            positions[i] = listing[u64(at)]
