"""CPU kernels that draw by weight. `halohop.ops.reference` says in plain Python what they compute.

The entries that may be drawn are a listing, as in `cpu_eligible`; `weights` are those of its entries. Weights are divided by the
greatest of their row: so neither sums nor keys leave the range of float64, however large or small the weights are.
"""

from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halohop.ops.cpu_jit import kernel

u64, i64 = np.uint64, np.int64

_ZERO, _ONE = u64(0), u64(1)
_GOLDEN = u64(0x9E3779B97F4A7C15)
_RAW_STEP = u64(0xD1342543DE82EF95)
_UNIT = 2.0**-53


@kernel
def _mix(x: Any) -> Any:
    """The finalizer of SplitMix64, as `halohop.ops.random.mix`."""
    x ^= x >> u64(30)
    x *= u64(0xBF58476D1CE4E5B9)
    x ^= x >> u64(27)
    x *= u64(0x94D049BB133111EB)
    return x ^ (x >> u64(31))


@kernel
def _uniform(stream: Any, number: Any) -> Any:
    """A number between 0 and 1, never 0 or 1: the top 53 bits of word `number` of a stream, the last of them set."""
    return np.float64((_mix(stream + _GOLDEN * (number + _ONE)) >> u64(11)) | _ONE) * _UNIT


@kernel
def _greatest(weights: NDArray[Any], begin: Any, end: Any) -> Any:
    greatest = 0.0
    for at in range(begin, end):
        greatest = max(greatest, weights[at])
    return greatest


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
def race(weights: NDArray[Any], raw: NDArray[Any], key: Any, fanout: Any, lengths: NDArray[Any]) -> None:
    """Replaces weights by keys, of which the `fanout` greatest of a row are a weighted draw without replacement.

    log(u) / weight, u uniform: Efraimidis & Spirakis 2006. Rows of no more entries than the fanout, which keep all, are left.
    """
    begin = _ZERO
    for i in range(u64(lengths.size)):
        end = begin + u64(lengths[i])
        if end - begin > fanout:
            stream = _mix(key + _RAW_STEP * u64(raw[i]))
            greatest = _greatest(weights, begin, end)
            for at in range(begin, end):
                weights[at] = log(_uniform(stream, at - begin)) * (greatest / weights[at])
        begin = end


@kernel
def draw_replacing(
    weights: NDArray[Any],
    raw: NDArray[Any],
    key: Any,
    fanout: Any,
    lengths: NDArray[Any],
    listing: NDArray[Any],
    positions: NDArray[Any],
) -> None:
    """With replacement: `fanout` draws for every row that has an entry. Replaces weights by their running sums.

    A draw takes the first entry whose running sum exceeds u * total. As u < 1 that is less than the total, so there is one, and
    it adds to the sum.
    """
    begin, out = _ZERO, _ZERO
    for i in range(u64(lengths.size)):
        end = begin + u64(lengths[i])
        if begin == end:
            continue
        greatest, total = _greatest(weights, begin, end), 0.0
        for at in range(begin, end):
            total += weights[at] / greatest
            weights[at] = total
        stream = _mix(key + _RAW_STEP * u64(raw[i]))
        for j in range(fanout):
            target = _uniform(stream, j) * total
            low, high = begin, end - _ONE
            while low < high:
                middle = (low + high) >> _ONE
                if weights[middle] > target:
                    high = middle
                else:
                    low = middle + _ONE
            positions[out + j] = listing[low]
        out += fanout
        begin = end
