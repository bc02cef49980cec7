"""The two kinds of requests that are divided by id, as the router sees them: which ids, who may answer, and how it is asked."""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol

from torch import Tensor

from halohop import ops
from halohop.cluster.cache import RowCache
from halohop.cluster.landing import Landing, Site
from halohop.cluster.merging import Answer, Rows
from halohop.cluster.replicas import Replicas
from halohop.cluster.shard import LocalShard
from halohop.partitioning.book import Book
from halohop.store.requests import FetchReply, FetchRequest, HopAnswer, RowQuery, SampleReply, SampleRequest, Shard
from halohop.typing import TableKey


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

    def ascending(self, pool: ops.Pool) -> "Share":
        """The same ids, from the least to the greatest: so they are sent as small differences, and read in the order of memory. A
        whole query stays in its order, in which its answer is wanted."""
        if len(self.rows) in (0, len(self.ids)):
            return self
        return self.of(ops.ascending_order(self.gid(pool), pool=pool), pool)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cached(Generic[Answer]):
    """What a cache has of a share: which ids, which not (places in it, int64), and the answer to the former."""

    here: Tensor
    missing: Tensor
    answer: Answer


class Question(Protocol[Answer]):
    """Queries about ids, sent to the shards that have them."""

    @property
    def ids(self) -> list[tuple[TableKey, Tensor]]:
        """Of each query: what its ids are of, and the ids."""

    def copies(self, replicas: Replicas, query: int, gid: Tensor) -> Tensor | None:
        """Where copies of some ids of a query are, -1 where there are none; None where no copy can answer it."""

    def cached(self, share: Share) -> Cached[Answer] | None:
        """What the cache has of a share; None where there is no cache, or where it never has anything of this kind."""

    def ask(self, shard: Shard, shares: Sequence[Share]) -> "Future[Any]":
        """Asks a shard for some ids of some queries."""

    def answers(self, reply: Any, shares: Sequence[Share], *, remote: bool) -> list[Answer]:
        """Those in the reply to what was asked about the shares; `remote`: it came from another process."""

    def num_bytes(self, share: Share, answer: Answer) -> int:
        """What the answer to a share weighs."""


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

    def cached(self, share: Share) -> Cached[HopAnswer] | None:
        return None

    def ask(self, shard: Shard, shares: Sequence[Share]) -> "Future[Any]":
        queries = tuple(self.asked.queries[share.query].of(share.rows, self.pool) for share in shares)
        return shard.ask(replace(self.asked, queries=queries))

    def answers(self, reply: SampleReply, shares: Sequence[Share], *, remote: bool) -> list[HopAnswer]:
        return [*reply.answers]

    def num_bytes(self, share: Share, answer: HopAnswer) -> int:
        return answer.num_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsOf:
    """Rows of tables; none of the ids is missing.

    Args:
        queries: about these ids.
        landings: of each, where dense columns go, unless one shard has the whole query.
        cache: of what remote shards have answered.
        pool: where memory comes from.
    """

    queries: Sequence[RowQuery]
    landings: Sequence[Landing]
    cache: RowCache | None
    pool: ops.Pool

    @property
    def ids(self) -> list[tuple[TableKey, Tensor]]:
        return [(query.table, query.gid) for query in self.queries]

    def copies(self, replicas: Replicas, query: int, gid: Tensor) -> Tensor | None:
        return replicas.rows(self.queries[query].table, gid, self.queries[query].columns)

    def cached(self, share: Share) -> Cached[Rows] | None:
        if self.cache is None:
            return None
        query, site = self.queries[share.query], self.landings[share.query].at(share.rows)
        found = self.cache.take(query.table, query.columns, share.gid(self.pool), site)
        return None if found is None else Cached(here=found.here, missing=found.missing, answer=((), {}))

    def ask(self, shard: Shard, shares: Sequence[Share]) -> "Future[Any]":
        queries = tuple(self.queries[share.query].of(share.rows, self.pool) for share in shares)
        if isinstance(shard, LocalShard | Replicas):
            return shard.fetch_to(queries, [self._site(share) for share in shares])
        return shard.ask(FetchRequest(queries=queries))

    def answers(self, reply: FetchReply, shares: Sequence[Share], *, remote: bool) -> list[Rows]:
        found: list[Rows] = []
        for share, dense, sparse in zip(shares, reply.rows, reply.sparse, strict=True):
            query, site = self.queries[share.query], self._site(share)
            if remote and self.cache is not None:
                self.cache.keep(query.table, query.columns, share.gid(self.pool), (dense, sparse))
            if site is not None:
                for number, column in enumerate(dense):
                    site.put(number, column)
            found.append((dense if site is None else (), sparse))
        return found

    def num_bytes(self, share: Share, answer: Rows) -> int:
        dense, sparse = answer
        stored = [tensor for rows in sparse.values() for tensor in (rows.indptr, rows.indices, rows.values)]
        landed = self.landings[share.query].row_bytes * len(share.rows)
        return landed + sum(tensor.nbytes for tensor in (*dense, *stored))

    def _site(self, share: Share) -> Site | None:
        """Where the rows of a share go; None where it is all that is asked for."""
        landing = self.landings[share.query]
        return None if len(share.rows) == len(share.ids) and not landing.padded else landing.at(share.rows)
