"""The CPU kernels that make lists of neighbours from edges. `halohop.ops.reference_adjacency` says what they compute."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from halohop.ops.cpu_jit import kernel


@kernel
def count_ends(src: NDArray[Any], dst: NDArray[Any], first_src: int, first_dst: int, degree: NDArray[np.int64]) -> None:
    """Adds, for both ends of every edge that is no loop, 1."""
    for e in range(src.size):
        u, v = src[e] + first_src, dst[e] + first_dst
        if u != v:
            degree[u] += 1
            degree[v] += 1


@kernel
def place_ends(
    src: NDArray[Any],
    dst: NDArray[Any],
    first_src: int,
    first_dst: int,
    low: int,
    cursor: NDArray[np.int64],
    neighbors: NDArray[Any],
) -> None:
    """Writes the neighbours of the nodes from `low` on; `cursor` says where the next one of each goes."""
    for e in range(src.size):
        u, v = src[e] + first_src, dst[e] + first_dst
        if u == v:
            continue
        if low <= u < low + cursor.size:
            neighbors[cursor[u - low]] = v
            cursor[u - low] += 1
        if low <= v < low + cursor.size:
            neighbors[cursor[v - low]] = u
            cursor[v - low] += 1


@kernel
def merge_lists(indptr: NDArray[np.int64], neighbors: NDArray[Any], weights: NDArray[np.int32]) -> Any:
    """Sorts every list and makes equal neighbours one, in place; returns how many are left."""
    begin = end = 0
    for i in range(indptr.size - 1):
        listed = np.sort(neighbors[begin : indptr[i + 1]])
        begin, indptr[i] = indptr[i + 1], end
        for j in range(listed.size):
            if j and listed[j] == listed[j - 1]:
                weights[end - 1] += 1
            else:
                neighbors[end], weights[end] = listed[j], 1
                end += 1
    indptr[indptr.size - 1] = end
    return end


@kernel
def induce(
    indptr: NDArray[np.int64],
    neighbors: NDArray[Any],
    weights: NDArray[Any],
    nodes: NDArray[np.int64],
    number: NDArray[np.int32],
    out_indptr: NDArray[np.int64],
    out_neighbors: NDArray[np.int32],
    out_weights: NDArray[np.int32],
) -> Any:
    """The lists of some nodes, of what lies among them; `number` is the place of each node in `nodes`, or -1."""
    end = 0
    for i in range(nodes.size):
        out_indptr[i] = end
        for e in range(indptr[nodes[i]], indptr[nodes[i] + 1]):
            place = number[neighbors[e]]
            if place >= 0:
                out_neighbors[end], out_weights[end] = place, weights[e]
                end += 1
    out_indptr[nodes.size] = end
    return end
