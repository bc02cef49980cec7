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
from halohop.cluster.merging import Answer, Piece, Rows, merge_hops, merge_rows, num_bytes
from halohop.cluster.replicas import Replicas
from halohop.errors import ClusterError, SchemaError
from halohop.partitioning.book import Book
from halohop.store.requests import (
    EdgesReply,
    EdgesRequest,
    FetchReply,
    FetchRequest,
    HoldReply,
    HoldRequest,
    LocateReply,
    LocateRequest,
    PushReply,
    PushRequest,
    Reply,
    Request,
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
        copies: how many servers have these partitions, of which the shard asks one.
        name: of a remote shard, as statistics call it.
        replicas: what this process has of other partitions' rows and lists; they are asked before any remote shard.
    """

    shard: Shard
    parts: tuple[int, ...]
    remote: bool = False
    copies: int = 1
    name: str = ""
    replicas: tuple[Replicas, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Share:
    """Some ids of a query: their positions, int64 ``[n]``, and the shard whose partitions they lie in."""

    query: int
    rows: Tensor
    owner: int


class Router:
    """All shards of a graph as one.

    Args:
        book: who owns what.
        pool: where the memory of merged answers comes from.
        holders: every partition of the book that may be asked about must be in exactly one of them. Requests about others
            raise `ClusterError` naming the partition.

    Attributes:
        parts_here: the partitions that are asked without the network.
    """

    def __init__(self, book: Book, holders: Sequence[PartitionOwner], pool: ops.Pool, counters: Counters) -> None:
        self._book = book
        self._pool = pool
        self._counters = counters
        self._owners = range(len(holders))
        any_remote = any(holder.remote for holder in holders)
        self._replicas = tuple(replicas for holder in holders for replicas in holder.replicas) if any_remote else ()
        self._shards: tuple[Shard, ...] = (*(holder.shard for holder in holders), *self._replicas)
        self._remote = (*(holder.remote for holder in holders), *(False for _ in self._replicas))
        self._peers = {index: Counters() for index in self._owners if holders[index].remote}
        self._names = {index: holders[index].name for index in self._peers}
        self.parts_here = tuple(part for holder in holders if not holder.remote for part in holder.parts)
        self._copied = [part for holder in holders if holder.copies > 1 for part in holder.parts]
        # One bucket more than there are shards: for partitions that no shard holds.
        self._shard_of_part = [len(holders)] * book.num_parts
        for index, holder in enumerate(holders):
            for part in holder.parts:
                self._shard_of_part[part] = index
        self._complete = len(holders) not in self._shard_of_part
        # Remote shards first, so that they work while this process does.
        self._order = sorted(range(len(self._shards)), key=lambda index: not self._remote[index])
        self._nearest = max(self._owners, key=lambda index: not self._remote[index])

    def answer(self, request: Request[Reply]) -> Reply:
        """Answers a request, waiting for peers where it must.

        Raises:
            SchemaError, IdError: the request names what the graph does not have.
            TransportError: a peer could not answer in time.
        """
        if len(self._shards) == 1 and self._complete and not self._remote[0]:
            self._counters.add("local_rows", _num_ids(request))
            return self._shards[0].ask(request).result()  # the fast path of the general case below
        route: dict[type, Callable[[Any], Any]] = {
            SampleRequest: self._sample,
            FetchRequest: self._fetch,
            LocateRequest: self._locate,
            SelectRequest: self._select,
            EdgesRequest: self._edges,
            HoldRequest: self._hold,
            PushRequest: self._push,
        }
        if type(request) not in route:
            raise SchemaError(f"a graph cannot answer {type(request).__name__}")
        result: Reply = route[type(request)](request)
        return result

    def statistics_by_peer(self) -> dict[str, dict[str, float]]:
        """Of each remote shard, by name: rows and lists asked of it, and those of its own that were here, with their bytes."""
        return {self._names[index]: counters.snapshot() for index, counters in self._peers.items()}

    def _sample(self, request: SampleRequest) -> SampleReply:
        queries = request.queries
        routed = self._routed(
            [(self._book.list_type(query.relation), query.dst_gid) for query in queries],
            lambda replicas, query, gid: replicas.lists(queries[query].relation, gid, request.draw),
            lambda picks: replace(request, queries=tuple(queries[query].of(rows, self._pool) for query, rows in picks)),
            lambda reply: reply.answers,
        )
        return SampleReply(answers=tuple(merge_hops(pieces, self._pool) for pieces in routed))

    def _fetch(self, request: FetchRequest) -> FetchReply:
        places = [ops.known_places(query.gid) if query.padded else None for query in request.queries]
        queries = [query if at is None else query.of(at, self._pool) for query, at in zip(request.queries, places, strict=True)]
        routed: list[list[Piece[Rows]]] = self._routed(
            [(query.table, query.gid) for query in queries],
            lambda replicas, query, gid: replicas.rows(queries[query].table, gid, queries[query].columns),
            lambda picks: FetchRequest(queries=tuple(queries[query].of(rows, self._pool) for query, rows in picks)),
            lambda reply: tuple(zip(reply.rows, reply.sparse, strict=True)),
        )
        merged = [
            merge_rows(pieces, asked, at, self._pool) for pieces, asked, at in zip(routed, request.queries, places, strict=True)
        ]
        return FetchReply(rows=tuple(dense for dense, _ in merged), sparse=tuple(sparse for _, sparse in merged))

    def _locate(self, request: LocateRequest) -> LocateReply:
        replies = self._ask_all(dict.fromkeys(self._owners, request))
        gid: NDArray[np.int64] = np.maximum.reduce([reply.gid.numpy() for reply in replies.values()])
        return LocateReply(gid=torch.from_numpy(gid))

    def _select(self, request: SelectRequest) -> SelectReply:
        raw, gid = self._listed(request, ("raw", "gid"))
        return SelectReply(gid=gid, raw=raw)

    def _edges(self, request: EdgesRequest) -> EdgesReply:
        edge_id, src_gid, dst_gid = self._listed(request, ("edge_id", "src_gid", "dst_gid"))
        return EdgesReply(src_gid=src_gid, dst_gid=dst_gid, edge_id=edge_id)

    def _hold(self, request: HoldRequest) -> HoldReply:
        if self._copied:
            raise ClusterError(
                f"partitions {self._copied} are served by several servers, and what is written to one would be missing in the "
                "others; let one server hold each partition"
            )
        self._ask_all(dict.fromkeys(self._owners, request))
        return HoldReply()

    def _push(self, request: PushRequest) -> PushReply:
        buckets = ops.bucket(request.gid, self._book.bounds(request.node_type), self._shard_of_part, pool=self._pool)
        self._refuse_unheld([(request.node_type, request.gid)], [buckets])
        held = {shard: _held(buckets, shard) for shard in self._owners}
        replies = self._ask_all({shard: request.of(rows, self._pool) for shard, rows in held.items() if len(rows)})
        return PushReply(new=all(reply.new for reply in replies.values()))

    def _listed(self, request: SelectRequest | EdgesRequest, columns: tuple[str, ...]) -> list[Tensor]:
        """Columns of what the holders of the named partitions list, ascending by the first."""
        asked: dict[int, list[int]] = {}
        for part in request.parts:
            asked.setdefault(self._shard_of_part[part], []).append(part)
        if len(self._owners) in asked:
            raise ClusterError(f"partitions {asked[len(self._owners)]} are not held by this host")
        replies = self._ask_all({shard: replace(request, parts=tuple(parts)) for shard, parts in asked.items()}).values()
        whole = [torch.cat([getattr(reply, name) for reply in replies]) for name in columns]
        order = torch.argsort(whole[0])
        return [column[order] for column in whole]

    def _routed(
        self,
        queries: list[tuple[TableKey, Tensor]],
        copies_of: Callable[[Replicas, int, Tensor], Tensor | None],
        request_of: Callable[[list[tuple[int, Tensor]]], Request[Any]],
        answers_of: Callable[[Any], tuple[Answer, ...]],
    ) -> list[list[Piece[Answer]]]:
        """Per query: how its ids were divided among the shards, and what they answered.

        Args:
            queries: the table and the ids of each.
            copies_of: where replicas have some ids of a query, -1 for those that they lack; None where they cannot answer it.
            request_of: asks for some ids of some queries, given by position.
            answers_of: the answers in a reply, in the same order.
        """
        buckets = [ops.bucket(ids, self._book.bounds(table), self._shard_of_part, pool=self._pool) for table, ids in queries]
        self._refuse_unheld(queries, buckets)
        shares: dict[int, list[_Share]] = {}
        for query, bucketed in enumerate(buckets):
            owned = [_Share(query=query, rows=_held(bucketed, shard), owner=shard) for shard in self._owners]
            # Where there are no ids, somebody must still say of which dtype nothing is.
            for share in [share for share in owned if len(share.rows)] or [owned[self._nearest]]:
                for shard, some in self._divided(share, queries[query][1], copies_of):
                    shares.setdefault(shard, []).append(some)
        replies = self._ask_all(
            {shard: request_of([(share.query, share.rows) for share in asked]) for shard, asked in shares.items()}
        )
        pieces: list[list[Piece[Answer]]] = [[] for _ in queries]
        for shard in sorted(replies):
            for share, answer in zip(shares[shard], answers_of(replies[shard]), strict=True):
                pieces[share.query].append(Piece(rows=share.rows, answer=answer))
                self._count(shard, share, answer)
        return pieces

    def _divided(
        self, share: "_Share", ids: Tensor, copies_of: Callable[[Replicas, int, Tensor], Tensor | None]
    ) -> Iterator[tuple[int, "_Share"]]:
        """Who is asked for what of one owner's share: replicas for what they have, the owner for the rest."""
        if self._remote[share.owner]:
            for number, replicas in enumerate(self._replicas, start=len(self._owners)):
                places = copies_of(replicas, share.query, ops.gather_rows(ids, share.rows, pool=self._pool))
                if places is not None and len(here := ops.known_places(places)):
                    yield number, replace(share, rows=ops.gather_rows(share.rows, here, pool=self._pool))
                    far = ops.missing_places(places)
                    share = replace(share, rows=ops.gather_rows(share.rows, far, pool=self._pool))
                    if not len(share.rows):
                        return
        yield share.owner, share

    def _count(self, shard: int, share: "_Share", answer: Any) -> None:
        num_rows = len(share.rows)
        if shard not in self._owners:
            counted: dict[str, float] = {"replica_rows": num_rows, "replica_bytes": num_bytes(answer)}
        else:
            counted = {"remote_rows" if self._remote[shard] else "local_rows": num_rows}
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
            return sum(len(query.dst_gid) for query in request.queries)
        case FetchRequest():
            return sum(len(query.gid) for query in request.queries)
    return 0


def _held(buckets: ops.Buckets, shard: int) -> Tensor:
    """Positions of the ids that a shard holds."""
    return buckets.order[buckets.starts[shard] : buckets.starts[shard + 1]]
