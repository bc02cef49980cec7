"""Sends every part of a request to the shard that owns it and puts the answers together again.

The answers come back in the order of the question, so the caller cannot tell one partition from eight, or near from far.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop import ops
from halohop.cluster.cache import RowCache
from halohop.cluster.landing import Landing
from halohop.cluster.listed import in_order
from halohop.cluster.merging import Answer, Piece, Rows, merge_hops, merge_rows
from halohop.cluster.questions import Lists, Question, RowsOf, Share
from halohop.cluster.replicas import Replicas
from halohop.errors import ClusterError, SchemaError
from halohop.partitioning.book import Book
from halohop.store.requests import (
    EdgesReply,
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
    SelectReply,
    SelectRequest,
    Shard,
)
from halohop.telemetry import Counters
from halohop.typing import TableKey


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOwner:
    """A shard and the partitions that it answers for.

    Args:
        shard: the owner to ask.
        parts: the partitions it holds, at least one; the same host may hold several.
        remote: whether asking means waiting for the network; such shards are asked first.
        name: of a remote shard, as statistics call it.
        replicas: what this process has of other partitions' rows and lists; they are asked before any remote shard.
        identities: the tables of which the user's ids are the gids, as far as this is known without asking.
    """

    shard: Shard
    parts: tuple[int, ...]
    remote: bool = False
    name: str = ""
    replicas: tuple[Replicas, ...] = ()
    identities: frozenset[TableKey] = frozenset()


class Router:
    """All shards of a graph as one.

    Args:
        book: who owns what.
        pool: where the memory of merged answers comes from.
        holders: every partition of the book that may be asked about must be in exactly one of them. Requests about others
            raise `ClusterError` naming the partition.
        counters: of ids, by who answered for them.
        cache: of rows that remote shards have answered.

    Attributes:
        parts_here: the partitions that are asked without the network.
        identities: the tables of which the user's ids are known to be the gids, in all partitions.
    """

    def __init__(
        self,
        book: Book,
        holders: Sequence[PartitionOwner],
        pool: ops.Pool,
        counters: Counters,
        *,
        cache: RowCache | None = None,
    ) -> None:
        self._book = book
        self._cache = cache
        self._pool = pool
        self._counters = counters
        self._owners = range(len(holders))
        any_remote = any(holder.remote for holder in holders)
        self._replicas = tuple(replicas for holder in holders for replicas in holder.replicas) if any_remote else ()
        self._shards: tuple[Shard, ...] = (*(holder.shard for holder in holders), *self._replicas)
        self._remote = (*(holder.remote for holder in holders), *(False for _ in self._replicas))
        self._kinds = [
            *("remote" if holder.remote else "local" for holder in holders),
            *("replica" for _ in self._replicas),
        ]
        self._peers = {index: Counters() for index in self._owners if holders[index].remote}
        self._names = {index: holders[index].name for index in self._peers}
        self.identities = frozenset.intersection(*(holder.identities for holder in holders))
        self.parts_here = tuple(part for holder in holders if not holder.remote for part in holder.parts)
        # One bucket more than there are shards: for partitions that no shard holds.
        self._shard_of_part = [len(holders)] * book.num_parts
        for index, holder in enumerate(holders):
            for part in holder.parts:
                self._shard_of_part[part] = index
        self._complete = len(holders) not in self._shard_of_part
        # Remote shards first, so that they work while this process does.
        self._order = sorted(range(len(self._shards)), key=lambda index: not self._remote[index])
        self._nearest = max(self._owners, key=lambda index: not self._remote[index])

    @property
    def only_shard(self) -> Shard | None:
        """The one that has all partitions, in this process."""
        return self._shards[0] if len(self._shards) == 1 and self._complete and not self._remote[0] else None

    def answer(self, request: Request[Reply]) -> Reply:
        """Answers a request, waiting for peers where it must.

        Raises:
            SchemaError, IdError: the request names what the graph does not have.
            TransportError: a peer could not answer in time.
        """
        if (shard := self.only_shard) is not None:
            self._counters.add("local_rows", _num_ids(request))
            return shard.ask(request).result()  # the fast path of the general case below
        route: dict[type, Callable[[Any], Any]] = {
            SampleRequest: self._sample,
            FetchRequest: self._fetch,
            LocateRequest: self._locate,
            LocateEdgesRequest: self._locate,
            RowsByIdRequest: self._rows_by_id,
            SelectRequest: self._select,
            EdgesRequest: self._edges,
        }
        if type(request) not in route:
            raise SchemaError(f"a graph cannot answer {type(request).__name__}")
        result: Reply = route[type(request)](request)
        return result

    def statistics(self) -> dict[str, float]:
        """What the cache has now."""
        return {} if self._cache is None else self._cache.statistics()

    def statistics_by_peer(self) -> dict[str, dict[str, float]]:
        """Of each remote shard, by name: ids that it was asked for, and those of its own that were here, with their bytes."""
        return {self._names[index]: counters.snapshot() for index, counters in self._peers.items()}

    def _sample(self, request: SampleRequest) -> SampleReply:
        routed = self._routed(Lists(asked=request, book=self._book, pool=self._pool))
        return SampleReply(answers=tuple(merge_hops(pieces, self._pool) for pieces in routed))

    def _fetch(self, request: FetchRequest) -> FetchReply:
        places = [ops.known_places(query.gid) if query.padded else None for query in request.queries]
        queries = [query if at is None else query.of(at, self._pool) for query, at in zip(request.queries, places, strict=True)]
        landings = [Landing(query, at, self._pool) for query, at in zip(request.queries, places, strict=True)]
        routed = self._routed(RowsOf(queries=queries, landings=landings, cache=self._cache, pool=self._pool))
        merged = [
            merge_rows(pieces, asked, landing, self._pool)
            for pieces, asked, landing in zip(routed, request.queries, landings, strict=True)
        ]
        return FetchReply(rows=tuple(dense for dense, _ in merged), sparse=tuple(sparse for _, sparse in merged))

    def _locate(self, request: LocateRequest | LocateEdgesRequest) -> LocateReply:
        replies = self._ask_all(dict.fromkeys(self._owners, request))
        gid: NDArray[np.int64] = np.maximum.reduce([reply.gid.numpy() for reply in replies.values()])
        return LocateReply(gid=torch.from_numpy(gid))

    def _rows_by_id(self, request: RowsByIdRequest) -> RowsByIdReply:
        replies = self._ask_all(dict.fromkeys(self._owners, request))
        if len(replies) == 1:
            return next(iter(replies.values()))  # type: ignore[no-any-return]  # that of the request
        gid = torch.from_numpy(np.maximum.reduce([reply.gid.numpy() for reply in replies.values()]))
        place = torch.cumsum(gid >= 0, 0) - 1  # among the ids that are known
        query = RowQuery(table=request.table, columns=request.columns, gid=ops.gather_rows(gid, ops.known_places(gid)))
        landing = Landing(query, None, self._pool)
        pieces: list[Piece[Rows]] = []
        for shard, reply in replies.items():
            rows = ops.gather_rows(place, ops.known_places(reply.gid))
            site = landing.at(rows)
            for number, column in enumerate(reply.rows):
                site.put(number, column)
            pieces.append(Piece(rows=rows, answer=((), reply.sparse)))
            counted = {f"{self._kinds[shard]}_rows": float(len(rows))}
            self._counters.add_all(counted)
            if shard in self._peers:
                self._peers[shard].add_all(counted)
        dense, sparse = merge_rows(pieces, query, landing, self._pool)
        return RowsByIdReply(gid=gid, rows=dense, sparse=sparse)

    def _select(self, request: SelectRequest) -> SelectReply:
        raw, gid = self._listed(request, ("raw", "gid"))
        return SelectReply(gid=gid, raw=raw)

    def _edges(self, request: EdgesRequest) -> EdgesReply:
        edge_id, src_gid, dst_gid = self._listed(request, ("edge_id", "src_gid", "dst_gid"))
        return EdgesReply(src_gid=src_gid, dst_gid=dst_gid, edge_id=edge_id)

    def _listed(self, request: SelectRequest | EdgesRequest, columns: tuple[str, ...]) -> list[Tensor]:
        """Columns of what the holders of the named partitions list, ascending by the first."""
        asked: dict[int, list[int]] = {}
        for part in request.parts:
            asked.setdefault(self._shard_of_part[part], []).append(part)
        if len(self._owners) in asked:
            raise ClusterError(f"partitions {asked[len(self._owners)]} are not held by this host")
        replies = self._ask_all({shard: replace(request, parts=tuple(parts)) for shard, parts in asked.items()}).values()
        return in_order(*([getattr(reply, name) for reply in replies] for name in columns))

    def _routed(self, question: Question[Answer]) -> list[list[Piece[Answer]]]:
        """Per query: how its ids were divided, and what was answered."""
        ids = question.ids
        buckets = [ops.bucket(gid, self._book.bounds(table), self._shard_of_part, pool=self._pool) for table, gid in ids]
        self._refuse_unheld(ids, buckets)
        pieces: list[list[Piece[Answer]]] = [[] for _ in ids]
        shares: dict[int, list[Share]] = {}
        for query, bucketed in enumerate(buckets):
            owned = [Share(query=query, ids=ids[query][1], rows=_held(bucketed, shard), owner=shard) for shard in self._owners]
            known = [share for share in owned if len(share.rows)]
            for share in known:
                for shard, some in self._divided(share, question, pieces[query]):
                    shares.setdefault(shard, []).append(some)
            if not known:  # one shard is asked all the same: its empty answer has the dtype
                shares.setdefault(self._nearest, []).append(owned[self._nearest])
        replies = {shard: question.ask(self._shards[shard], shares[shard]) for shard in self._order if shard in shares}
        for shard in sorted(replies):
            answers = question.answers(replies[shard].result(), shares[shard], remote=self._remote[shard])
            for share, answer in zip(shares[shard], answers, strict=True):
                pieces[share.query].append(Piece(rows=share.rows, answer=answer))
                self._count(self._kinds[shard], share, question, answer)
        return pieces

    def _divided(self, share: Share, question: Question[Answer], pieces: list[Piece[Answer]]) -> Iterator[tuple[int, Share]]:
        """Who is asked for what of one owner's share: copies for what they have, the owner for what the cache does not have."""
        if not self._remote[share.owner]:
            yield share.owner, share
            return
        for number, replicas in enumerate(self._replicas, start=len(self._owners)):
            places = question.copies(replicas, share.query, share.gid(self._pool))
            if places is not None and len(here := ops.known_places(places)):
                yield number, share.of(here, self._pool)
                share = share.of(ops.missing_places(places), self._pool)
        cached = question.cached(share) if len(share.rows) else None
        if cached is not None and len(cached.here):
            held = share.of(cached.here, self._pool)
            pieces.append(Piece(rows=held.rows, answer=cached.answer))
            self._count("cache", held, question, cached.answer)
            share = share.of(cached.missing, self._pool)
        if len(share.rows):
            yield share.owner, share.ascending(self._pool)

    def _count(self, kind: str, share: Share, question: Question[Answer], answer: Answer) -> None:
        """Ids that were answered, and the bytes that need not cross the network for them."""
        counted: dict[str, float] = {f"{kind}_rows": len(share.rows)}
        if kind in ("replica", "cache"):
            counted[f"{kind}_bytes"] = question.num_bytes(share, answer)
        self._counters.add_all(counted)
        if share.owner in self._peers:
            self._peers[share.owner].add_all(counted)

    def _ask_all(self, requests: dict[int, Request[Any]]) -> dict[int, Any]:
        futures: dict[int, Future[Any]] = {}
        for shard in self._order:
            if shard in requests:
                futures[shard] = self._shards[shard].ask(requests[shard])
        return {shard: futures[shard].result() for shard in sorted(futures)}

    def _refuse_unheld(self, queries: list[tuple[TableKey, Tensor]], buckets: list[ops.Buckets]) -> None:
        if self._complete:
            return
        for (table, ids), bucketed in zip(queries, buckets, strict=True):
            unheld = _held(bucketed, len(self._owners))
            if len(unheld):
                gid = int(ids[unheld[0]])
                raise ClusterError(f"row {gid} of {table!r} lies in a partition that this host does not hold")


def _num_ids(request: Request[Any]) -> int:
    """How many neighbourhoods and rows a request asks for."""
    match request:
        case SampleRequest():
            return sum(query.dst_gid.numel() for query in request.queries)
        case FetchRequest():
            return sum(query.gid.numel() for query in request.queries)
    return 0


def _held(buckets: ops.Buckets, shard: int) -> Tensor:
    """Positions of the ids that a shard holds."""
    return buckets.order[buckets.starts[shard] : buckets.starts[shard + 1]]
