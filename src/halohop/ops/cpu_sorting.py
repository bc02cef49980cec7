"""CPU kernels that sort edges into lists of their nodes. `halohop.ops.reference_sorting` says in plain torch what they compute.

`fill_lists` does the lists of the nodes `first` to ``last - 1``, so several threads can share the work: each reads all edges, and
writes to places of its own.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from halohop.ops.cpu_jit import kernel, prefetch

u64, i64 = np.uint64, np.int64

_FAR, _NEAR = u64(64), u64(24)  # steps between asking for a word and using it: a node's cursor, then the edge's place
_ZERO, _ONE = u64(0), u64(1)
_BLOCK: Any = u64(2048)  # edges that are looked at twice while they are in the cache


@kernel
def count_lists(keys: NDArray[Any], others: NDArray[Any], num_others: Any, sizes: NDArray[Any]) -> Any:
    """Adds up how many edges each node has; `sizes` has a place for each node there is. Returns whether all ends are nodes."""
    n, num_keys, missing = u64(keys.size), u64(sizes.size), u64(0)
    for i in range(n):
        ahead = u64(keys[min(i + _FAR, n - _ONE)])
        if ahead < num_keys:
            prefetch(sizes, ahead)
        key = u64(keys[i])
        if key >= num_keys:
            return False
        missing |= u64(u64(others[i]) >= num_others)
        sizes[key] += 1
    return missing == u64(0)


@kernel
def fill_lists(
    keys: NDArray[Any],
    others: NDArray[Any],
    first: Any,
    last: Any,
    cursors: NDArray[Any],
    indices: NDArray[Any],
    order: NDArray[Any],
) -> None:
    """Writes the other end and the number of each edge to the next place of its node's list. All ends are nodes."""
    n = u64(keys.size)
    for i in range(n):
        prefetch(cursors, u64(keys[min(i + _FAR, n - _ONE)]))
        ahead = u64(keys[min(i + _NEAR, n - _ONE)])
        if first <= ahead and ahead < last:
            place = u64(cursors[ahead])
            prefetch(indices, place)
            prefetch(order, place)
        key = u64(keys[i])
        if first <= key and key < last:
            place = u64(cursors[key])
            indices[place], order[place] = others[i], i
            cursors[key] += 1


@kernel
def begin_lists(keys: NDArray[Any], begins: NDArray[Any]) -> Any:
    """Where the list of each node begins among edges that are sorted by it; `begins` is zeros. Returns whether they are sorted,
    and all have a list. Loops without a branch take a third of the time of one that looks for the next list."""
    n, num_lists, before = u64(keys.size), u64(begins.size) - _ONE, _ZERO
    for first in range(_ZERO, n, _BLOCK):
        last = min(first + _BLOCK, n)
        falls = u64(keys[first]) < before or u64(keys[last - _ONE]) >= num_lists
        for i in range(first + _ONE, last):
            falls |= keys[i] < keys[i - _ONE]
        if falls:
            return False
        for i in range(first, last):
            begins[u64(keys[i]) + _ONE] = i64(i + _ONE)
        before = u64(keys[last - _ONE])
    for place in range(num_lists):
        begins[place + _ONE] = max(begins[place + _ONE], begins[place])
    return True


@kernel
def sort_by_digit(words: NDArray[Any], shift: Any, cursors: NDArray[Any], out: NDArray[Any]) -> None:
    """One step of a radix sort: words in the order of some of their bits, stable. `cursors` is zeros, a power of two of them."""
    n, mask = u64(words.size), u64(cursors.size) - _ONE
    for i in range(n):
        cursors[(words[i] >> shift) & mask] += _ONE
    begin = _ZERO
    for digit in range(u64(cursors.size)):
        count = cursors[digit]
        cursors[digit] = begin
        begin += count
    for i in range(n):
        digit = (words[i] >> shift) & mask
        out[cursors[digit]] = words[i]
        cursors[digit] += _ONE
