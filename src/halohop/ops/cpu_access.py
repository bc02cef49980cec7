"""CPU kernels of access probabilities. `halohop.ops.reference_access` says in plain Python what they compute."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from halohop.ops.cpu_jit import kernel

_STEPS = 60
_CLOSE = 1e-10


@kernel
def uniform_shares(counts: NDArray[Any], fanout: Any, replace: Any, shares: NDArray[Any]) -> None:
    """With `fanout` draws from a list, the probability of each of its entries to be among them."""
    begin = 0
    for v in range(counts.size):
        length = counts[v]
        if fanout < 0 or (fanout >= length and not replace):
            share = 1.0
        elif replace:
            share = -np.expm1(fanout * np.log1p(-1.0 / length))
        else:
            share = fanout / length
        for i in range(begin, begin + length):
            shares[i] = share
        begin += length


@kernel
def _time_of(weights: NDArray[Any], begin: Any, end: Any, fanout: Any, total: Any) -> Any:
    """When `fanout` entries are expected to have rung, if each rings once, at a rate that is its weight.

    The expected number is a concave function of the time, so Newton's method, begun below, comes closer from below.
    """
    time = fanout / total
    for _ in range(_STEPS):
        rung, rate = 0.0, 0.0
        for i in range(begin, end):
            silent = np.exp(-weights[i] * time)
            rung += 1.0 - silent
            rate += weights[i] * silent
        step = (fanout - rung) / rate if rate > 0.0 else 0.0
        time += step
        if step <= _CLOSE * time:
            break
    return time


@kernel
def weighted_shares(counts: NDArray[Any], weights: NDArray[Any], fanout: Any, replace: Any, shares: NDArray[Any]) -> None:
    """The same where entries are drawn by their weights."""
    begin = 0
    for v in range(counts.size):
        end = begin + counts[v]
        total, positive = 0.0, 0
        for i in range(begin, end):
            total += weights[i]
            positive += weights[i] > 0.0
        every = fanout < 0 or (fanout >= positive and not replace)
        time = 0.0 if every or replace else _time_of(weights, begin, end, fanout, total)
        for i in range(begin, end):
            if weights[i] <= 0.0:
                shares[i] = 0.0
            elif every:
                shares[i] = 1.0
            elif replace:
                shares[i] = -np.expm1(fanout * np.log1p(-weights[i] / total))
            else:
                shares[i] = -np.expm1(-weights[i] * time)
        begin = end


@kernel
def add_absence(
    counts: NDArray[Any], neighbors: NDArray[Any], reach: NDArray[Any], shares: NDArray[Any], out: NDArray[Any]
) -> Any:
    """Adds to each neighbour the logarithm of the probability that the lists do not draw it; returns how many were in range."""
    begin = 0
    for v in range(counts.size):
        for i in range(begin, begin + counts[v]):
            if not 0 <= neighbors[i] < out.size:
                return i
            out[neighbors[i]] += np.log1p(-min(reach[v] * shares[i], 1.0))
        begin += counts[v]
    return neighbors.size
