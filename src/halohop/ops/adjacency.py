"""Lists of neighbours of an undirected graph, made from edges that come in any order, a slice at a time."""

import numpy as np
import torch
from torch import Tensor

from halohop.ops import cpu_adjacency
from halohop.ops.arguments import integers, target


def count_ends(src: Tensor, dst: Tensor, first: tuple[int, int], degree: Tensor) -> None:
    """Counts how many neighbours each node has, parallel edges as many times as they occur, and loops not at all.

    Args:
        src, dst: int64 or int32 ``[num_edges]``, rows of their node types.
        first: what makes nodes of these rows: the number of the first node of either type.
        degree: int64 ``[num_nodes]``, to which the counts are added.

    Example:
        >>> degree = torch.zeros(3, dtype=torch.int64)
        >>> count_ends(torch.tensor([0, 1]), torch.tensor([1, 1]), (0, 0), degree), degree.tolist()
        (None, [1, 1, 0])
    """
    sources, destinations = integers(src, "src"), integers(dst, "dst", len(src))
    cpu_adjacency.count_ends(sources, destinations, *first, target(degree, "degree", len(degree)))


def place_ends(src: Tensor, dst: Tensor, first: tuple[int, int], low: int, cursor: Tensor, neighbors: Tensor) -> None:
    """Writes the neighbours of the nodes ``low <= v < low + len(cursor)`` that these edges give them.

    Args:
        src, dst, first: as of `count_ends`.
        cursor: where the next neighbour of each of these nodes goes, int64; moved on.
        neighbors: int32 or int64, contiguous.

    Example:
        >>> cursor, neighbors = torch.tensor([0, 1]), torch.empty(2, dtype=torch.int32)
        >>> place_ends(torch.tensor([0]), torch.tensor([1]), (0, 0), 0, cursor, neighbors)
        >>> neighbors.tolist(), cursor.tolist()
        ([1, 0], [1, 2])
    """
    sources, destinations = integers(src, "src"), integers(dst, "dst", len(src))
    places = target(cursor, "cursor", len(cursor))
    cpu_adjacency.place_ends(sources, destinations, *first, low, places, integers(neighbors, "neighbors"))


def merge_lists(indptr: Tensor, neighbors: Tensor) -> tuple[Tensor, Tensor]:
    """Sorts each list, and makes parallel edges one of that weight.

    Args:
        indptr: int64 ``[n + 1]``, from 0 on; changed to that of the merged lists.
        neighbors: int32 or int64, as many as indptr says; overwritten.

    Returns:
        The merged neighbours, a part of `neighbors`, and their weights, int32.

    Example:
        >>> indptr = torch.tensor([0, 3, 4])
        >>> merge_lists(indptr, torch.tensor([1, 0, 1, 2])), indptr.tolist()
        ((tensor([0, 1, 2]), tensor([1, 2, 1], dtype=torch.int32)), [0, 2, 3])
    """
    weights = torch.empty(len(neighbors), dtype=torch.int32)
    count = cpu_adjacency.merge_lists(target(indptr, "indptr", len(indptr)), integers(neighbors, "neighbors"), weights.numpy())
    return neighbors[:count], weights[:count]


def induced(indptr: Tensor, neighbors: Tensor, weights: Tensor, nodes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The graph of some nodes and the edges among them; a node is named by its place in `nodes`.

    Args:
        indptr, neighbors, weights: the whole graph.
        nodes: int64, each once.

    Returns:
        indptr int64, neighbors int32, weights int32.

    Example:
        >>> path = torch.tensor([0, 1, 3, 4]), torch.tensor([1, 0, 2, 1]), torch.tensor([5, 5, 7, 7])
        >>> [array.tolist() for array in induced(*path, torch.tensor([1, 2]))]
        [[0, 1, 2], [1, 0], [7, 7]]
    """
    starts, wanted = integers(indptr, "indptr", only_int64=True), integers(nodes, "nodes", only_int64=True)
    number = np.full(len(starts) - 1, -1, np.int32)
    number[wanted] = np.arange(len(wanted), dtype=np.int32)
    room = int((starts[wanted + 1] - starts[wanted]).sum())
    out = np.empty(len(wanted) + 1, np.int64), np.empty(room, np.int32), np.empty(room, np.int32)
    ends, weighed = integers(neighbors, "neighbors"), integers(weights, "weights", len(neighbors))
    count = cpu_adjacency.induce(starts, ends, weighed, wanted, number, *out)
    return torch.from_numpy(out[0]), torch.from_numpy(out[1][:count]), torch.from_numpy(out[2][:count])
