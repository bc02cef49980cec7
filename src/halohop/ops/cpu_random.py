"""Streams of random numbers for CPU kernels, as `halohop.ops.random` defines them, and sets of what was picked by them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from halohop.ops.cpu_jit import kernel

u64, i64, f64 = np.uint64, np.int64, np.float64

GOLDEN: Any = u64(0x9E3779B97F4A7C15)
"""`halohop.ops.random.GOLDEN` as a kernel's word."""

_RAW_STEP = u64(0xD1342543DE82EF95)
_UNIT = 2.0**-53
_ONE, _HALF = u64(1), u64(32)


@kernel
def _mix(x: Any) -> Any:
    """The finalizer of SplitMix64, as `halohop.ops.random.mix`."""
    x ^= x >> u64(30)
    x *= u64(0xBF58476D1CE4E5B9)
    x ^= x >> u64(27)
    x *= u64(0x94D049BB133111EB)
    return x ^ (x >> u64(31))


@kernel
def _stream_of(key: Any, raw: Any) -> Any:
    """The stream of a node by its user's id."""
    return _mix(key + _RAW_STEP * u64(raw))


@kernel
def _word_of(stream: Any, number: Any) -> Any:
    """Word `number` of a stream, from 0 on."""
    return _mix(stream + GOLDEN * (number + _ONE))


@kernel
def _fraction(word: Any) -> Any:
    """A number between 0 and 1, never 0 or 1: the top 53 bits of a word, the last of them set."""
    return f64(i64((word >> u64(11)) | _ONE)) * _UNIT


@kernel
def _add_pick(slots: NDArray[Any], owner: Any, pick: Any) -> Any:
    """Adds a pick to the set of one row; False if it was in. A slot holds (row + 1, pick): other rows' slots count as empty."""
    mask = u64(slots.size - 1)
    entry = (owner << _HALF) | pick
    slot = (pick * GOLDEN >> _HALF) & mask
    while slots[slot] >> _HALF == owner:
        if slots[slot] == entry:
            return False
        slot = (slot + _ONE) & mask
    slots[slot] = entry
    return True
