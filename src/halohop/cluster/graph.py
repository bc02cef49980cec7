"""The graph handle: a schema, and a router that finds whoever can answer."""

import atexit
import itertools
import secrets
import sys
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from halohop import ops
from halohop.cluster.counted import Counted
from halohop.cluster.links import Links
from halohop.cluster.remote import Gateways
from halohop.cluster.router import Holder, Router
from halohop.cluster.shard import LocalShard
from halohop.errors import IdError, InputError, SchemaError
from halohop.partitioning.book import Book
from halohop.partitioning.build import build_parts
from halohop.store.part import Part
from halohop.store.requests import (
    Draw,
    EdgesReply,
    EdgesRequest,
    FetchReply,
    FetchRequest,
    HoldRequest,
    HopAnswer,
    HopQuery,
    LocateRequest,
    PushRequest,
    RowQuery,
    SampleReply,
    SampleRequest,
    SelectRequest,
)
from halohop.store.schema import Schema
from halohop.store.tables import GraphTables
from halohop.telemetry import Counters
from halohop.typing import NodeType, Relation, degree_column


class Graph(Counted):
    """Answers two questions about any node, wherever it lies: some neighbours of it, and its rows.

    Made by `halohop.open`, or by a loader around an in-memory PyG object. Use it as a context manager, or `close` it, where
    it was opened by several hosts.

    Attributes:
        schema: node types, relations and their columns.
        book: who owns what.
        pool: where batches borrow their memory.
        counters: what this process has done for requests. parts_here: the partitions in it.
        gateways: servers that make whole batches, so that nothing need be sampled here; None where there are none.
        reopen: opens this graph in another process, to which it is sent; None where only this process has it.
    """

    def __init__(
        self,
        *,
        schema: Schema,
        book: Book,
        router: Router,
        pool: ops.Pool,
        counters: Counters,
        links: Links | None = None,
        gateways: Gateways | None = None,
        one_owner: bool = True,
    ) -> None:
        self.schema = schema
        self.book = book
        self.pool, self.counters, self.gateways = pool, counters, gateways
        self.reopen: Callable[[], Graph] | None = None
        self._router = router
        self.parts_here = router.parts_here
        self._links = links or Links()
        self._closed = False
        self._one_owner = one_owner
        self._sender = secrets.token_hex(8)
        self._push_numbers = itertools.count(1)

    def sample(self, request: SampleRequest) -> SampleReply:
        """One hop of neighbours; see `halohop.store.requests`."""
        return self._router.answer(request)

    def fetch(self, request: FetchRequest) -> tuple[tuple[Tensor, ...], ...]:
        """Rows of several tables: per query, per column, a tensor ``[n, ...]``."""
        return self.fetch_stored(request).dense(request.queries, self.pool)

    def fetch_stored(self, request: FetchRequest) -> FetchReply:
        """The same as it is stored, dense or sparse."""
        return self._router.answer(request)

    def find(self, pairs: Sequence[tuple[Relation, Tensor, Tensor]]) -> tuple[HopAnswer, ...]:
        """The edges of relations between sources and destinations given by gid, int64 ``[n]`` each; `counts` per pair.

        The owners of the destinations look them up, so nothing but what is found crosses the network.
        """
        queries = tuple(HopQuery(relation=name, fanout=-1, dst_gid=dst, src_gid=src) for name, src, dst in pairs)
        return self.sample(SampleRequest(draw=Draw(seed=0, epoch=0, batch=0, hop=0), queries=queries)).answers

    def degrees(self, relation: Relation, gid: Tensor) -> Tensor:
        """How many in-edges of a relation nodes have (int64 ``[n]``), given by gid.

        Raises:
            SchemaError: no such relation.
        """
        relation = self.schema.relation(relation)
        query = RowQuery(table=relation[2], columns=(degree_column(relation),), gid=gid)
        ((degrees,),) = self.fetch(FetchRequest(queries=(query,)))
        return degrees

    def hold(
        self,
        name: str,
        shape: Sequence[int] = (),
        *,
        dtype: torch.dtype = torch.float32,
        fill: float = 0,
        node_type: NodeType | None = None,
    ) -> None:
        """Makes a column of nodes to be read and written by all clients, in the memory of the partitions' owners.

        It lasts as long as they do, and is no part of batches. Whoever comes first makes it; later calls alike change nothing.

        Args:
            name: of the column; none that is stored.
            shape: of a row.
            dtype, fill: of the entries, and what they are at first.

        Raises:
            InputError: a column of this name that is not like this, or several processes that each hold the graph.
            ClusterError: a partition is served by several servers.
        """
        self._require_one_owner()
        name_of_dtype = str(dtype).removeprefix("torch.")
        node_type = self.schema.node_type(node_type)
        self._router.answer(
            HoldRequest(node_type=node_type, name=name, shape=tuple(shape), dtype=name_of_dtype, fill=float(fill))
        )

    def push(self, name: str, raw: Tensor, rows: Tensor, *, add: bool = False, node_type: NodeType | None = None) -> None:
        """Writes rows of a held column, or adds to them; each push counts once, even if the connection breaks half-way.

        A server that refuses its part of a push writes none of it. Where several servers hold the rows, another may have written
        its own part when the error comes.

        Args:
            name: of the column.
            raw: the user's ids of the nodes, integers ``[n]``; of equal ones the last row stays, unless rows are added.
            rows: ``[n, ...]`` in the column's dtype.
            add: to what is there.

        Raises:
            SchemaError: nobody holds such a column.
            IdError: an id that the graph does not have.
            InputError: rows that do not fit, or of a dtype that cannot be added.
        """
        self._require_one_owner()
        node_type = self.schema.node_type(node_type)
        self._router.answer(
            PushRequest(
                node_type=node_type,
                name=name,
                gid=self.locate(raw, node_type),
                rows=rows.detach().cpu(),
                add=add,
                sender=self._sender,
                number=next(self._push_numbers),
                repeated_seconds=self._links.call_seconds,
            )
        )

    def rows(self, name: str, raw: Tensor, *, node_type: NodeType | None = None) -> Tensor:
        """Rows of a stored or held column, ``[n, ...]``, of nodes given by the user's ids (integers ``[n]``).

        Raises:
            SchemaError: no such column.
            IdError: an id that the graph does not have.
        """
        node_type = self.schema.node_type(node_type)
        query = RowQuery(table=node_type, columns=(name,), gid=self.locate(raw, node_type))
        ((found,),) = self.fetch(FetchRequest(queries=(query,)))
        return found

    def locate(self, raw: Tensor, node_type: NodeType | None = None) -> Tensor:
        """Gids (int64 ``[n]``) of nodes given by the user's ids (integers ``[n]``).

        Raises:
            SchemaError: no such node type.
            IdError: an id that no partition has.
        """
        node_type = self.schema.node_type(node_type)
        raw = raw.long()
        gid = self._router.answer(LocateRequest(node_type=node_type, raw=raw)).gid
        unknown = np.flatnonzero(gid.numpy() < 0)
        if len(unknown):
            count = self.schema.nodes[node_type].count
            raise IdError(
                f"{len(unknown)} of {len(raw)} ids are not among the {count} nodes of {node_type!r}, "
                f"the first is {int(raw[unknown[0]])}"
            )
        return gid

    def select(self, split: str | None = None, node_type: NodeType | None = None) -> tuple[Tensor, Tensor]:
        """Gids and raw ids (int64 ``[n]`` each, ascending by raw id) of a stored split, or of all nodes.

        Raises:
            SchemaError: no such node type or split.
        """
        node_type = self.schema.node_type(node_type)
        splits = self.schema.splits(node_type)
        if split is not None and split not in splits:
            raise SchemaError(f"node type {node_type!r} has no split {split!r}; stored splits: {list(splits)}")
        mask = None if split is None else f"{split}_mask"
        reply = self._router.answer(SelectRequest(node_type=node_type, mask=mask, parts=tuple(range(self.book.num_parts))))
        return reply.gid, reply.raw

    def edges(self, relation: Relation, edge_id: Tensor | None = None) -> EdgesReply:
        """Edges of a relation, wherever they lie: all in the order of the user's input, 24 bytes each, or those of some ids.

        Args:
            edge_id: places in the user's input, integers ``[n]``. Each owner reads all its edge ids for them, so ask for many at
                a time.

        Raises:
            SchemaError: no such relation.
            IdError: an edge id that the graph does not have.
        """
        parts, relation = tuple(range(self.book.num_parts)), self.schema.relation(relation)
        if edge_id is None:
            return self._router.answer(EdgesRequest(relation=relation, parts=parts))
        wanted, places = edge_id.long().unique(return_inverse=True)
        found = self._router.answer(EdgesRequest(relation=relation, parts=parts, edge_id=wanted))
        if len(found.edge_id) < len(wanted):
            unknown = wanted[~torch.isin(wanted, found.edge_id)]
            raise IdError(
                f"{len(unknown)} of {len(wanted)} edge ids are not among the {self.schema.edges[relation].count} edges of "
                f"{relation!r}, the first is {int(unknown[0])}"
            )
        return EdgesReply(src_gid=found.src_gid[places], dst_gid=found.dst_gid[places], edge_id=wanted[places])

    def _require_one_owner(self) -> None:
        if not self._one_owner:
            raise InputError(
                "several processes hold this graph, each in memory of its own, so nothing can be written to it; serve it "
                "(halohop.serve), and connect to the servers"
            )

    @property
    def is_local(self) -> bool:
        """Whether every partition is in this process, so that a forked one can read them, too."""
        return not self._links.channels

    def statistics(self) -> dict[str, float]:
        """Sums so far: ids answered by this host's partitions ("local_rows") and by others; seconds; transport and pool."""
        pool = {f"pool_{name}": amount for name, amount in self.pool.statistics().items()}
        transport = {f"transport_{name}": amount for name, amount in self._links.statistics().items()}
        return {"local_rows": 0, "remote_rows": 0, **self.counters.snapshot(), **pool, **transport}

    def statistics_by_peer(self) -> dict[str, dict[str, float]]:
        """Of each host or server that this process asks: calls, their seconds, bytes, what waits; see `Channel.statistics`."""
        return self._links.statistics_by_peer()

    def check_peers(self, *, deadline: float = 5.0) -> None:
        """Sees whether every host that this one asks still answers.

        Raises:
            PeerLostError: names the host that did not answer within the deadline (seconds).
        """
        self._links.check(deadline=deadline)

    def close(self) -> None:
        """Waits until every rank has closed the graph, then ends the connections. Safe to call twice.

        Raises:
            ClusterError: a rank did not close it in time.
        """
        self.shut(wait=True)

    def shut(self, *, wait: bool) -> None:
        """`close`, but without waiting for the others where `wait` is false: what to do after an error."""
        if not self._closed:
            self._closed = True
            atexit.unregister(self._close_at_exit)
            self._links.close(wait=wait)

    def keep_until_exit(self) -> None:
        """Closes the graph when the process ends, if nobody has before; until then it stays open, even if nobody refers to it.

        A script that forgets to close must not take its partitions away while others still read them. Called again, it is closed
        before all that others have asked for at the end since: whoever waits for an answer then need not be waited for.
        """
        if not self._closed:
            atexit.unregister(self._close_at_exit)
            atexit.register(self._close_at_exit)

    def _close_at_exit(self) -> None:
        self.shut(wait=not hasattr(sys, "last_value"))  # after an error, waiting would only delay the news

    def __reduce__(self) -> tuple[Any, ...]:
        if self.reopen is not None:
            return self.reopen, ()
        raise InputError("this graph cannot be sent to another process; send what it was made from, and make it there")

    def __enter__(self) -> "Graph":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.shut(wait=error is None)


def in_memory(tables: GraphTables) -> Graph:
    """A graph of one partition that shares the tables' columns."""
    assignment = {name: torch.zeros(table.num_nodes, dtype=torch.int32) for name, table in tables.nodes.items()}
    build = build_parts(tables, assignment, 1)
    return local_graph(build.schema, build.book, dict(enumerate(build.parts)))


def local_graph(schema: Schema, book: Book, parts: dict[int, Part], *, one_owner: bool = True) -> Graph:
    """A graph of partitions in this process, by their numbers; `one_owner` says whether no other has them, too."""
    pool, counters = ops.Pool(), Counters()
    holder = Holder(shard=LocalShard(parts, book=book, pool=pool, counters=counters), parts=tuple(parts))
    router = Router(book, [holder], pool, counters)
    return Graph(schema=schema, book=book, router=router, pool=pool, counters=counters, one_owner=one_owner)
