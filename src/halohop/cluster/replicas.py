"""Rows and lists of nodes that other partitions own, copied here: they answer like a shard, without the network."""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import cast

from torch import Tensor

from halohop import ops
from halohop.cluster.answering import answered
from halohop.cluster.landing import Site
from halohop.cluster.shard import LocalShard
from halohop.errors import SchemaError
from halohop.partitioning.book import Book
from halohop.store.draw import Draw
from halohop.store.replica import Replica
from halohop.store.requests import (
    FetchReply,
    FetchRequest,
    HopAnswer,
    HopQuery,
    Reply,
    Request,
    RowQuery,
    SampleReply,
    SampleRequest,
)
from halohop.store.schema import Schema
from halohop.telemetry import Counters
from halohop.typing import EDGE_ID, RAW_ID, SOURCE_ID, Relation, TableKey, degree_column

_READING = {"weight", "time", "time_window", "last", "labor", "layer_dependency"}
SUPPORTED = frozenset({"replace", "expand", "disjoint", "subgraph", "toward_seeds", *_READING})
"""The options of `Rules` that copies honor. Those in `_READING` also need copies of what they read."""


class Replicas:
    """The copies that lie with one partition.

    Inside, copied nodes have ids of their own: their ranks among the copies, as if these were a partition. What it is asked and
    what it answers is in gids, and equal to what the owners would say.

    Args:
        replica: the copies.
        schema: of the whole graph.
        book: who owns what.
        pool, counters: as of `LocalShard`.
    """

    def __init__(self, replica: Replica, schema: Schema, book: Book, pool: ops.Pool, counters: Counters) -> None:
        self._part, self._schema, self._book, self._pool = replica.part, schema, book, pool
        self._nodes = {name: ops.RankedSet(gid, book.bounds(name)[-1]) for name, gid in replica.gid.items()}
        self._edges = {name: ops.RankedRuns(first, self._part.edges[name].indptr) for name, first in replica.first.items()}
        own = Book(  # the copies, and the rest of the graph, which is not there
            nodes={name: (0, len(gid), book.bounds(name)[-1]) for name, gid in replica.gid.items()},
            edges={name: (0, edges.num_edges, book.bounds(name)[-1]) for name, edges in self._part.edges.items()},
            edge_dir=book.edge_dir,
        )
        self._shard = LocalShard({0: self._part}, book=own, pool=pool, counters=counters)
        tables: tuple[TableKey, ...] = (*self._nodes, *self._edges)
        self._columns = {table: self._known(table) for table in tables}

    def _known(self, table: TableKey) -> frozenset[str]:
        if not isinstance(table, str):
            return frozenset({EDGE_ID, *self._part.edges[table].columns})
        degrees = [degree_column(relation) for relation in self._edges if self._book.list_type(relation) == table]
        nodes = self._part.nodes[table]
        return frozenset({RAW_ID, *degrees, *nodes.columns, *nodes.sparse})

    def rows(self, table: TableKey, gid: Tensor, columns: tuple[str, ...]) -> Tensor | None:
        """Where rows of nodes or edges are copied, -1 where they are not, int64 ``[n]``; None where a column is not copied."""
        if table not in self._columns or not self._columns[table].issuperset(columns):
            return None
        return self._places(table, gid)

    def lists(self, relation: Relation, gid: Tensor, draw: Draw) -> Tensor | None:
        """The same of the lists of nodes; None where they are not copied, or what they are drawn by is not."""
        if relation not in self._edges or not self._can_draw(relation, draw):
            return None
        return self._places(self._book.list_type(relation), gid)

    def ask(self, request: Request[Reply]) -> "Future[Reply]":
        """Answers at once, about rows and lists that are here."""
        match request:
            case FetchRequest(queries=rows):
                return cast("Future[Reply]", self.fetch_to(rows, [None] * len(rows)))
            case SampleRequest():
                return answered(lambda: self._sample(request))
        raise SchemaError(f"copies cannot answer {type(request).__name__}")

    def fetch_to(self, queries: Sequence[RowQuery], sites: Sequence[Site | None]) -> "Future[FetchReply]":
        """As `LocalShard.fetch_to`."""
        return self._shard.fetch_to([replace(query, gid=self._places(query.table, query.gid)) for query in queries], sites)

    def _sample(self, request: SampleRequest) -> SampleReply:
        inside = replace(request, queries=tuple(map(self._inside, request.queries)))
        answers = self._shard.ask(inside).result().answers
        return SampleReply(answers=tuple(map(self._outside, request.queries, answers)))

    def _places(self, table: TableKey, gid: Tensor) -> Tensor:
        kept = self._nodes[table] if isinstance(table, str) else self._edges[table]
        return kept.places(gid, pool=self._pool)

    def _inside(self, query: HopQuery) -> HopQuery:
        excluded = query.excluded
        if excluded is not None:
            places = self._places(query.relation, excluded)
            excluded = ops.gather_rows(places, ops.known_places(places))
        return replace(query, dst_gid=self._places(self._book.list_type(query.relation), query.dst_gid), excluded=excluded)

    def _outside(self, query: HopQuery, answer: HopAnswer) -> HopAnswer:
        return replace(answer, edge_gid=self._edges[query.relation].ids(answer.edge_gid, pool=self._pool))

    def _can_draw(self, relation: Relation, draw: Draw) -> bool:
        """Whether all that the owner draws by is copied."""
        edges, rules = self._part.edges[relation], draw.rules
        if not rules.changed <= SUPPORTED:
            return False
        known, of_edges = {*edges.columns, *edges.halo}, self._schema.edges[relation].columns
        of_neighbors = self._schema.nodes[self._book.neighbor_type(relation)].columns
        if rules.labor and SOURCE_ID not in edges.halo:
            return False
        weighed = rules.weight is None or rules.weight in edges.columns or rules.weight not in of_edges
        timed = rules.time is None or rules.time in known or (rules.time not in of_edges and rules.time not in of_neighbors)
        return weighed and timed
