"""The CPU kernel that deals nodes to parts, each to where its neighbours are. `halohop.ops.reference` says what it computes."""

import numpy as np
from numpy.typing import NDArray

from halohop.ops.cpu_jit import kernel


@kernel
def deal(
    indptr: NDArray[np.int64],
    neighbors: NDArray[np.int64],
    weights: NDArray[np.int64],
    loads: NDArray[np.float64],
    order: NDArray[np.int64],
    capacity: float,
    price: float,
    passes: int,
    part: NDArray[np.int64],
    carried: NDArray[np.float64],
) -> None:
    """Writes `part`, which begins at -1 everywhere, and `carried`, the load of each part, which begins at 0."""
    gain = np.zeros(len(carried), np.int64)
    for _ in range(passes):
        moved = 0
        for v in order:
            load, old = loads[v], part[v]
            if old >= 0:
                carried[old] -= load
            for e in range(indptr[v], indptr[v + 1]):
                near = part[neighbors[e]]
                if near >= 0:
                    gain[near] += weights[e]
            best, emptiest, most = -1, 0, -np.inf
            for p in range(len(carried)):
                if carried[p] < carried[emptiest]:
                    emptiest = p
                score = gain[p] - load * price * np.sqrt(max(carried[p], 0.0))
                if carried[p] + load <= capacity and score > most:
                    best, most = p, score
                gain[p] = 0
            part[v] = emptiest if best < 0 else best
            carried[part[v]] += load
            moved += part[v] != old
        if moved == 0:
            return
