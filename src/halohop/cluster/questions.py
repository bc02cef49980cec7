"""The two kinds of requests that are divided by id, as the router sees them: which ids, who may answer, and how it is asked."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from torch import Tensor

from halohop import ops
from halohop.cluster.cache import Cached, RowCache
from halohop.cluster.merging import Answer, Rows
from halohop.cluster.replicas import Replicas
from halohop.partitioning.book import Book
from halohop.store.requests import FetchRequest, HopAnswer, Request, RowQuery, SampleRequest
from halohop.typing import TableKey

Picks = Sequence[tuple[int, Tensor]]
"""Some queries by number, and some ids of each by position, int64 ``[n]``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Some ids of a query.

    Args:
        query: its number.
        ids: all of it, int64 ``[n]``.
        rows: which these are, positions, int64.
        owner: the number of the shard whose partitions they lie in.
    """

    query: int
    ids: Tensor
    rows: Tensor
    owner: int

    def gid(self, pool: ops.Pool) -> Tensor:
        return ops.gather_rows(self.ids, self.rows, pool=pool)

    def of(self, some: Tensor, pool: ops.Pool) -> "Share":
        """Those at some places of the share."""
        return replace(self, rows=ops.gather_rows(self.rows, some, pool=pool))


class Question(Protocol[Answer]):
    """Queries about ids, sent to the shards that have them."""

    @property
    def ids(self) -> list[tuple[TableKey, Tensor]]:
        """Of each query: what its ids are of, and the ids."""

    def copies(self, replicas: Replicas, query: int, gid: Tensor) -> Tensor | None:
        """Where copies of some ids of a query are, -1 where there are none; None where no copy can answer it."""

    def cached(self, share: Share) -> Cached | None:
        """What the cache has of a share; None where there is no cache, or where it never has anything of this kind."""

    def keep(self, share: Share, answer: Answer) -> None:
        """Gives the cache, if there is one, what another host has answered."""

    def request(self, picks: Picks) -> Request[Any]:
        """Asks for some ids of some queries."""

    def answers(self, reply: Any) -> tuple[Answer, ...]:
        """Those in the reply to such a request, in the order of the picks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lists:
    """Neighbours of nodes."""

    asked: SampleRequest
    book: Book
    pool: ops.Pool

    @property
    def ids(self) -> list[tuple[TableKey, Tensor]]:
        return [(self.book.list_type(query.relation), query.dst_gid) for query in self.asked.queries]

    def copies(self, replicas: Replicas, query: int, gid: Tensor) -> Tensor | None:
        return replicas.lists(self.asked.queries[query].relation, gid, self.asked.draw)

    def cached(self, share: Share) -> Cached | None:
        return None

    def keep(self, share: Share, answer: HopAnswer) -> None:
        pass

    def request(self, picks: Picks) -> Request[Any]:
        return replace(self.asked, queries=tuple(self.asked.queries[query].of(rows, self.pool) for query, rows in picks))

    def answers(self, reply: Any) -> tuple[HopAnswer, ...]:
        answers: tuple[HopAnswer, ...] = reply.answers
        return answers


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsOf:
    """Rows of tables; none of the ids is missing."""

    queries: Sequence[RowQuery]
    cache: RowCache | None
    pool: ops.Pool

    @property
    def ids(self) -> list[tuple[TableKey, Tensor]]:
        return [(query.table, query.gid) for query in self.queries]

    def copies(self, replicas: Replicas, query: int, gid: Tensor) -> Tensor | None:
        return replicas.rows(self.queries[query].table, gid, self.queries[query].columns)

    def cached(self, share: Share) -> Cached | None:
        if self.cache is None:
            return None
        query = self.queries[share.query]
        return self.cache.take(query.table, query.columns, share.gid(self.pool))

    def keep(self, share: Share, answer: Rows) -> None:
        if self.cache is not None:
            query = self.queries[share.query]
            self.cache.keep(query.table, query.columns, share.gid(self.pool), answer)

    def request(self, picks: Picks) -> Request[Any]:
        return FetchRequest(queries=tuple(self.queries[query].of(rows, self.pool) for query, rows in picks))

    def answers(self, reply: Any) -> tuple[Rows, ...]:
        return tuple(zip(reply.rows, reply.sparse, strict=True))
