"""Sends every part of a request to the shard that owns it and puts the answers together again.

The answers come back in the order of the question, so the caller cannot tell one partition from eight, or near from far.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop import ops
from halohop.errors import ClusterError, SchemaError
from halohop.partitioning.book import Book
from halohop.store.requests import (
    EdgesReply,
    EdgesRequest,
    FetchReply,
    FetchRequest,
    HoldReply,
    HoldRequest,
    HopAnswer,
    LocateReply,
    LocateRequest,
    PushReply,
    PushRequest,
    Reply,
    Request,
    RowQuery,
    SampleReply,
    SampleRequest,
    SelectReply,
    SelectRequest,
    Shard,
)
from halohop.telemetry import Counters
from halohop.typing import TableKey

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOwner:
    """A shard and the partitions that it answers for.

    Args:
        shard: whom to ask.
        parts: the partitions it holds, at least one; the same host may hold several.
        remote: whether asking means waiting for the network; such shards are asked first.
        copies: how many servers have these partitions, of which the shard asks one.
    """

    shard: Shard
    parts: tuple[int, ...]
    remote: bool = False
    copies: int = 1


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
        self._shards = tuple(holder.shard for holder in holders)
        self._remote = tuple(holder.remote for holder in holders)
        self.parts_here = tuple(part for holder in holders if not holder.remote for part in holder.parts)
        self._copied = [part for holder in holders if holder.copies > 1 for part in holder.parts]
        # One bucket more than there are shards: for partitions that no shard holds.
        self._shard_of_part = [len(holders)] * book.num_parts
        for index, holder in enumerate(holders):
            for part in holder.parts:
                self._shard_of_part[part] = index
        self._complete = len(holders) not in self._shard_of_part
        # Remote shards first, so that they work while this process does.
        self._order = sorted(range(len(holders)), key=lambda index: not self._remote[index])

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

    def _sample(self, request: SampleRequest) -> SampleReply:
        routed = self._routed(
            [(self._book.list_type(query.relation), query.dst_gid) for query in request.queries],
            lambda picks: replace(request, queries=tuple(request.queries[query].of(rows, self._pool) for query, rows in picks)),
            lambda reply: reply.answers,
        )
        return SampleReply(answers=tuple(self._merge_hops(buckets, answers) for buckets, answers in routed))

    def _fetch(self, request: FetchRequest) -> FetchReply:
        places = [ops.known_places(query.gid) if query.padded else None for query in request.queries]
        queries = [query if at is None else query.of(at, self._pool) for query, at in zip(request.queries, places, strict=True)]
        routed = self._routed(
            [(query.table, query.gid) for query in queries],
            lambda picks: FetchRequest(queries=tuple(queries[query].of(rows, self._pool) for query, rows in picks)),
            lambda reply: tuple(zip(reply.rows, reply.sparse, strict=True)),
        )
        rows, sparse = [], []
        for (buckets, answers), at, asked in zip(routed, places, request.queries, strict=True):
            order = buckets.order if at is None else ops.gather_rows(at, buckets.order, pool=self._pool)
            rows.append(self._merge_rows(order, [dense for dense, _ in answers], asked))
            sparse.append(self._merge_sparse(buckets.order, [found for _, found in answers], asked))
        return FetchReply(rows=tuple(rows), sparse=tuple(sparse))

    def _locate(self, request: LocateRequest) -> LocateReply:
        replies = self._ask_all(dict.fromkeys(range(len(self._shards)), request))
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
        self._ask_all(dict.fromkeys(range(len(self._shards)), request))
        return HoldReply()

    def _push(self, request: PushRequest) -> PushReply:
        buckets = ops.bucket(request.gid, self._book.bounds(request.node_type), self._shard_of_part, pool=self._pool)
        self._refuse_unheld([(request.node_type, request.gid)], [buckets])
        held = {shard: _held(buckets, shard) for shard in range(len(self._shards))}
        replies = self._ask_all({shard: request.of(rows, self._pool) for shard, rows in held.items() if len(rows)})
        return PushReply(new=all(reply.new for reply in replies.values()))

    def _listed(self, request: SelectRequest | EdgesRequest, columns: tuple[str, ...]) -> list[Tensor]:
        """Columns of what the holders of the named partitions list, ascending by the first."""
        asked: dict[int, list[int]] = {}
        for part in request.parts:
            asked.setdefault(self._shard_of_part[part], []).append(part)
        if len(self._shards) in asked:
            raise ClusterError(f"partitions {asked[len(self._shards)]} are not held by this host")
        replies = self._ask_all({shard: replace(request, parts=tuple(parts)) for shard, parts in asked.items()}).values()
        whole = [torch.cat([getattr(reply, name) for reply in replies]) for name in columns]
        order = torch.argsort(whole[0])
        return [column[order] for column in whole]

    def _routed(
        self,
        queries: list[tuple[TableKey, Tensor]],
        request_of: Callable[[list[tuple[int, Tensor]]], Request[Any]],
        answers_of: Callable[[Any], tuple[Answer, ...]],
    ) -> list[tuple[ops.Buckets, list[Answer]]]:
        """Per query: how its ids were divided among the shards, and the shards' answers in that order."""
        buckets = [ops.bucket(ids, self._book.bounds(table), self._shard_of_part, pool=self._pool) for table, ids in queries]
        self._refuse_unheld(queries, buckets)
        picks: dict[int, list[tuple[int, Tensor]]] = {}
        for query, bucketed in enumerate(buckets):
            asked = [shard for shard in range(len(self._shards)) if len(_held(bucketed, shard))]
            for shard in asked or [self._order[-1]]:  # somebody must say of which dtype nothing is
                picks.setdefault(shard, []).append((query, _held(bucketed, shard)))
        replies = self._ask_all({shard: request_of(chosen) for shard, chosen in picks.items()})
        answers: list[list[Answer]] = [[] for _ in queries]
        for shard in sorted(replies):
            for (query, rows), answer in zip(picks[shard], answers_of(replies[shard]), strict=True):
                answers[query].append(answer)
                self._counters.add("remote_rows" if self._remote[shard] else "local_rows", len(rows))
        return list(zip(buckets, answers, strict=True))

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
            unheld = _held(bucketed, len(self._shards))
            if len(unheld):
                gid = int(ids[unheld[0]])
                raise ClusterError(f"row {gid} of {table!r} lies in a partition that this host does not hold")

    def _merge_hops(self, buckets: ops.Buckets, answers: list[HopAnswer]) -> HopAnswer:
        if len(answers) == 1:  # one shard answered it all, in order
            return answers[0]
        columns = zip(*((answer.counts, answer.src_gid, answer.edge_gid) for answer in answers), strict=True)
        counts, src_gid, edge_gid = (ops.join_rows(column, pool=self._pool) for column in columns)
        counts, source = ops.stitch(counts, buckets.order, pool=self._pool)
        return HopAnswer(
            counts=counts,
            src_gid=ops.gather_rows(src_gid, source, pool=self._pool),
            edge_gid=ops.gather_rows(edge_gid, source, pool=self._pool),
        )

    def _merge_rows(self, order: Tensor, answers: list[tuple[Tensor, ...]], query: RowQuery) -> tuple[Tensor, ...]:
        if len(answers) == 1 and not query.padded:  # one shard answered it all, in order
            return answers[0]
        merged = []
        for pieces in zip(*answers, strict=True):
            out = self._pool.empty((len(query.gid), *pieces[0].shape[1:]), pieces[0].dtype)
            begin = 0
            for piece in pieces:
                ops.scatter_rows(piece, order[begin : begin + len(piece)], out)
                begin += len(piece)
            if query.padded:
                ops.fill_missing(out, query.gid)
            merged.append(out)
        return tuple(merged)

    def _merge_sparse(
        self, order: Tensor, answers: list[dict[str, ops.SparseRows]], query: RowQuery
    ) -> dict[str, ops.SparseRows]:
        merged = {}
        for name in answers[0]:
            pieces = [answer[name] for answer in answers]
            rows = pieces[0] if len(pieces) == 1 else ops.merge_sparse(pieces, order, pool=self._pool)
            merged[name] = rows.padded(query.gid) if query.padded else rows
        return merged


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
