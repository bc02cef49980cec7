"""Copies the rows and lists of some nodes from the partitions that own them, some at a time."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from halohop import ops
from halohop.cluster.graph import Graph
from halohop.cluster.holding import Holding
from halohop.store.manifest import (
    EDGE_ID_FILE,
    INDICES,
    INDPTR,
    RAW_ID_FILE,
    column_file,
    halo_file,
    sparse_files,
    structure_file,
    sums_file,
)
from halohop.store.part import EdgePart
from halohop.store.replica import FIRST_FILE, GID_FILE
from halohop.store.replica_writer import ReplicaWriter
from halohop.store.weight_sums import num_sums, sums_in_pieces
from halohop.typing import EDGE_ID, RAW_ID, NodeType, Relation, TableKey

_AT_ONCE = 1 << 20
_BYTES_AT_ONCE = 64 << 20


class Copier:
    """Copies from a data set all of whose partitions are here.

    Args:
        holding: the partitions.
        graph: the same, to ask.
    """

    def __init__(self, holding: Holding, graph: Graph) -> None:
        self._holding, self._graph, self._book = holding, graph, holding.book

    def cost(self, node_type: NodeType, *, lists: bool) -> Tensor:
        """Bytes of a copy of each node: its row, and with `lists` its lists; float64 ``[num_nodes]``."""
        count = self._book.bounds(node_type)[-1]
        bytes_of_row = 16 + sum(self._bytes_of_rows(node_type)) / max(count, 1)
        cost = torch.full((count,), bytes_of_row, dtype=torch.float64)
        for relation in self._relations(node_type) if lists else ():
            first = self._edge_parts(relation)[0]
            sums = len(self._summed(relation))
            bytes_of_entry = 16 + sums + sum(map(_row_bytes, (*first.columns.values(), *first.halo.values())))
            for nodes in torch.arange(count).split(1 << 20):
                cost[nodes] += 16 + 8 * sums + self._graph.degrees(relation, nodes) * bytes_of_entry
        return cost

    def write(self, gids: Mapping[NodeType, Tensor], writer: ReplicaWriter, part: int, *, lists: bool) -> None:
        """Copies nodes (gids, ascending, int64 ``[n]`` by type) for a partition."""
        for name, gid in gids.items():
            self._write_rows(name, gid, writer, part)
        for relation in self._book.edges if lists else ():
            self._write_lists(relation, gids[self._book.list_type(relation)], writer, part)

    def _write_rows(self, name: NodeType, gid: Tensor, writer: ReplicaWriter, part: int) -> None:
        writer.add_whole(structure_file(part, name, GID_FILE), gid)
        (raw,) = self._graph.fetch_rows(name, [RAW_ID], gid)
        writer.add_whole(structure_file(part, name, RAW_ID_FILE), raw)
        parts = [self._holding.parts[index].nodes[name] for index in range(self._book.num_parts)]
        for column in parts[0].columns:
            pieces = self._pieces(name, [held.columns[column] for held in parts])
            at_once = max(_BYTES_AT_ONCE // max(pieces.row_bytes, 1), 1)
            taken = (ops.gather_rows(pieces, some) for some in gid.split(at_once))
            writer.add(column_file(part, name, column), pieces.dtype, (len(gid), *pieces.row_shape), taken)
        for column in parts[0].sparse:
            rows = ops.SparsePieces([held.sparse[column] for held in parts], self._book.bounds(name)).take(gid)
            arrays = (rows.indptr.long(), rows.indices, rows.values)
            for file, array in zip(sparse_files(part, name, column), arrays, strict=True):
                writer.add_whole(file, array)

    def _write_lists(self, relation: Relation, gid: Tensor, writer: ReplicaWriter, part: int) -> None:
        lengths = self._graph.degrees(relation, gid)
        indptr = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
        first = self._first_edges(relation, gid)
        writer.add_whole(structure_file(part, relation, INDPTR), indptr)
        writer.add_whole(structure_file(part, relation, FIRST_FILE), first)
        edges, entries = ops.RankedRuns(first, indptr), int(indptr[-1])

        def edge_gids() -> Iterator[Tensor]:
            return (edges.ids(torch.arange(begin, min(begin + _AT_ONCE, entries))) for begin in range(0, entries, _AT_ONCE))

        ids = (self._graph.fetch_rows(relation, [EDGE_ID], gids)[0] for gids in edge_gids())
        writer.add(structure_file(part, relation, EDGE_ID_FILE), torch.int64, (entries,), ids)
        parts = self._edge_parts(relation)
        arrays = {structure_file(part, relation, INDICES): [held.indices for held in parts]}
        arrays |= {column_file(part, relation, name): [held.columns[name] for held in parts] for name in parts[0].columns}
        arrays |= {halo_file(part, relation, name): [held.halo[name] for held in parts] for name in parts[0].halo}
        for file, tensors in arrays.items():
            pieces = self._pieces(relation, tensors)
            rows = (ops.gather_rows(pieces, gids) for gids in edge_gids())
            writer.add(file, pieces.dtype, (entries, *pieces.row_shape), rows)
        for name in self._summed(relation):
            weights = partial(_taken, self._pieces(relation, [held.columns[name] for held in parts]), edges)
            writer.add(sums_file(part, relation, name), torch.float64, (num_sums(indptr),), sums_in_pieces(indptr, weights))

    def _first_edges(self, relation: Relation, gid: Tensor) -> Tensor:
        """The gid of the first edge of each node's list; of an empty list, where it would be."""
        listed = self._book.list_type(relation)
        starts = ops.gather_rows(self._pieces(listed, [held.indptr for held in self._edge_parts(relation)], extra=1), gid)
        owner = torch.bucketize(gid, torch.tensor(self._book.bounds(listed)[1:-1], dtype=torch.int64), right=True)
        return starts.long() + torch.tensor(self._book.bounds(relation)[:-1])[owner]

    def _pieces(self, table: TableKey, tensors: Sequence[Tensor], *, extra: int = 0) -> ops.Pieces:
        return ops.Pieces([tensor.contiguous() for tensor in tensors], self._book.bounds(table), extra=extra)

    def _summed(self, relation: Relation) -> dict[str, int]:
        """The columns of weights whose running sums are stored."""
        return self._holding.manifest.weight_sums.get(relation, {})

    def _relations(self, node_type: NodeType) -> list[Relation]:
        return [relation for relation in self._book.edges if self._book.list_type(relation) == node_type]

    def _edge_parts(self, relation: Relation) -> list[EdgePart]:
        return [self._holding.parts[index].edges[relation] for index in range(self._book.num_parts)]

    def _bytes_of_rows(self, node_type: NodeType) -> Iterator[int]:
        for part in self._holding.parts.values():
            held = part.nodes[node_type]
            yield from (column.nbytes for column in held.columns.values())
            yield from (rows.indptr.nbytes + rows.indices.nbytes + rows.values.nbytes for rows in held.sparse.values())


def _taken(pieces: ops.Pieces, edges: ops.RankedRuns, begin: int, end: int) -> Tensor:
    return ops.gather_rows(pieces, edges.ids(torch.arange(begin, end)))


def _row_bytes(column: Tensor) -> int:
    return column[:0].element_size() * int(torch.Size(column.shape[1:]).numel())
