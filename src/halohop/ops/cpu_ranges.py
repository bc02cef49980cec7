"""CPU kernels of building partitions: ids by ranges, numbers in turn, ids that were not met before."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from halohop.ops.cpu_jit import kernel, prefetch

i64, u64, u8 = np.int64, np.uint64, np.uint8

_AHEAD = u64(64)  # steps between asking for a word and reading it
_ONE = u64(1)


@kernel
def find_ranges(ids: NDArray[Any], bounds: NDArray[Any], guide: NDArray[Any], shift: Any, out: NDArray[Any]) -> Any:
    """Writes the range of each id; returns how many were written before one that is in none.

    `guide` has, for every 2**shift ids from bounds[0] on, the range of the first of them; from there it is a few steps.
    """
    low, high = bounds[0], bounds[bounds.size - 1]
    for i in range(ids.size):
        v = i64(ids[i])
        if v < low or v >= high:
            return i
        k = i64(guide[(v - low) >> shift])
        while v >= bounds[k + 1]:
            k += 1
        out[i] = k
    return ids.size


@kernel
def number(keys: NDArray[Any], cursors: NDArray[Any], out: NDArray[Any]) -> Any:
    """Writes the next number of each key; returns how many were written before a key that has none."""
    num_keys = i64(cursors.size)
    for i in range(keys.size):
        k = i64(keys[i])
        if k < 0 or k >= num_keys:
            return i
        out[i] = cursors[k]
        cursors[k] += 1
    return keys.size


@kernel
def meet(ids: NDArray[Any], low: Any, high: Any, met: NDArray[Any]) -> Any:
    """Sets the bits of the ids that are not between low and high; returns how many ids these were, and how many bits were new."""
    n = u64(ids.size)
    outside, new = i64(0), i64(0)
    for i in range(n):
        prefetch(met, u64(ids[min(i + _AHEAD, n - _ONE)]) >> u64(3))
        v = i64(ids[i])
        if low <= v and v < high:
            continue
        outside += 1
        bit = u8(u8(1) << u8(v & 7))
        byte = met[v >> 3]
        if not byte & bit:
            met[v >> 3] = byte | bit
            new += 1
    return outside, new
