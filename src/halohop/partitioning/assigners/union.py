"""All node types and relations as one undirected graph: what assigners divide. In memory, or made on disk by bucket passes."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import torch
from torch import Tensor

from halohop import ops
from halohop.files.aside import writing
from halohop.files.buckets import MOST_BUCKETS, BucketFiles
from halohop.partitioning.building.numbering import id_dtype
from halohop.store.foreign import map_foreign
from halohop.store.npy import ArrayFile
from halohop.store.tables import GraphTables
from halohop.typing import NodeType

_PIECE = 1 << 20  # edges, or ends of edges, that are read at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class Adjacency:
    """An undirected graph without loops; its tensors may be mapped over files.

    Args:
        indptr: int64 ``[num_nodes + 1]``; the neighbours of node v are ``neighbors[indptr[v]:indptr[v + 1]]``.
        neighbors: int32 or int64.
        weights: of the edges, int32; None where parallel edges are listed each.
    """

    indptr: Tensor
    neighbors: Tensor
    weights: Tensor | None

    @property
    def num_nodes(self) -> int:
        return len(self.indptr) - 1

    def induced(self, nodes: Tensor) -> "Adjacency":
        """The graph of some nodes, ascending, and of the edges among them, which must have weights."""
        assert self.weights is not None
        indptr, neighbors, weights = ops.induced(self.indptr, self.neighbors, self.weights, nodes)
        return Adjacency(indptr=indptr, neighbors=neighbors, weights=weights)

    def pieces(self, first: int = 0) -> Iterator[tuple[int, int]]:
        """Ranges of nodes, from `first` on and then from 0 on, whose lists are read together."""
        for low, high in ((first, self.num_nodes), (0, first)):
            yield from _ranges(self.indptr, low, high, _PIECE)


def first_nodes(tables: GraphTables) -> dict[NodeType, int]:
    """The number of the first node of each type; the types are numbered through, one after another."""
    return dict(zip(tables.nodes, accumulate((table.num_nodes for table in tables.nodes.values()), initial=0), strict=False))


def union_graph(tables: GraphTables, *, merged: bool = True, folder: Path | None = None, room: int = 0) -> Adjacency:
    """The graph without directions and loops.

    Args:
        tables: whose edges are read twice, a slice at a time.
        merged: whether parallel edges become one edge of that weight, lists ascending; not on disk.
        folder: where to make it on disk; None: in memory, 8 bytes a node and 4 or 8 for each end of an edge.
        room: on disk, how many bytes to take beside 8 a node.
    """
    num_nodes = sum(table.num_nodes for table in tables.nodes.values())
    indptr = torch.zeros(num_nodes + 1, dtype=torch.int64)
    for src, dst, first in _edges(tables):
        ops.count_ends(src, dst, first, indptr[1:])
    torch.cumsum(indptr, 0, out=indptr)
    dtype = id_dtype(num_nodes)
    if folder is not None:
        return _on_disk(tables, indptr, dtype, folder, room)
    neighbors, cursor = torch.empty(int(indptr[-1]), dtype=dtype), indptr[:-1].clone()
    for src, dst, first in _edges(tables):
        ops.place_ends(src, dst, first, 0, cursor, neighbors)
    if not merged:
        return Adjacency(indptr=indptr, neighbors=neighbors, weights=None)
    neighbors, weights = ops.merge_lists(indptr, neighbors)
    return Adjacency(indptr=indptr, neighbors=neighbors, weights=weights)


def _edges(tables: GraphTables, pieces: int = 1) -> Iterator[tuple[Tensor, Tensor, tuple[int, int]]]:
    """The ends of all edges, a slice at a time, and the numbers of the first nodes of their types."""
    number = first_nodes(tables)
    for (source, _, destination), table in tables.edges.items():
        for begin in range(0, table.num_edges, _PIECE // pieces):
            piece = slice(begin, begin + _PIECE // pieces)
            yield table.src[piece], table.dst[piece], (number[source], number[destination])


def _on_disk(tables: GraphTables, indptr: Tensor, dtype: torch.dtype, folder: Path, room: int) -> Adjacency:
    """Edges go to buckets, ranges of nodes whose lists fit into memory; then the lists of each are made and written."""
    entry = 4 * dtype.itemsize  # an end with the pair that it comes from, twice: as it is read and as it is placed
    ranges = list(_ranges(indptr, 0, len(indptr) - 1, max(room // entry, int(indptr[-1]) // MOST_BUCKETS, 1)))
    buckets = BucketFiles(folder, len(ranges))
    _fill(tables, [0, *(high for _, high in ranges)], dtype, buckets)
    made = {"indptr": indptr, "neighbors": torch.empty(0, dtype=dtype)}
    for name, shape in (("indptr", (len(indptr),)), ("neighbors", (int(indptr[-1]),))):
        with writing(folder / f"{name}.npy"):
            (folder / f"{name}.npy").touch()
        ArrayFile.reserve(folder / f"{name}.npy", made[name].dtype, shape)
        with ArrayFile(folder / f"{name}.npy", made[name].dtype, shape) as out:
            if name == "indptr":
                out.write(0, indptr)
                continue
            for bucket, (low, high) in enumerate(ranges):
                ends = torch.from_numpy(buckets.take(bucket, made[name].numpy().dtype)).view(-1, 2)
                out.write(int(indptr[low]), _lists(ends, indptr[low : high + 1], low))
    arrays = [torch.from_numpy(map_foreign(folder / f"{name}.npy")) for name in made]
    return Adjacency(indptr=arrays[0], neighbors=arrays[1], weights=None)


def _fill(tables: GraphTables, bounds: list[int], dtype: torch.dtype, buckets: BucketFiles) -> None:
    """Appends every edge to the bucket of each of its ends, once where these are the same."""
    within, num_buckets = ops.Ranges(bounds), len(bounds) - 1
    with buckets.writer() as deal:
        for src, dst, first in _edges(tables, 8):
            ends = torch.stack([src + first[0], dst + first[1]], dim=1).to(dtype)
            own, other = (within.find(ends[:, end].contiguous()) for end in (0, 1))
            for bucket, rows in ((own, ends), (other[own != other], ends[own != other])):
                starts, order = ops.build_csc(bucket, num_buckets)
                deal(rows[order].numpy(), starts.tolist())


def _lists(ends: Tensor, indptr: Tensor, low: int) -> Tensor:
    """The neighbours of the nodes of a bucket."""
    neighbors, cursor = torch.empty(int(indptr[-1] - indptr[0]), dtype=ends.dtype), indptr[:-1] - indptr[0]
    for piece in ends.split(_PIECE):
        ops.place_ends(piece[:, 0].contiguous(), piece[:, 1].contiguous(), (0, 0), low, cursor, neighbors)
    return neighbors


def _ranges(indptr: Tensor, low: int, high: int, entries: int) -> Iterator[tuple[int, int]]:
    """Runs of nodes that have at most so many entries together, or are alone."""
    while low < high:
        end = int(torch.searchsorted(indptr, indptr[low] + entries, right=True)) - 1
        end = min(max(end, low + 1), high, low + max(entries, 1))
        yield low, end
        low = end
