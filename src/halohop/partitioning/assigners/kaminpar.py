"""KaMinPar as an assigner: multilevel partitioning beyond METIS's 32-bit numbers, with one weight for each node."""

import struct
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop import ops
from halohop.errors import InputError
from halohop.files.aside import writing
from halohop.partitioning.assigners.dealing import deal_evenly, pieces_by_type
from halohop.partitioning.assigners.division import AssignRequest, Division
from halohop.partitioning.assigners.loads import Loads, even_out
from halohop.partitioning.assigners.stream import lists_in_bounds
from halohop.partitioning.assigners.union import Adjacency
from halohop.store.tables import GraphTables

_HEADER = struct.Struct("<QQQ")  # of a ParHIP file: a version of 0 means weights of edges and nodes, and 64 bits for all numbers
_SHARE = 10  # of a node's weight, as much for the node as for its in-edges, on average
_PIECE = 1 << 20


def kaminpar(tables: GraphTables, request: AssignRequest) -> Division:
    """Few edges between partitions, of graphs that METIS cannot hold (KaMinPar: Gottesbüren et al., 2021).

    It balances the sum of nodes and in-edges; what that leaves uneven is evened out. It runs in one thread, because with more
    the result would be another each time.

    Raises:
        InputError: KaMinPar is not installed.
    """
    if find_spec("kaminpar") is None:
        raise InputError('method="kaminpar" needs KaMinPar: pip install "halohop[kaminpar]"; method="ldg" needs nothing')
    if sum(table.num_edges for table in tables.edges.values()) == 0:
        return deal_evenly(tables, request)
    loads = Loads(tables, balance_types=request.balance_types, classes=request.classes)
    with lists_in_bounds(tables, request) as graph:
        with tempfile.TemporaryDirectory(prefix="halohop-graph-", dir=request.scratch) as folder:
            _write_parhip(Path(folder), graph, loads)
            part = _divided(Path(folder, "graph"), request)
        even_out(part, graph, loads, loads.limit(request.num_parts, request.tolerance), request.num_parts)
    return Division(part=pieces_by_type(tables, part))


def _divided(file: Path, request: AssignRequest) -> Tensor:
    import kaminpar as library

    library.reseed(request.seed % 2**31)
    graph = library.load_graph(str(file), library.GraphFileFormat.PARHIP)  # compressed lists give two results by turns
    program = library.KaMinPar(1, library.default_context())
    return torch.tensor(program.compute_partition(graph, request.num_parts, request.tolerance), dtype=torch.int32)


def _write_parhip(folder: Path, graph: Adjacency, loads: Loads) -> None:
    """The graph as a file: header, byte offsets of the lists, neighbours, weights of nodes, weights of edges."""
    edge_share = _SHARE / max(float(loads.totals[-1]) / graph.num_nodes, 1e-9)
    lists_begin = _HEADER.size + 8 * (graph.num_nodes + 1)
    with writing(folder), Path(folder, "graph").open("w+b") as out, Path(folder, "weights").open("w+b") as weights:
        out.seek(lists_begin)
        ends = np.zeros(graph.num_nodes + 1, np.int64)
        for low, high in graph.pieces():
            begin, end = int(graph.indptr[low]), int(graph.indptr[high])
            indptr = graph.indptr[low : high + 1] - begin
            neighbors, weighed = ops.merge_lists(indptr, graph.neighbors[begin:end].clone())
            ends[low + 1 : high + 1] = ends[low] + indptr[1:].numpy()
            _write(out, neighbors)
            _write(weights, weighed)
        for low in range(0, graph.num_nodes, _PIECE):
            in_edges = loads.rows(low, min(low + _PIECE, graph.num_nodes))[:, -1]
            _write(out, _SHARE + (edge_share * in_edges).round())
        weights.seek(0)
        while piece := np.fromfile(weights, np.int64, _PIECE).tobytes():
            out.write(piece)
        out.seek(0)
        out.write(_HEADER.pack(0, graph.num_nodes, int(ends[-1])))
        for low in range(0, len(ends), _PIECE):
            out.write((ends[low : low + _PIECE] * 8 + lists_begin).tobytes())


def _write(out: BinaryIO, numbers: Tensor) -> None:
    array: NDArray[np.int64] = numbers.numpy().astype(np.int64)
    out.write(array.data)
