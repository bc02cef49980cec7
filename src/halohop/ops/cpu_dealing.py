"""The CPU kernels that deal nodes to parts. `halohop.ops.reference_dealing` says in plain Python what they compute."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from halohop.ops.cpu_jit import kernel

_CHANCE = 1e-9  # what a part without neighbours counts in LDG, so that emptier ones go first
_LEAST = 1e-12  # by which a move lowers the excess; less may be an error of rounding, and would be undone for ever


@kernel
def _weigh_parts(
    begin: Any, end: Any, neighbors: NDArray[Any], weights: NDArray[Any], part: NDArray[np.int32], gain: NDArray[np.int64]
) -> None:
    """Adds the weight of a list's edges to the part that each leads to."""
    for e in range(begin, end):
        near = part[neighbors[e]]
        if near >= 0:
            gain[near] += weights[e] if weights.size else 1


@kernel
def _excess(carried: Any, limit: Any) -> Any:
    over = carried / limit - 1.0
    return over * over if over > 0.0 else 0.0


@kernel
def deal(
    first: int,
    indptr: NDArray[np.int64],
    neighbors: NDArray[Any],
    weights: NDArray[Any],
    loads: NDArray[np.int32],
    limit: NDArray[np.float64],
    price: float,
    by_room: bool,
    part: NDArray[np.int32],
    carried: NDArray[np.int64],
) -> Any:
    """Deals the nodes from `first` on; returns how many have another part than before."""
    num_parts, kinds = carried.shape
    gain = np.zeros(num_parts, np.int64)
    moved = 0
    for i in range(indptr.size - 1):
        old, own = part[first + i], 0.0
        for k in range(kinds):
            own += loads[i, k] / limit[k] / kinds
            if old >= 0:
                carried[old, k] -= loads[i, k]
        _weigh_parts(indptr[i], indptr[i + 1], neighbors, weights, part, gain)
        best, most, emptiest, least = -1, -np.inf, 0, np.inf
        for p in range(num_parts):
            fits, fullest, mean, after = True, 0.0, 0.0, 0.0
            for k in range(kinds):
                share = carried[p, k] / limit[k]
                fullest, mean = max(fullest, share), mean + share / kinds
                if loads[i, k] > 0:
                    after = max(after, (carried[p, k] + loads[i, k]) / limit[k])
                    fits = fits and carried[p, k] + loads[i, k] <= limit[k]
            if after < least:
                emptiest, least = p, after
            score = (gain[p] + _CHANCE) * (1.0 - fullest) if by_room else gain[p] - price * own * np.sqrt(mean)
            if fits and score > most:
                best, most = p, score
            gain[p] = 0
        new = emptiest if best < 0 else best
        part[first + i] = new
        for k in range(kinds):
            carried[new, k] += loads[i, k]
        moved += new != old
    return moved


@kernel
def relieve(
    first: int,
    indptr: NDArray[np.int64],
    neighbors: NDArray[Any],
    weights: NDArray[Any],
    loads: NDArray[np.int32],
    limit: NDArray[np.float64],
    dearest: float,
    part: NDArray[np.int32],
    carried: NDArray[np.int64],
) -> Any:
    """Moves nodes out of parts above a limit, where that costs at most `dearest` per load; returns how many."""
    num_parts, kinds = carried.shape
    gain = np.zeros(num_parts, np.int64)
    moved = 0
    for i in range(indptr.size - 1):
        old, relief = part[first + i], 0.0
        for k in range(kinds):
            if carried[old, k] > limit[k]:
                relief += min(loads[i, k], carried[old, k] - limit[k]) / limit[k]
        if relief <= 0.0:
            continue
        _weigh_parts(indptr[i], indptr[i + 1], neighbors, weights, part, gain)
        new, least, most = -1, np.inf, 0.0
        for p in range(num_parts):
            loss = float(gain[old] - gain[p])
            if p == old or loss > dearest * relief or loss > least:
                continue
            change = 0.0
            for k in range(kinds):
                load = loads[i, k]
                change += _excess(carried[old, k], limit[k]) - _excess(carried[old, k] - load, limit[k])
                change += _excess(carried[p, k], limit[k]) - _excess(carried[p, k] + load, limit[k])
            if change > _LEAST and (loss < least or change > most):
                new, least, most = p, loss, change
        gain[:] = 0
        if new >= 0:
            part[first + i] = new
            moved += 1
            for k in range(kinds):
                carried[old, k] -= loads[i, k]
                carried[new, k] += loads[i, k]
    return moved
