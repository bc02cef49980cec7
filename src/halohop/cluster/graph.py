"""The graph handle: lookups, columns that clients write, and the life of its connections."""

import atexit
import itertools
import secrets
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from halohop import ops
from halohop.cluster.child_end import at_child_end
from halohop.cluster.connections import BatchMaker, Connections
from halohop.cluster.counted import Counted
from halohop.cluster.jobs import Jobs
from halohop.cluster.lookups import Lookups
from halohop.cluster.router import PartitionOwner, Router
from halohop.cluster.shard import LocalShard
from halohop.errors import InputError
from halohop.partitioning.book import Book
from halohop.partitioning.building.build import Build, build_parts
from halohop.store.part import Part
from halohop.store.requests import HoldRequest, PushRequest
from halohop.store.residency import IN_MEMORY, Residency
from halohop.store.schema import Schema
from halohop.store.tables import GraphTables
from halohop.telemetry import Counters, added
from halohop.typing import EdgeDir, NodeType


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphReference:
    """Where a graph lies: its folder or servers, its partitions and limits, and never a token. It pickles.

    Args:
        opens: makes the graph.
    """

    opens: "Callable[[], Graph]"

    def open(self) -> "Graph":
        """The same graph in this process, which takes the token from its own environment.

        Raises:
            DatasetError, ClusterError, TransportError: as of `halohop.open` and `halohop.connect`.
        """
        graph = self.opens()
        graph.opened_by = self
        return graph


class Graph(Counted, Lookups, Jobs):
    """Answers two questions about any node, wherever it lies: some neighbours of it, and its rows.

    Made by `halohop.open`, or by a loader around an in-memory PyG object. Use it as a context manager, or `close` it, where
    it was opened by several hosts.

    Attributes:
        schema: node types, relations and their columns.
        book: who owns what.
        pool: where batches borrow their memory.
        counters: what this process has done for requests.
        parts_here: the partitions in this process.
        batch_servers: servers that make whole batches, so that nothing need be sampled here; None where there are none.
        opened_by: opens this graph in another process, to which it is sent; None where only this process has it.
    """

    def __init__(
        self,
        *,
        schema: Schema,
        book: Book,
        router: Router,
        pool: ops.Pool,
        counters: Counters,
        connections: Connections | None = None,
        batch_servers: BatchMaker | None = None,
        one_owner: bool = True,
    ) -> None:
        self.schema = schema
        self.book = book
        self.pool = pool
        self.counters = counters
        self.batch_servers = batch_servers
        self.opened_by: GraphReference | None = None
        self._router = router
        self.parts_here = router.parts_here
        self._connections = connections
        self._closed = False
        self._forget_child_end: Callable[[], object] = lambda: None
        self._one_owner = one_owner
        self._sender = secrets.token_hex(8)
        self._push_numbers = itertools.count(1)

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

        It lasts as long as they do, and is no part of batches. The first call makes it; later calls alike change nothing.

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
            SchemaError: no owner holds such a column.
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
                repeated_seconds=0.0 if self._connections is None else self._connections.call_seconds,
            )
        )

    def _require_one_owner(self) -> None:
        if not self._one_owner:
            raise InputError(
                "several processes hold this graph, each in memory of its own, so nothing can be written to it; serve it "
                "(halohop.serve), and connect to the servers"
            )

    @property
    def is_local(self) -> bool:
        """Whether every partition is in this process, so that a forked one can read them, too."""
        return len(self.parts_here) == self.book.num_parts

    def statistics(self) -> dict[str, float]:
        """Sums so far: ids answered by this host's partitions ("local_rows"), by copies of others' ("replica_rows"; the bytes
        that did not cross the network, "replica_bytes"), and by other hosts ("remote_rows"); seconds; transport and pool.
        """
        pool = {f"pool_{name}": amount for name, amount in self.pool.statistics().items()}
        transport = {f"transport_{name}": amount for name, amount in added(self._statistics_of_transport().values()).items()}
        return {"local_rows": 0, "remote_rows": 0, **self.counters.snapshot(), **self._router.statistics(), **pool, **transport}

    def statistics_by_peer(self) -> dict[str, dict[str, float]]:
        """Of each host or server that this process asks: calls, their seconds, bytes, what waits (see `Channel.statistics`); ids
        that it was asked for ("remote_rows"), and those of its own that were copied here ("replica_rows", "replica_bytes").
        """
        transport = self._statistics_of_transport()
        routed = self._router.statistics_by_peer()
        return {peer: transport.get(peer, {}) | routed.get(peer, {}) for peer in (transport | routed)}

    def _statistics_of_transport(self) -> dict[str, dict[str, float]]:
        return {} if self._connections is None else self._connections.statistics_by_peer()

    def check_peers(self, *, deadline: float = 5.0) -> None:
        """Sees whether every host that this one asks still answers.

        Raises:
            PeerLostError: names the host that did not answer within the deadline (seconds).
        """
        if self._connections is not None:
            self._connections.check(deadline=deadline)

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
            self._forget_child_end()
            if self._connections is not None:
                self._connections.close(wait=wait)

    def keep_until_exit(self) -> None:
        """Closes the graph when the process ends, if it was not closed before; until then it stays open without a reference, too.

        A script that forgets to close must not take its partitions away while others still read them. Called again, it is closed
        before all that was registered for the exit since; what waits for its answers there then ends at once.
        """
        if not self._closed:
            atexit.unregister(self._close_at_exit)
            atexit.register(self._close_at_exit)
            self._forget_child_end()
            self._forget_child_end = at_child_end(self.shut)

    def _close_at_exit(self) -> None:
        self.shut(wait=not hasattr(sys, "last_value"))  # after an error, waiting would only delay the news

    def reference(self) -> GraphReference:
        """What another process opens this graph by; graphs, loaders and samplers that are pickled take it along.

        Raises:
            InputError: the graph lies in the memory of this process alone.
        """
        if self.opened_by is None:
            raise InputError("this graph cannot be sent to another process; send what it was made from, and make it there")
        return self.opened_by

    def __reduce__(self) -> tuple[Any, ...]:
        return GraphReference.open, (self.reference(),)

    def __enter__(self) -> "Graph":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.shut(wait=error is None)


def in_memory(tables: GraphTables, *, edge_dir: EdgeDir = "in") -> Graph:
    """A graph of one partition that shares the tables' columns.

    Example:
        >>> from halohop.store.tables import EdgeTable, GraphTables, NodeTable
        >>> ring = EdgeTable(src=torch.tensor([0, 1, 2]), dst=torch.tensor([1, 2, 0]))
        >>> graph = in_memory(GraphTables(nodes={"node": NodeTable(num_nodes=3)}, edges={("node", "to", "node"): ring}))
        >>> graph.schema.nodes["node"].count
        3
    """
    build = in_one_part(tables, edge_dir=edge_dir)
    return local_graph(build.schema, build.book, dict(enumerate(build.parts)))


def in_one_part(tables: GraphTables, *, edge_dir: EdgeDir = "in") -> Build:
    """The whole graph as one partition; gids are rows of the tables, unless these have ids of their own."""
    assignment = {name: torch.zeros(table.num_nodes, dtype=torch.int32) for name, table in tables.nodes.items()}
    return build_parts(tables, assignment, 1, edge_dir=edge_dir)


def local_graph(
    schema: Schema, book: Book, parts: dict[int, Part], *, one_owner: bool = True, residency: Residency = IN_MEMORY
) -> Graph:
    """A graph of partitions in this process, by their numbers; `one_owner` says whether no other has them, too."""
    pool, counters = ops.Pool(), Counters()
    router = local_router(book, parts, pool, counters, residency)
    return Graph(schema=schema, book=book, router=router, pool=pool, counters=counters, one_owner=one_owner)


def local_router(
    book: Book, parts: dict[int, Part], pool: ops.Pool, counters: Counters, residency: Residency = IN_MEMORY
) -> Router:
    """What answers about partitions in this process."""
    shard = LocalShard(parts, book=book, pool=pool, counters=counters, residency=residency)
    return Router(book, [PartitionOwner(shard=shard, parts=tuple(parts))], pool, counters)
