"""CPU kernels of a cache's index. `halohop.ops.reference_cache` says in plain Python what they compute.

A key may lie in one of the WAYS places of its set only, so it is found by reading one cache line, and nothing ever moves. A place
has its key plus one, or 0 where it has none.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from halohop.ops.cpu_jit import kernel, prefetch

u64, i64 = np.uint64, np.int64

WAYS = 8
MOST = 3
"""Uses of a key that count."""

_AHEAD = 32  # keys between asking for a set and looking at it
_FACTOR = u64(0x9E3779B97F4A7C15)
_HALF = u64(32)


@kernel
def _begin_of(key: Any, num_sets: Any) -> Any:
    """Where the places of a key's set begin: the high bits of a product are as good as random."""
    return i64((((u64(key) * _FACTOR) >> _HALF) * u64(num_sets)) >> _HALF) * WAYS


@kernel
def _ask_for(keys: NDArray[Any], holds: NDArray[Any], uses: NDArray[Any], begin: Any) -> None:
    """Asks for what is known of a set's places, ahead of its use."""
    prefetch(keys, u64(begin))
    prefetch(holds, u64(begin))
    prefetch(uses, u64(begin))


@kernel
def find(
    keys: NDArray[Any], holds: NDArray[Any], uses: NDArray[Any], wanted: NDArray[Any], columns: Any, places: NDArray[Any]
) -> None:
    """Writes where each wanted key lies with all the columns, or -1; what is found counts as used."""
    num_sets, last = keys.size // WAYS, wanted.size - 1
    for i in range(wanted.size):
        _ask_for(keys, holds, uses, _begin_of(wanted[min(i + _AHEAD, last)], num_sets))
        begin = _begin_of(wanted[i], num_sets)
        places[i] = -1
        for place in range(begin, begin + WAYS):
            if keys[place] == wanted[i] + 1:
                if holds[place] & columns == columns:
                    places[i] = place
                    uses[place] = min(uses[place] + 1, MOST)
                break


@kernel
def _victim(uses: NDArray[Any], hands: NDArray[Any], number: Any, begin: Any) -> Any:
    """The next place of a set that was not used since the hand passed it; the hand takes a use from those that it passes."""
    while True:
        place = begin + i64(hands[number])
        hands[number] = (hands[number] + 1) % WAYS
        if uses[place] == 0:
            return place
        uses[place] -= 1


@kernel
def take_places(
    keys: NDArray[Any],
    holds: NDArray[Any],
    uses: NDArray[Any],
    hands: NDArray[Any],
    added: NDArray[Any],
    columns: Any,
    places: NDArray[Any],
) -> Any:
    """Gives each key a place, its own or that of another; returns how many places were empty before."""
    num_sets, last, filled = keys.size // WAYS, added.size - 1, 0
    for i in range(added.size):
        _ask_for(keys, holds, uses, _begin_of(added[min(i + _AHEAD, last)], num_sets))
        begin = _begin_of(added[i], num_sets)
        at: Any = i64(-1)
        for place in range(begin, begin + WAYS):
            if keys[place] == added[i] + 1:
                at = place
                break
            if keys[place] == 0 and at < 0:
                at = place
        if at < 0:
            at = _victim(uses, hands, begin // WAYS, begin)
        if keys[at] != added[i] + 1:
            filled += keys[at] == 0
            keys[at], holds[at], uses[at] = added[i] + 1, u64(0), 0
        holds[at] |= columns
        places[i] = at
    return filled
