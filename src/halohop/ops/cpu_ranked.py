"""CPU kernels that look up which of some ids are kept, and where. `halohop.ops.reference_ranked` says what they compute."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from halohop.ops.cpu_jit import kernel

u64, i64 = np.uint64, np.int64

_ONE, _SIX, _LOW = u64(1), u64(6), u64(63)


@kernel
def _bits(word: Any) -> Any:
    """How many bits of a word are set."""
    word = word - ((word >> _ONE) & u64(0x5555555555555555))
    word = (word & u64(0x3333333333333333)) + ((word >> u64(2)) & u64(0x3333333333333333))
    word = (word + (word >> u64(4))) & u64(0x0F0F0F0F0F0F0F0F)
    return (word * u64(0x0101010101010101)) >> u64(56)


@kernel
def mark(ids: NDArray[Any], words: NDArray[Any], before: NDArray[Any]) -> None:
    """Sets the bits of the ids, and writes how many bits are set before each word."""
    for i in range(ids.size):
        v = u64(ids[i])
        words[v >> _SIX] |= _ONE << (v & _LOW)
    total = u64(0)
    for w in range(words.size):
        before[w] = i64(total)
        total += _bits(words[w])


@kernel
def find_ranks(words: NDArray[Any], before: NDArray[Any], limit: Any, ids: NDArray[Any], places: NDArray[Any]) -> None:
    """Writes how many marked ids are below each id, or -1 where the id is not marked."""
    for i in range(ids.size):
        v = i64(ids[i])
        places[i] = -1
        if 0 <= v < limit:
            w, bit = u64(v) >> _SIX, _ONE << (u64(v) & _LOW)
            if words[w] & bit:
                places[i] = i64(before[w]) + i64(_bits(words[w] & (bit - _ONE)))


@kernel
def find_in_runs(
    firsts: NDArray[Any], starts: NDArray[Any], before: NDArray[Any], shift: Any, ids: NDArray[Any], places: NDArray[Any]
) -> None:
    """Run k holds the ids from firsts[k] on at the places starts[k] to starts[k + 1] - 1; writes each id's place, or -1.

    before[b] runs begin before the id b << shift: so the search is among the few that begin in one block.
    """
    last = before.size - 2
    for i in range(ids.size):
        v = i64(ids[i])
        places[i] = -1
        if v < 0:
            continue
        block = min(v >> shift, last)
        low, high = i64(before[block]), i64(before[block + 1])
        if v >> shift > last:
            low = high
        while low < high:  # how many runs begin at v or before it
            middle = (low + high) >> 1
            if firsts[middle] <= v:
                low = middle + 1
            else:
                high = middle
        if low > 0 and v - firsts[low - 1] < starts[low] - starts[low - 1]:
            places[i] = starts[low - 1] + (v - firsts[low - 1])
