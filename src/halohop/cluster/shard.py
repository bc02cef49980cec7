"""The partitions in this process: answer every request about the rows and edges that they own."""

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from halohop import ops
from halohop.cluster.answering import answered
from halohop.cluster.edge_ids import EdgeIds
from halohop.cluster.hottest import hot_rows, hotness_of
from halohop.cluster.landing import Site
from halohop.cluster.listed import Listed
from halohop.cluster.named import named
from halohop.cluster.narrow_columns import MOST_BYTES, NarrowColumns
from halohop.errors import SchemaError
from halohop.memory import spare_bytes
from halohop.partitioning.book import Book
from halohop.store.feature import Feature, Stored
from halohop.store.part import EdgePart, Part
from halohop.store.requests import (
    EdgesRequest,
    FetchReply,
    FetchRequest,
    LocateEdgesRequest,
    LocateReply,
    LocateRequest,
    Reply,
    Request,
    RowQuery,
    RowsByIdReply,
    RowsByIdRequest,
    SampleReply,
    SampleRequest,
    SelectRequest,
)
from halohop.store.residency import IN_MEMORY, Residency
from halohop.store.topology import Topology
from halohop.store.weight_sums import summed
from halohop.tables.owner import Owner
from halohop.telemetry import Counters
from halohop.typing import BLOCK, EDGE_ID, HOTNESS, RAW_ID, NodeType, Relation, TableKey, degree_column

_SHARE = 4  # of what may be held without need, one part of these is for copies of narrow columns


class LocalShard:
    """Some partitions of the graph, in memory or memory-mapped, as if they were one.

    Args:
        parts: the partitions by number, at least one.
        book: who owns what.
        pool: where the memory of answers comes from.
        counters: of the seconds that answers take: "draw" (which neighbours), "load" (the neighbours), "gather" (rows); of rows
            of columns on disk ("disk_rows"), and those of them that have copies in memory ("hot_rows").
        residency: what of the partitions is in memory.
        owner: of the tables whose rows lie with the partitions; None: one in memory.
        weight_sums: columns of edges whose running sums are formed now, and kept in memory, besides those that partitions have:
            draws by them are quicker.

    Attributes:
        owner: of these tables.
        topologies: of each relation.
        identities: the tables of which the user's ids are the gids.

    Raises (from `ask`):
        SchemaError: a request names a type, relation or column that does not exist.
        IdError: a request names a row that another partition owns.
    """

    def __init__(
        self,
        parts: dict[int, Part],
        *,
        book: Book,
        pool: ops.Pool,
        counters: Counters,
        residency: Residency = IN_MEMORY,
        owner: Owner | None = None,
        weight_sums: Sequence[str] = (),
    ) -> None:
        self.owner = owner or Owner(book, parts, folder=None, anywhere=True, pool=pool)
        self._residency = residency
        self._book = book
        self._parts = parts
        self._edge_ids = EdgeIds(book, parts)
        self._listed = Listed(book, parts, self._edge_ids)
        self._pool = pool
        self._counters = counters
        first = next(iter(parts.values()))
        self._tables: dict[TableKey, _Table] = {}
        for name in first.nodes:
            nodes = {index: part.nodes[name] for index, part in parts.items()}
            self._tables[name] = _Table(
                ids=self._ids(name, {index: held.raw_id for index, held in nodes.items()}),
                blocks=self._ids(name, {index: held.block for index, held in nodes.items()}),
                hotness=self._ids(name, {index: held.hotness for index, held in nodes.items()}),
                columns=self._columns(name, {index: held.columns for index, held in nodes.items()}),
                features=self._sparse(name, {index: held.sparse for index, held in nodes.items()}),
            )
        self.topologies: dict[Relation, Topology] = {}
        for relation in first.edges:
            edges = {index: part.edges[relation] for index, part in parts.items()}
            listed, neighbors = book.list_type(relation), book.neighbor_type(relation)
            self._tables[relation] = _Table(
                ids=self._ids(relation, {index: held.edge_id for index, held in edges.items()}),
                columns=self._columns(relation, {index: held.columns for index, held in edges.items()}),
            )
            self.topologies[relation] = Topology(
                relation=relation,
                drawn_as=(neighbors, relation[1], listed),
                indptr=self._pieces(listed, {index: held.indptr for index, held in edges.items()}, extra=1),
                indices=self._pieces(relation, {index: held.indices for index, held in edges.items()}),
                edge_bounds=np.array(book.bounds(relation), np.int64),
                edge_ids=self._tables[relation].ids,
                dst_raw=self._tables[listed].ids,
                columns=self._tables[relation].columns,
                halo=self._columns(relation, {index: held.halo for index, held in edges.items()}),
                ascending=frozenset.intersection(*(held.ascending for held in edges.values())),
                src_raw=self._tables[neighbors].ids,
                src_columns=self._tables[neighbors].columns,
                has_all_sources=sum(book.count(neighbors, index) for index in parts) == book.bounds(neighbors)[-1],
                weight_sums={name: self._sums(relation, name, edges) for name in _summed(edges, weight_sums)},
            )

        self.identities = frozenset(name for name, table in self._tables.items() if table.ids is None)
        columns = {name: self._tables[name].columns for name in first.nodes}
        lists = {relation: topology.indices for relation, topology in self.topologies.items()}
        for name, kept in hot_rows(parts, columns, lists, book, residency.hot_bytes, counters).items():
            self._tables[name].features.update(kept)
        self._narrow = self._narrow_columns(list(first.nodes))
        self._degrees: dict[tuple[TableKey, str], Topology] = {
            (book.list_type(relation), degree_column(relation)): topology for relation, topology in self.topologies.items()
        }

    def _pieces(self, table: TableKey, held: dict[int, Tensor], *, extra: int = 0) -> ops.Pieces:
        tensors = [held[part].contiguous() if part in held else None for part in range(self._book.num_parts)]
        return ops.Pieces(tensors, self._book.bounds(table), extra=extra, disk_arrays=self._residency.disk_arrays)

    def _ids(self, table: TableKey, held: dict[int, Tensor | None]) -> ops.Pieces | None:
        """Numbers that a row has besides its gid; a graph has them in all partitions, or in none."""
        ids = {index: tensor for index, tensor in held.items() if tensor is not None}
        assert len(ids) in (0, len(held))
        return self._pieces(table, ids) if ids else None

    def _columns(self, table: TableKey, held: dict[int, dict[str, Tensor]]) -> dict[str, ops.Pieces]:
        names = next(iter(held.values()))
        return {name: self._pieces(table, {index: columns[name] for index, columns in held.items()}) for name in names}

    def _sums(self, relation: Relation, column: str, held: dict[int, EdgePart]) -> ops.WeightSums:
        sums: list[Tensor | None] = [None] * self._book.num_parts
        for part, own in held.items():
            first = self._book.offset(relation, part)
            stored = own.weight_sums.get(column)
            sums[part] = _joined(summed(relation, own, column, first)) if stored is None else stored
        ends = np.cumsum([0, *(0 if own is None else len(own) for own in sums)])
        return ops.WeightSums(
            sums=ops.Pieces(sums, ends.tolist()),
            edge_bounds=self._book.bounds(relation),
            row_bounds=self._book.bounds(self._book.list_type(relation)),
        )

    def _sparse(self, table: TableKey, held: dict[int, dict[str, ops.SparseRows]]) -> dict[str, Feature]:
        pieces: dict[str, Feature] = {}
        bounds = self._book.bounds(table)
        for name in next(iter(held.values())):
            here = [held[part][name] if part in held else None for part in range(self._book.num_parts)]
            pieces[name] = ops.SparsePieces(here, bounds, disk_arrays=self._residency.disk_arrays)
        return pieces

    def _narrow_columns(self, names: list[NodeType]) -> dict[NodeType, NarrowColumns]:
        """Of the types that there is room for, the smallest first; of columns that no user can write to."""
        found: dict[NodeType, NarrowColumns] = {}
        for name in names:
            ids = self._tables[name].ids
            columns = self._tables[name].columns | ({} if ids is None else {RAW_ID: ids})
            stored = {key: pieces for key, pieces in columns.items() if pieces.within(self._residency.stored_arrays)}
            found[name] = NarrowColumns(stored, self._counters)
        room = spare_bytes() // _SHARE
        for name in sorted(names, key=lambda name: found[name].num_rows):
            room -= found[name].num_rows * MOST_BYTES
            if room < 0:
                del found[name]
        return found

    def ask(self, request: Request[Reply]) -> "Future[Reply]":
        """Answers at once: the future that comes back is done, unless it is about tables and waits for others."""
        return answered(lambda: self._answer(request))

    def stored(self, table: TableKey) -> dict[str, ops.Pieces]:
        """The dense columns of a table, with its ids where these are not the gids, as they lie here.

        Raises:
            SchemaError: no such table.
        """
        found = named(self._tables, table, "table")
        ids = RAW_ID if isinstance(table, str) else EDGE_ID
        return found.columns | ({} if found.ids is None else {ids: found.ids})

    def hotness(self, node_type: NodeType) -> Tensor:
        """How often each node of a type is read, float32 ``[n]``, partition after partition, as `hot_rows` has it."""
        lists = {relation: topology.indices for relation, topology in self.topologies.items()}
        return torch.from_numpy(hotness_of(dict(sorted(self._parts.items())), lists, self._book, node_type))

    def fetch_to(self, queries: Sequence[RowQuery], sites: Sequence[Site | None]) -> "Future[FetchReply]":
        """Answers a `FetchRequest` at once, but dense columns of queries with a site are written there, and not in the reply."""
        return answered(lambda: self._fetch(queries, sites))

    def statistics(self) -> dict[str, float]:
        """What is kept for clients."""
        return self.owner.statistics()

    def sweep(self, lease_seconds: float) -> None:
        """Forgets what is kept for those who were not heard of for a lease."""
        self.owner.sweep(lease_seconds)

    def _answer(self, request: Request[Any]) -> object:
        match request:
            case SampleRequest():
                return self._sample(request)
            case FetchRequest():
                return self._fetch(request.queries, [None] * len(request.queries))
            case LocateRequest():
                return self._listed.locate(request)
            case LocateEdgesRequest():
                return LocateReply(gid=self._edge_ids.locate(request.relation, request.edge_id))
            case RowsByIdRequest():
                return self._rows_by_id(request)
            case SelectRequest():
                return self._listed.select(request)
            case EdgesRequest():
                return self._listed.edges(request)
        raise SchemaError(f"a partition cannot answer {type(request).__name__}")

    def _rows_by_id(self, request: RowsByIdRequest) -> RowsByIdReply:
        table = request.table
        if isinstance(table, str):
            gid = self._listed.locate(LocateRequest(node_type=table, raw=request.ids)).gid
        else:
            gid = self._edge_ids.locate(table, request.ids)
        query = RowQuery(table=table, columns=request.columns, gid=gid).of(ops.known_places(gid), self._pool)
        found = self._fetch([query], [None])
        return RowsByIdReply(gid=gid, rows=found.rows[0], sparse=found.sparse[0])

    def _sample(self, request: SampleRequest) -> SampleReply:
        return SampleReply(
            answers=tuple(
                named(self.topologies, query.relation, "relation").sample(query, request.draw, self._pool, self._counters)
                for query in request.queries
            )
        )

    def _fetch(self, queries: Sequence[RowQuery], sites: Sequence[Site | None]) -> FetchReply:
        with self._counters.span("gather"):
            found = [self._rows(query, site) for query, site in zip(queries, sites, strict=True)]
            return FetchReply(rows=tuple(rows for rows, _ in found), sparse=tuple(sparse for _, sparse in found))

    def _rows(self, query: RowQuery, site: Site | None) -> tuple[tuple[Tensor, ...], dict[str, ops.SparseRows]]:
        table = named(self._tables, query.table, "table")
        dense: list[Tensor] = []
        sparse: dict[str, ops.SparseRows] = {}
        written = 0
        narrow = self._narrow[query.table].take(query, self._pool) if query.table in self._narrow else {}
        for name in query.columns:
            lies_there = site is not None and name not in table.features and name not in narrow
            pieces = table.columns.get(name) if lies_there else None
            if pieces is not None and site is not None:
                self._count_disk(pieces, query)
                site.gather(written, pieces, query.gid)
                written += 1
                continue
            rows = narrow[name] if name in narrow else self._column(table, name, query)
            if isinstance(rows, ops.SparseRows):
                sparse[name] = rows
            elif site is None:
                dense.append(rows)
            else:
                site.put(written, rows)
                written += 1
        return tuple(dense), sparse

    def _column(self, table: "_Table", name: str, query: RowQuery) -> Tensor | ops.SparseRows:
        if (query.table, name) in self._degrees:
            return self._degrees[query.table, name].degrees(query.gid, self._pool)
        if name == HOTNESS and table.hotness is None:
            return self._pool.empty((len(query.gid),), torch.float32).zero_()
        beside = table.blocks if name == BLOCK else table.hotness if name == HOTNESS else None
        if beside is not None:
            return Stored(pieces=beside).take(query.gid, padded=query.padded, pool=self._pool)
        if name not in (RAW_ID, EDGE_ID):
            if name in table.columns:
                self._count_disk(table.columns[name], query)
            feature = table.features.get(name) or Stored(pieces=named(table.columns, name, f"column of {query.table!r}"))
            return feature.take(query.gid, padded=query.padded, pool=self._pool)
        if table.ids is None:
            return query.gid
        ids = Stored(pieces=table.ids).take(query.gid, padded=query.padded, pool=self._pool)
        return ids if ids.dtype == torch.int64 else ops.copy_ids(ids, self._pool.empty((len(ids),), torch.int64))

    def _count_disk(self, pieces: ops.Pieces, query: RowQuery) -> None:
        if pieces.on_disk:
            self._counters.add("disk_rows", len(query.gid))


def _joined(pieces: Iterable[Tensor]) -> Tensor:
    return torch.cat([torch.empty(0, dtype=torch.float64), *pieces])


def _summed(held: dict[int, EdgePart], wanted: Sequence[str]) -> list[str]:
    """The columns whose running sums are used: those that all partitions have, and those that are wanted."""
    first = next(iter(held.values()))
    stored = [name for name in first.weight_sums if all(name in own.weight_sums for own in held.values())]
    return list(dict.fromkeys([*stored, *(name for name in wanted if name in first.columns)]))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """The rows of a node type or relation: the user's ids (None where they are the gids), the dense columns, those columns whose
    rows are found in another way, and the blocks of nodes and how often they are read (None where that is not stored)."""

    ids: ops.Pieces | None
    columns: dict[str, ops.Pieces]
    features: dict[str, Feature] = field(default_factory=dict)
    blocks: ops.Pieces | None = None
    hotness: ops.Pieces | None = None
