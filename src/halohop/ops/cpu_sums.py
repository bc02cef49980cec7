"""CPU kernels that put rows with equal ids together. `halohop.ops.reference_rules` says in plain torch what they compute."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from halohop.ops.cpu_jit import kernel, prefetch

u64, i64, f64 = np.uint64, np.int64, np.float64

_BITS = u64(11)  # of an id that one pass of the sort looks at: as many counters as stay in the nearest cache
_DIGITS = 1 << 11
_WORD = u64(64)
_MASK = u64(_DIGITS - 1)
_ZERO, _ONE = u64(0), u64(1)
_AHEAD = u64(8)  # rows between asking for one and reading it
_LINE = u64(64)
_LANES = 32


@kernel
def rises(ids: NDArray[Any]) -> Any:
    """Whether each id is greater than the one before it."""
    falls: Any = 0
    for i in range(1, ids.size):
        falls += i64(ids[i] <= ids[i - 1])
    return falls == 0


@kernel
def sort(ids: NDArray[Any], low: Any, high: Any, keys: NDArray[Any], order: NDArray[Any]) -> None:
    """Sorts ids between low and high, equal ones in order of their positions: `keys` becomes id - low, `order` the positions.

    `keys` and `order` have two rows, of which the first one is the result. By digits, the least first.
    """
    n, shift, side = u64(ids.size), _ZERO, 0
    for i in range(n):
        keys[0, i], order[0, i] = u64(ids[i] - low), i
    counts = np.empty(_DIGITS, np.uint64)
    while shift < _WORD and (u64(high - low) >> shift) > _ZERO:
        other = 1 - side
        counts[:] = _ZERO
        for i in range(n):
            counts[(keys[side, i] >> shift) & _MASK] += _ONE
        total = _ZERO
        for digit in range(_DIGITS):
            total, counts[digit] = total + counts[digit], total
        for i in range(n):
            digit = (keys[side, i] >> shift) & _MASK
            place = counts[digit]
            counts[digit] = place + _ONE
            keys[other, place], order[other, place] = keys[side, i], order[side, i]
        side, shift = other, shift + _BITS
    if side:
        keys[0, :], order[0, :] = keys[1, :], order[1, :]


@kernel
def add_up(
    keys: NDArray[Any],
    order: NDArray[Any],
    low: Any,
    rows: NDArray[Any],
    width: Any,
    ids: NDArray[Any],
    counts: NDArray[Any],
    sums: NDArray[Any],
) -> Any:
    """Adds up runs of rows with equal keys, in order; writes each run's id, length and sum, and returns how many there are."""
    n, run = u64(order.size), _ZERO
    for i in range(n):
        later = order[min(i + _AHEAD, n - _ONE)] * width
        for c in range(_ZERO, width, _LINE // u64(rows.itemsize)):
            prefetch(rows, later + c)
        begin = order[i] * width
        if i > _ZERO and keys[i] == keys[i - _ONE]:
            into = (run - _ONE) * width
            counts[run - _ONE] += 1
            for c in range(width):
                sums[into + c] += rows[begin + c]
        else:
            ids[run], counts[run] = low + i64(keys[i]), 1
            into = run * width
            for c in range(width):
                sums[into + c] = rows[begin + c]
            run += _ONE
    return run


@kernel
def divide(rows: NDArray[Any], width: Any, counts: NDArray[Any]) -> None:
    """Divides each row by its count."""
    for i in range(u64(counts.size)):
        count = rows.dtype.type(counts[i])
        for c in range(width):
            rows[i * width + c] /= count


@kernel
def squares(values: NDArray[Any]) -> Any:
    """The sum of the squares, in float64: many sums side by side, so that they do not wait for one another."""
    lanes, whole = np.zeros(_LANES, np.float64), values.size - values.size % _LANES
    for begin in range(0, whole, _LANES):
        for lane in range(_LANES):
            value = f64(values[begin + lane])
            lanes[lane] += value * value
    total = 0.0
    for lane in range(_LANES):
        total += lanes[lane]
    for at in range(whole, values.size):
        total += f64(values[at]) * f64(values[at])
    return total
