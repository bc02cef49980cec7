"""CPU kernels that draw by random numbers of the sources. `halohop.ops.reference` says in plain Python what they compute.

The entries that may be drawn are a listing, as in `cpu_eligible`; `sources` are the ids of its entries.
"""

from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halohop.ops.cpu_jit import kernel
from halohop.ops.cpu_numbers import logarithm
from halohop.ops.cpu_random import _fraction, _stream_of, _word_of

u32, u64, i64 = np.uint32, np.uint64, np.int64

_ZERO, _ONE, _HALF = u64(0), u64(1), u64(32)
_LOW = u64(0xFFFFFFFF)


@kernel
def drop_weightless(weights: NDArray[Any], lengths: NDArray[Any], listing: NDArray[Any]) -> Any:
    """Keeps entries of a weight above zero, and their weights; returns (entries done, how many stay).

    Fewer entries done than given: the weight of the next one is negative, infinite or no number.
    """
    at, out = _ZERO, _ZERO
    for i in range(u64(lengths.size)):
        begin = out
        for _ in range(u64(lengths[i])):
            weight = weights[at]
            if not (weight >= 0.0 and weight < np.inf):
                return at, out
            listing[out], weights[out] = listing[at], weight
            at += _ONE
            out += u64(weight > 0.0)
        lengths[i] = i64(out - begin)
    return at, out


@kernel
def _copies_before(stream: Any, owner: Any, mask: Any, streams: NDArray[Any], marks: NDArray[Any]) -> Any:
    """How often this stream was met in this row before, in a hash table that rows share: what other rows left counts as empty.

    A mark is the number of the row, from one on, and how often the stream was met. Streams of different sources differ.
    """
    slot = stream & mask
    while marks[slot] >> _HALF == owner:
        if streams[slot] == stream:
            marks[slot] += _ONE
            return (marks[slot] & _LOW) - _ONE
        slot = (slot + _ONE) & mask
    streams[slot], marks[slot] = stream, (owner << _HALF) | _ONE
    return _ZERO


@kernel
def _mask_for(length: Any) -> Any:
    """Of a table with room for twice the length: a short row stays in a corner of the memory, and in the cache."""
    size = _ONE
    while size < length << _ONE:
        size <<= _ONE
    return size - _ONE


@kernel
def _hopeful(length: Any, fanout: Any) -> Any:
    """A number that about `fanout` of `length` uniform numbers exceed, and a few more."""
    wanted = np.float64(fanout)
    return 1.0 - (wanted + 2.0 * sqrt(wanted) + 2.0) / np.float64(length)


@kernel
def race_by_source(
    sources: NDArray[Any],
    shifts: NDArray[Any],
    key: Any,
    fanout: Any,
    lengths: NDArray[Any],
    listing: NDArray[Any],
    keys: NDArray[Any],
    by_weight: Any,
    streams: NDArray[Any],
    marks: NDArray[Any],
) -> Any:
    """Writes keys, of which the `fanout` greatest of a row are a draw without replacement; with `by_weight` over weights.

    u, or log(u) / weight (Efraimidis & Spirakis 2006): u is number c of the source's stream at its copy c in the row. `shifts`
    are added to the sources of a row. Keys that are too small to win are dropped with their entries; returns how many stay. Rows
    of no more entries than the fanout keep all and get no keys.

    streams, marks: memory of a power of two, at least twice the longest row; marks are zeros.
    """
    at, out = _ZERO, _ZERO
    for i in range(u64(lengths.size)):
        length = u64(lengths[i])
        begin, end, least = out, at + length, -np.inf
        if length <= fanout:
            for j in range(length):
                listing[out + j] = listing[at + j]
            at, out = end, out + length
        else:
            greatest, enough = 0.0, _hopeful(length, fanout)
            if by_weight:
                for j in range(at, end):
                    greatest = max(greatest, keys[j])
            mask, above = _mask_for(length), _ZERO
            for j in range(at, end):
                stream = _stream_of(key, u64(sources[j]) + u64(shifts[i]))
                number = _copies_before(stream, i + _ONE, mask, streams, marks)
                u = _fraction(_word_of(stream, number))
                keys[j] = logarithm(u) * (greatest / keys[j]) if by_weight else u
                above += u64(u >= enough)
            if above > fanout and not by_weight:  # with as many as the fanout, they would stay in any order
                least = enough
            for j in range(at, end):
                listing[out], keys[out] = listing[j], keys[j]
                out += u64(keys[j] >= least)
            at = end
        lengths[i] = i64(out - begin)
    return out
