"""CPU kernels that put rows with equal ids together. `halohop.ops.reference_rules` says in plain torch what they compute."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from halohop.ops.cpu_jit import kernel, prefetch

u64, i64 = np.uint64, np.int64

DIGIT_BITS = 11  # as many counters as stay in the nearest cache
_DIGITS = 1 << DIGIT_BITS
_MASK = u64(_DIGITS - 1)
_ZERO, _ONE = u64(0), u64(1)
_AHEAD = u64(8)  # rows between asking for one and reading it
_LINE = u64(64)


@kernel
def rises(ids: NDArray[Any]) -> Any:
    """Whether each id is greater than the one before it."""
    falls: Any = 0
    for i in range(1, ids.size):
        falls += i64(ids[i] <= ids[i - 1])
    return falls == 0


@kernel
def count_from(ids: NDArray[Any], low: Any, place: Any, width: Any, keys: NDArray[Any], places: NDArray[Any]) -> None:
    """Writes id - low and the place of each id's row, the first of which begins at `place`."""
    for i in range(u64(ids.size)):
        keys[i], places[i] = u64(ids[i] - low), place + i * width


@kernel
def sort_digit(keys: NDArray[Any], places: NDArray[Any], shift: Any, keys_out: NDArray[Any], places_out: NDArray[Any]) -> None:
    """Sorts by the digit that begins at bit `shift`; keys that are equal there stay in order."""
    n, counts = u64(keys.size), np.zeros(_DIGITS, np.uint64)
    for i in range(n):
        counts[(keys[i] >> shift) & _MASK] += _ONE
    total = _ZERO
    for digit in range(_DIGITS):
        before = total
        total += counts[digit]
        counts[digit] = before
    for i in range(n):
        digit = (keys[i] >> shift) & _MASK
        place = counts[digit]
        counts[digit] = place + _ONE
        keys_out[place], places_out[place] = keys[i], places[i]


@kernel
def add_up(
    keys: NDArray[Any],
    places: NDArray[Any],
    low: Any,
    entries: NDArray[Any],
    width: Any,
    ids: NDArray[Any],
    counts: NDArray[Any],
    sums: NDArray[Any],
) -> Any:
    """Adds up runs of rows with equal keys, in order; writes each run's id, length and sum, and returns how many there are.

    Row i is the `width` entries from places[i] on."""
    n, run = u64(places.size), _ZERO
    for i in range(n):
        later = places[min(i + _AHEAD, n - _ONE)]
        for c in range(_ZERO, width, _LINE // u64(entries.itemsize)):
            prefetch(entries, later + c)
        begin = places[i]
        if i > _ZERO and keys[i] == keys[i - _ONE]:
            into = (run - _ONE) * width
            counts[run - _ONE] += 1
            for c in range(width):
                sums[into + c] += entries[begin + c]
        else:
            ids[run], counts[run] = low + i64(keys[i]), 1
            into = run * width
            for c in range(width):
                sums[into + c] = entries[begin + c]
            run += _ONE
    return run


@kernel
def count_runs(keys: NDArray[Any]) -> Any:
    """How many runs of equal keys there are, and how many of these are longer than one."""
    runs, shared = _ZERO, _ZERO
    for i in range(u64(keys.size)):
        begins = i == _ZERO or keys[i] != keys[i - _ONE]
        runs += u64(begins)
        shared += u64(not begins and (i == _ONE or keys[i - _ONE] != keys[i - _ONE - _ONE]))
    return runs, shared


@kernel
def unite(
    keys: NDArray[Any],
    places: NDArray[Any],
    low: Any,
    entries: NDArray[Any],
    width: Any,
    ids: NDArray[Any],
    begins: NDArray[Any],
    free: Any,
    mean: Any,
) -> None:
    """Writes the id of each run of equal keys, and where its row begins: where the only one does, or at the next free place of
    `entries`, to which the sum of its rows is written, in order; or their mean."""
    n, run, i = u64(keys.size), _ZERO, _ZERO
    while i < n:
        ids[run], begins[run] = low + i64(keys[i]), places[i]
        end = i + _ONE
        if end < n and keys[end] == keys[i]:
            for c in range(width):
                entries[free + c] = entries[places[i] + c]
            while end < n and keys[end] == keys[i]:
                for c in range(width):
                    entries[free + c] += entries[places[end] + c]
                end += _ONE
            if mean:
                count = entries.dtype.type(end - i)
                for c in range(width):
                    entries[free + c] /= count
            begins[run] = free
            free += width
        run, i = run + _ONE, end


@kernel
def divide(rows: NDArray[Any], width: Any, counts: NDArray[Any]) -> None:
    """Divides each row by its count."""
    for i in range(u64(counts.size)):
        count = rows.dtype.type(counts[i])
        for c in range(width):
            rows[i * width + c] /= count


@kernel
def count_equal(words: NDArray[Any], mask: Any) -> Any:
    """How many words have all bits of the mask."""
    count: Any = 0
    for i in range(words.size):
        count += i64((words[i] & mask) == mask)
    return count
