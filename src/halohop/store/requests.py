"""What can be asked of a graph, wherever it lies: some neighbours of nodes, and rows.

Requests and replies are plain records of numbers, strings and tensors. A partition in memory, a host across the network and
the router before them all answer the same ones, so no other code depends on where the graph lies. All requests may be asked
twice: they are answered alike, and what they do is done once. So a retry is safe.
"""

from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Annotated, Generic, Protocol, TypeVar

import msgspec
from torch import Tensor

from halohop import ops
from halohop.store.draw import Draw
from halohop.store.forms import AnyIds, Edges, Ids, NarrowEdges, Times
from halohop.typing import NodeType, Relation, TableKey

Reply = TypeVar("Reply", covariant=True)

MAX_NAME = 300
"""Characters of a name or an address in a message."""
MAX_RANKS = 2**16
"""Processes that share a job or an optimizer."""
MAX_PARTS = 2**20
"""Partitions of a data set that a server may name."""

Name = Annotated[str, msgspec.Meta(max_length=MAX_NAME)]
"""A name that its reader may keep. A message with a longer one is refused when it is read."""
Ranks = Annotated[int, msgspec.Meta(ge=0, le=MAX_RANKS)]
"""A number of processes, with the same check."""
Parts = Annotated[int, msgspec.Meta(ge=0, le=MAX_PARTS)]
"""A partition, or a number of them, with the same check."""
Fanout = Annotated[int, msgspec.Meta(ge=-1, le=2**62 - 1)]
"""How many neighbors of a node are sampled, with the same check; -1: all."""
Seconds = Annotated[float, msgspec.Meta(ge=0, le=604_800)]
"""A time for which its reader keeps something, with the same check."""


class Request(Generic[Reply]):
    """Base of all requests; the parameter is the type of its reply."""

    __slots__ = ()


class Shard(Protocol):
    """What answers requests about some partitions: local, remote, or a router over several."""

    def ask(self, request: Request[Reply]) -> "Future[Reply]":
        """Starts answering and returns at once if answering means waiting for a peer."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HopQuery:
    """Some in-neighbours of `dst_gid` (int64 ``[n]``) along `relation`: at most `fanout` each, all of them with -1.

    In a graph with lists of out-edges they are out-neighbours: what is called a destination in queries and answers is the source.

    Args:
        tree: draws of one node in several trees are independent; int64 ``[n]``, or None: all in one tree.
        latest: neighbours later than this are not drawn, int64 or float64 ``[n]``; only where the rules name a time.
        excluded: edges that are never drawn, gids, int64, ascending.
        src_gid: only the edges from this source are returned, int64 ``[n]``, all of them: the fanout must be -1.
        edge_ids: whether the answer has the user's ids of the edges, too.
        most: of a device only: the answer has so many entries, with -1 behind those drawn, and a destination -1 is none.
    """

    relation: Relation
    fanout: Fanout
    dst_gid: Ids
    tree: Ids | None = None
    latest: Times | None = None
    excluded: AnyIds | None = None
    src_gid: Ids | None = None
    edge_ids: bool = False
    most: int | None = None

    def of(self, rows: Tensor, pool: ops.Pool | None = None) -> "HopQuery":
        """The query for some of its destinations, by position."""
        columns = (self.tree, self.latest, self.src_gid)
        tree, latest, src_gid = (None if column is None else ops.gather_rows(column, rows, pool=pool) for column in columns)
        return replace(self, dst_gid=ops.gather_rows(self.dst_gid, rows, pool=pool), tree=tree, latest=latest, src_gid=src_gid)


@dataclass(frozen=True, slots=True, kw_only=True)
class HopAnswer:
    """The neighbours of all queried nodes end to end, in the order of the query.

    Args:
        counts: neighbours per queried node, int64 ``[n]``.
        src_gid: the neighbours, int32 or int64 ``[sum(counts)]``.
        edge_gid: the edges to them, int64 ``[sum(counts)]``.
        edge_id: the user's ids of these edges, int32 or int64; None where they were not asked for, or are the gids.
    """

    counts: Ids
    src_gid: NarrowEdges
    edge_gid: Edges
    edge_id: NarrowEdges | None = None

    @property
    def num_bytes(self) -> int:
        """What its tensors weigh."""
        ids = 0 if self.edge_id is None else self.edge_id.nbytes
        return self.counts.nbytes + self.src_gid.nbytes + self.edge_gid.nbytes + ids


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleReply:
    answers: tuple[HopAnswer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRequest(Request[SampleReply]):
    """One hop: a query per relation. One request per (hop, peer), whatever the number of relations."""

    draw: Draw
    queries: tuple[HopQuery, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowQuery:
    """The rows `gid` (int64 ``[n]``) of the named columns of a table. `RAW_ID`, `EDGE_ID`, `BLOCK` and what `degree_column`
    names are columns too.

    If it is `padded`, a gid may be -1, for no row: its columns are zeros. Such gids come in long runs. (Not of degrees.)
    """

    table: TableKey
    columns: tuple[str, ...]
    gid: Ids
    padded: bool = False

    def of(self, rows: Tensor, pool: ops.Pool | None = None) -> "RowQuery":
        """The query for some of its rows, by position; none of them is missing."""
        return replace(self, gid=ops.gather_rows(self.gid, rows, pool=pool), padded=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchReply:
    """The rows of each query.

    Args:
        rows: per query, per dense column, in the order of the query's: a tensor ``[n, ...]`` in the column's dtype.
        sparse: per query, the columns that are stored sparse, by name; an empty dictionary where there are none.
    """

    rows: tuple[tuple[Tensor, ...], ...]
    sparse: tuple[dict[str, ops.SparseRows], ...]

    def columns(self, query: int, names: tuple[str, ...]) -> dict[str, Tensor | ops.SparseRows]:
        """Those of a query that asked for these names, in its order."""
        dense, sparse = iter(self.rows[query]), self.sparse[query]
        return {name: sparse[name] if name in sparse else next(dense) for name in names}

    def dense(self, queries: "tuple[RowQuery, ...]", pool: ops.Pool) -> tuple[tuple[Tensor, ...], ...]:
        """Per query, per column, a tensor ``[n, ...]``: what answers these queries, with zeros written out."""
        found = [self.columns(number, query.columns).values() for number, query in enumerate(queries)]
        return tuple(
            tuple(rows.dense(pool) if isinstance(rows, ops.SparseRows) else rows for rows in columns) for columns in found
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest(Request[FetchReply]):
    """Rows of several tables. One request per (batch, peer), whatever the number of features."""

    queries: tuple[RowQuery, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocateReply:
    """Gids (int64 ``[n]``); -1 where the id is not owned here."""

    gid: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class LocateRequest(Request[LocateReply]):
    """The gids of nodes given by raw id (int64 ``[n]``)."""

    node_type: NodeType
    raw: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class LocateEdgesRequest(Request[LocateReply]):
    """The gids of edges given by their places in the user's input (int64 ``[n]``)."""

    relation: Relation
    edge_id: Ids


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsByIdReply:
    """The rows of those ids that are owned here, in the order of the request.

    Args:
        gid: of all ids, int64 ``[n]``; -1 where the id is not owned here.
        rows, sparse: as of a query of `FetchReply`, for the others.
    """

    gid: Ids
    rows: tuple[Tensor, ...]
    sparse: dict[str, ops.SparseRows]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsByIdRequest(Request[RowsByIdReply]):
    """Columns of nodes or edges given by the user's ids (int64 ``[n]``). All owners are asked at once, rather than where the rows
    are first, and for them then."""

    table: TableKey
    columns: tuple[str, ...]
    ids: Ids


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectReply:
    """The selected nodes, ascending by raw id; both int64 ``[n]``."""

    gid: Ids
    raw: Ids


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectRequest(Request[SelectReply]):
    """The nodes of a type in the partitions `parts` where the bool column `mask` is true; with None all of them."""

    node_type: NodeType
    mask: str | None
    parts: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgesReply:
    """The edges, ascending by edge id; all int64 ``[n]``."""

    src_gid: Ids
    dst_gid: Ids
    edge_id: Ids


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgesRequest(Request[EdgesReply]):
    """The edges of a relation to the nodes of the partitions `parts`.

    Args:
        edge_id: only those of these ids, int64 ``[n]``, ascending.
    """

    relation: Relation
    parts: tuple[int, ...]
    edge_id: Ids | None = None
