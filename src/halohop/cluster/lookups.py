"""What can be read of a graph, wherever it lies: neighbours, rows, ids and edges."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from halohop import ops
from halohop.cluster.router import Router
from halohop.errors import IdError, InputError
from halohop.partitioning.book import Book, check_edge_dir
from halohop.store.draw import TAKE_ALL
from halohop.store.requests import (
    EdgesReply,
    EdgesRequest,
    FetchReply,
    FetchRequest,
    HopAnswer,
    HopQuery,
    LocateEdgesRequest,
    LocateRequest,
    RowQuery,
    RowsByIdRequest,
    SampleReply,
    SampleRequest,
    SelectRequest,
)
from halohop.store.schema import Schema
from halohop.typing import BLOCK, EdgeDir, NodeType, Relation, TableKey, degree_column

_AT_ONCE = 1 << 20
"""Nodes whose blocks are asked for with one request."""


class Lookups:
    """Requests that change nothing, and what goes with making them.

    Example:
        >>> from halohop.cluster.graph import in_memory
        >>> from halohop.datasets import synthetic
        >>> graph = in_memory(synthetic("tiny"))
        >>> graph.rows("x", torch.tensor([5, 2])).shape
        torch.Size([2, 32])
    """

    schema: Schema
    book: Book
    pool: ops.Pool
    _router: Router
    _listed_ids: dict[NodeType, Tensor | None]

    def sample(self, request: SampleRequest) -> SampleReply:
        """One hop of neighbours; see `halohop.store.requests`."""
        return self._router.answer(request)

    def fetch(self, request: FetchRequest) -> tuple[tuple[Tensor, ...], ...]:
        """Rows of several tables: per query, per column, a tensor ``[n, ...]`` in the user's dtype."""
        stored = self.fetch_stored(request).dense(request.queries, self.pool)
        return tuple(self.as_given(query, rows) for query, rows in zip(request.queries, stored, strict=True))

    def fetch_rows(self, table: TableKey, columns: Sequence[str], gid: Tensor) -> tuple[Tensor, ...]:
        """Columns of one table, a tensor ``[n, ...]`` each, of nodes or edges given by gid (int64 ``[n]``)."""
        (rows,) = self.fetch(FetchRequest(queries=(RowQuery(table=table, columns=tuple(columns), gid=gid),)))
        return rows

    def fetch_stored(self, request: FetchRequest) -> FetchReply:
        """The same as it is stored, dense or sparse, of any width."""
        return self._router.answer(request)

    def as_given(self, query: RowQuery, stored: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """A query's columns in the users' dtypes, from those that are stored."""
        specs, places = self.schema.table(query.table).columns, query.gid if query.padded else None
        return tuple(
            specs[name].as_given(rows, self.pool, places=places) if name in specs else rows
            for name, rows in zip(query.columns, stored, strict=True)
        )

    def find(self, pairs: Sequence[tuple[Relation, Tensor, Tensor]]) -> tuple[HopAnswer, ...]:
        """The edges of relations between sources and destinations given by gid, int64 ``[n]`` each; `counts` per pair.

        Those who have the lists look them up, so nothing but what is found crosses the network.
        """
        in_lists = self.book.list_end == 1
        return self.find_neighbors([(name, src, dst) if in_lists else (name, dst, src) for name, src, dst in pairs])

    def find_neighbors(self, pairs: Sequence[tuple[Relation, Tensor, Tensor]]) -> tuple[HopAnswer, ...]:
        """The same between neighbours, given first, and the nodes whose lists hold the edges."""
        queries = tuple(HopQuery(relation=name, fanout=-1, dst_gid=gid, src_gid=src) for name, src, gid in pairs)
        return self.sample(SampleRequest(draw=TAKE_ALL, queries=queries)).answers

    def degrees(self, relation: Relation, gid: Tensor) -> Tensor:
        """How many edges of a relation the lists of nodes hold (int64 ``[n]``), given by gid: in-edges, or out-edges.

        Raises:
            SchemaError: no such relation.
        """
        relation = self.schema.relation(relation)
        (degrees,) = self.fetch_rows(self.book.list_type(relation), [degree_column(relation)], gid)
        return degrees

    def rows(self, name: str, raw: Tensor, *, node_type: NodeType | None = None) -> Tensor:
        """Rows of a stored or held column, ``[n, ...]``, of nodes given by the user's ids (integers ``[n]``).

        Raises:
            SchemaError: no such column.
            IdError: an id that the graph does not have.
        """
        (found,) = self.rows_by_id(self.schema.node_type(node_type), [name], raw)
        return found

    def rows_by_id(self, table: TableKey, columns: Sequence[str], ids: Tensor) -> tuple[Tensor, ...]:
        """Columns of one table, a tensor ``[n, ...]`` each, of nodes or edges given by the user's ids (integers ``[n]``): all
        of them with one request to each host.

        Raises:
            SchemaError: no such table or column.
            IdError: an id that the graph does not have.
            InputError: not one-dimensional.
        """
        if self._router.only_shard is not None:
            gid = self.locate(ids, table) if isinstance(table, str) else self.locate_edges(table, ids)
            return self.fetch_rows(table, columns, gid)
        ids = _one_dimensional(ids, "nodes" if isinstance(table, str) else "edges")
        found = self._router.answer(RowsByIdRequest(table=table, columns=tuple(columns), ids=ids))
        self._check_known(table, found.gid, ids)
        query = RowQuery(table=table, columns=tuple(columns), gid=found.gid)
        (stored,) = FetchReply(rows=(found.rows,), sparse=(found.sparse,)).dense((query,), self.pool)
        return self.as_given(query, stored)

    def check_edge_dir(self, edge_dir: EdgeDir | None) -> None:
        """
        Raises:
            InputError: neighbours in this direction are asked for, but the graph was made for the other one. None is its own.
        """
        if edge_dir not in (None, self.book.edge_dir):
            check_edge_dir(edge_dir)
            raise InputError(
                f"edge_dir={edge_dir!r}, but this graph has the {self.book.edge_dir}-edges of its nodes; make it with "
                f"edge_dir={edge_dir!r} (halohop.partition, halohop.graph; on the command line --edge-dir), or leave edge_dir out"
            )

    def listed_ids(self, node_type: NodeType) -> Tensor | None:
        """The user's ids of all nodes of a type, int64 ``[n]``, ascending; None if they are the numbers from 0
        on. Looked up once.

        Raises:
            SchemaError: no such node type.
        """
        if node_type not in self._listed_ids:
            raw = None if node_type in self._router.identities else self.select(None, node_type)[1]
            dense = raw is None or not len(raw) or (int(raw[0]), int(raw[-1])) == (0, len(raw) - 1)
            self._listed_ids[node_type] = None if dense else raw
        return self._listed_ids[node_type]

    def locate(self, raw: Tensor, node_type: NodeType | None = None) -> Tensor:
        """Gids (int64 ``[n]``) of nodes given by the user's ids (integers ``[n]``).

        Raises:
            SchemaError: no such node type.
            IdError: an id that no partition has.
            InputError: not one-dimensional.
        """
        node_type = self.schema.node_type(node_type)
        raw = _one_dimensional(raw, "nodes")
        gid = self._router.answer(LocateRequest(node_type=node_type, raw=raw)).gid
        self._check_known(node_type, gid, raw)
        return gid

    def locate_edges(self, relation: Relation, edge_id: Tensor) -> Tensor:
        """Gids (int64 ``[n]``) of edges given by their places in the user's input (integers ``[n]``).

        Each owner makes an index of its edges of the relation when it is first asked: 4 bytes an edge, in memory.

        Raises:
            SchemaError: no such relation.
            IdError: an edge id that the graph does not have.
            InputError: not one-dimensional.
        """
        relation = self.schema.relation(relation)
        edge_id = _one_dimensional(edge_id, "edges")
        gid = self._router.answer(LocateEdgesRequest(relation=relation, edge_id=edge_id)).gid
        self._check_known(relation, gid, edge_id)
        return gid

    def _check_known(self, table: TableKey, gid: Tensor, ids: Tensor) -> None:
        if len(unknown := np.flatnonzero(gid.numpy() < 0)):
            what, of = ("ids", "nodes") if isinstance(table, str) else ("edge ids", "edges")
            raise IdError(
                f"{len(unknown)} of {len(ids)} {what} are not among the {self.schema.table(table).count} {of} of {table!r}, the "
                f"first is {int(ids[unknown[0]])}"
            )

    def owners(self, raw: Tensor, node_type: NodeType | None = None) -> Tensor:
        """The partition (int64 ``[n]``) that owns each of some nodes, their rows and their in-edges.

        Args:
            raw: the user's ids, integers ``[n]``.

        Raises:
            SchemaError, IdError, InputError: as of `locate`.
        """
        node_type = self.schema.node_type(node_type)
        return self.owners_of(node_type, self.locate(raw, node_type))

    def edge_owners(self, relation: Relation, edge_id: Tensor) -> Tensor:
        """The partition (int64 ``[n]``) that owns each of some edges: that of the node whose list they are in.

        Args:
            edge_id: places in the user's input, integers ``[n]``.

        Raises:
            SchemaError, IdError: as of `edges`.
        """
        relation = self.schema.relation(relation)
        found = self.edges(relation, edge_id)
        return self.owners_of(self.book.list_type(relation), (found.src_gid, found.dst_gid)[self.book.list_end])

    def owners_of(self, node_type: NodeType, gid: Tensor) -> Tensor:
        """The same of nodes given by gid (int64 ``[n]``)."""
        bounds = np.asarray(self.book.nodes[node_type][1:])
        return torch.from_numpy(np.searchsorted(bounds, gid.numpy(), side="right"))

    def blocks(self, raw: Tensor, node_type: NodeType | None = None) -> Tensor:
        """The block (int64 ``[n]``) of the recursive division that each of some nodes is in, below `book.num_blocks`.

        Args:
            raw: the user's ids, integers ``[n]``.

        Raises:
            InputError: the graph was not divided into blocks.
            SchemaError, IdError: as of `locate`.
        """
        node_type = self.schema.node_type(node_type)
        return self.blocks_of(node_type, self.locate(raw, node_type)).long()

    def blocks_of(self, node_type: NodeType, gid: Tensor) -> Tensor:
        """The same of nodes given by gid (int64 ``[n]``), as it is stored; asked for a million at a time.

        Raises:
            InputError: the graph was not divided into blocks.
        """
        if not self.book.num_blocks:
            raise InputError(
                "this graph has no blocks; partition it with --method metis (halohop.partition(..., method='metis')) into 2, 4, "
                "8, ... partitions"
            )
        return torch.cat([self.fetch_rows(node_type, [BLOCK], some)[0] for some in gid.split(_AT_ONCE)])

    def select(self, split: str | None = None, node_type: NodeType | None = None) -> tuple[Tensor, Tensor]:
        """Gids and raw ids (int64 ``[n]`` each, ascending by raw id) of a stored split, or of all nodes.

        Raises:
            SchemaError: no such node type or split.
        """
        node_type = self.schema.node_type(node_type)
        mask = None if split is None else f"{self.schema.split(node_type, split)}_mask"
        reply = self._router.answer(SelectRequest(node_type=node_type, mask=mask, parts=tuple(range(self.book.num_parts))))
        return reply.gid, reply.raw

    def edges(self, relation: Relation, edge_id: Tensor | None = None, *, part: int | None = None) -> EdgesReply:
        """Edges of a relation, wherever they lie: all in the order of the user's input, 24 bytes each, or those of some ids.

        Args:
            edge_id: places in the user's input, integers ``[n]``, found as by `locate_edges`.
            part: only edges that this partition owns.

        Raises:
            SchemaError: no such relation.
            IdError: an edge id that the graph, or the partition, does not have.
            InputError: no such partition.
        """
        if part is not None and not 0 <= part < self.book.num_parts:
            raise InputError(f"part={part} is none of the partitions 0 to {self.book.num_parts - 1}")
        parts = tuple(range(self.book.num_parts)) if part is None else (part,)
        relation = self.schema.relation(relation)
        if edge_id is None:
            return self._router.answer(EdgesRequest(relation=relation, parts=parts))
        wanted, places = np.unique(edge_id.long().numpy(), return_inverse=True)
        found = self._router.answer(EdgesRequest(relation=relation, parts=parts, edge_id=torch.from_numpy(wanted)))
        if len(found.edge_id) < len(wanted):
            unknown = np.setdiff1d(wanted, found.edge_id.numpy())
            raise IdError(
                f"{len(unknown)} of {len(wanted)} edge ids are not among the {self.schema.edges[relation].count} edges of "
                f"{relation!r}, the first is {int(unknown[0])}"
            )
        src_gid, dst_gid, found_id = (
            torch.from_numpy(column.numpy()[places]) for column in (found.src_gid, found.dst_gid, found.edge_id)
        )
        return EdgesReply(src_gid=src_gid, dst_gid=dst_gid, edge_id=found_id)


def _one_dimensional(ids: Tensor, what: str) -> Tensor:
    if ids.is_cuda:
        raise InputError(f"ids of {what} lie on {ids.device}, and are looked up by the host; give them as .cpu()")
    if ids.dim() != 1:
        raise InputError(f"ids of {what} have shape {tuple(ids.shape)}, but they must be one-dimensional; use .view(-1)")
    return ids.long()
