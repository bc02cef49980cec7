"""CPU kernels that draw neighbours. `halohop.ops.reference.sample_neighbors` says in plain Python what they compute.

A hop is two passes over its rows. `cpu_index.find_spans` does all random memory access: it looks up the lists of neighbours.
The draw kernels here only calculate: a word of a stream makes two draws, low half first. They differ in how they notice that a
neighbour was drawn before, and agree in every number:

    draw_few         fanout up to FEW: Floyd's algorithm on 64 rows at once, comparing every pair of picks
    draw_many        any fanout: Floyd's algorithm row by row, with a hash set
    draw_replacing   with replacement, where nothing need be noticed
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from halohop.ops.cpu_jit import kernel
from halohop.ops.cpu_random import _add_pick, _stream_of, _word_of

u32, u64, i64 = np.uint32, np.uint64, np.int64

FEW = 64
"""Largest fanout for which comparing all pairs of picks costs no more than hashing."""

_BLOCK = 64  # rows that draw_few works on at once: picks of a block stay in the first-level cache

_ZERO, _ONE, _HALF = u64(0), u64(1), u64(32)
_FAR = u32(0xFFFFFFFF)  # of a pick that is not compared yet
_LOW = u64(0xFFFFFFFF)


@kernel
def _draw_pair(
    even: NDArray[Any], odd: NDArray[Any], streams: NDArray[Any], degrees: NDArray[Any], first: Any, fanout: Any
) -> None:
    """Draws number `first` and `first` + 1 of every row of a block, from 0..degree-fanout+first and one more."""
    for i in range(u64(_BLOCK)):
        word = _word_of(streams[i], first >> _ONE)
        choices = u64(degrees[i]) - fanout + first + _ONE
        even[i] = u32(((word & _LOW) * choices) >> _HALF)
        odd[i] = u32(((word >> _HALF) * (choices + _ONE)) >> _HALF)


@kernel
def _compare(nearest: NDArray[Any], earlier: NDArray[Any], later: NDArray[Any]) -> None:
    """Keeps how near a pick comes to an earlier one, 0 if they are equal: half the time of keeping whether any was equal."""
    for i in range(u64(_BLOCK)):
        nearest[i] = min(nearest[i], earlier[i] ^ later[i])


@kernel
def _replace_equal(picks: NDArray[Any], nearest: NDArray[Any], degrees: NDArray[Any], back: Any) -> None:
    """A pick that was there already becomes the last choice, degree - back, which could not be drawn before."""
    for i in range(u64(_BLOCK)):
        picks[i] = u32(degrees[i]) - back if nearest[i] == u32(0) else picks[i]
        nearest[i] = _FAR


@kernel
def _floyd_block(picks: NDArray[Any], nearest: NDArray[Any], streams: NDArray[Any], degrees: NDArray[Any], fanout: Any) -> None:
    """Floyd's algorithm (Bentley & Floyd 1987) on all rows of a block side by side: every inner loop is one that vectorises.

    picks[j, i] is pick j of row i. Rows that the block does not hold are computed too and never looked at.
    """
    for first in range(_ZERO, fanout, u64(2)):
        _draw_pair(picks[first], picks[first + _ONE], streams, degrees, first, fanout)
    for later in range(_ONE, fanout):
        for earlier in range(later):
            _compare(nearest, picks[earlier], picks[later])
        _replace_equal(picks[later], nearest, degrees, u32(fanout - later))


@kernel
def _write_block(
    positions: NDArray[Any], outs: NDArray[Any], starts: NDArray[Any], picks: NDArray[Any], filled: Any, fanout: Any
) -> None:
    for i in range(filled):
        start, out, j = starts[i], outs[i], _ZERO
        while j < fanout:  # over a range LLVM makes code for many picks, which takes longer for 5 and for 25
            positions[out + j] = i64(start + u64(picks[j, i]))
            j += _ONE


@kernel
def draw_few(
    starts: NDArray[Any], degrees: NDArray[Any], raw: NDArray[Any], key: Any, fanout: Any, positions: NDArray[Any]
) -> None:
    """Without replacement, fanout <= FEW. Short lists are copied whole; long ones gather in a block, which is drawn when full."""
    block_starts = np.empty(_BLOCK, np.uint64)
    block_degrees = np.zeros(_BLOCK, np.uint32)
    block_streams = np.zeros(_BLOCK, np.uint64)
    block_outs = np.empty(_BLOCK, np.uint64)
    picks = np.empty((fanout + _ONE, u64(_BLOCK)), np.uint32)  # one more for the odd half of the last pair
    nearest = np.full(_BLOCK, _FAR)
    filled, out = _ZERO, _ZERO
    for i in range(u64(starts.size)):
        start, degree = u64(starts[i]), u64(degrees[i])
        if degree <= fanout:
            for j in range(degree):
                positions[out + j] = i64(start + j)
            out += degree
            continue
        block_starts[filled], block_degrees[filled], block_outs[filled] = start, u32(degree), out
        block_streams[filled] = _stream_of(key, raw[i])
        out += fanout
        filled += _ONE
        if filled == u64(_BLOCK):
            _floyd_block(picks, nearest, block_streams, block_degrees, fanout)
            _write_block(positions, block_outs, block_starts, picks, filled, fanout)
            filled = _ZERO
    if filled > _ZERO:
        _floyd_block(picks, nearest, block_streams, block_degrees, fanout)
        _write_block(positions, block_outs, block_starts, picks, filled, fanout)


@kernel
def draw_many(
    starts: NDArray[Any],
    degrees: NDArray[Any],
    raw: NDArray[Any],
    key: Any,
    fanout: Any,
    positions: NDArray[Any],
    slots: NDArray[Any],
) -> None:
    """Without replacement, any fanout. `slots`: zeros, a power of two; 2 fanout or more if any list is longer than the fanout."""
    out = _ZERO
    for i in range(u64(starts.size)):
        start, degree = u64(starts[i]), u64(degrees[i])
        if degree <= fanout:
            for j in range(degree):
                positions[out + j] = i64(start + j)
            out += degree
            continue
        stream = _stream_of(key, raw[i])
        word = _ZERO
        for j in range(fanout):
            if j & _ONE == _ZERO:
                word = _word_of(stream, j >> _ONE)
            last = degree - fanout + j
            pick = ((word & _LOW) * (last + _ONE)) >> _HALF
            word >>= _HALF
            if not _add_pick(slots, i + _ONE, pick):
                pick = last
                _add_pick(slots, i + _ONE, pick)
            positions[out + j] = i64(start + pick)
        out += fanout


@kernel
def draw_replacing(
    starts: NDArray[Any], degrees: NDArray[Any], raw: NDArray[Any], key: Any, fanout: Any, positions: NDArray[Any]
) -> None:
    """With replacement: `fanout` draws for every row that has a neighbour."""
    out = _ZERO
    for i in range(u64(starts.size)):
        start, degree = u64(starts[i]), u64(degrees[i])
        if degree == _ZERO:
            continue
        stream = _stream_of(key, raw[i])
        for j in range(fanout):
            word = _word_of(stream, j >> _ONE) >> (_HALF * (j & _ONE))
            positions[out + j] = i64(start + (((word & _LOW) * degree) >> _HALF))
        out += fanout
