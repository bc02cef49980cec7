"""The graph handle: lookups, tables, and the life of its connections."""

import atexit
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

import torch

from halohop import ops
from halohop.cluster.child_end import at_child_end
from halohop.cluster.connections import BatchMaker, Connections
from halohop.cluster.counted import Counted
from halohop.cluster.device import DeviceGraph, DeviceOptions
from halohop.cluster.jobs import Jobs
from halohop.cluster.lookups import Lookups
from halohop.cluster.router import PartitionOwner, Router
from halohop.cluster.shard import LocalShard
from halohop.cluster.tables.owners import TableOwners, owners_here
from halohop.cluster.tables.tables import Tables
from halohop.errors import InputError
from halohop.ops import device
from halohop.partitioning.book import Book
from halohop.store.part import Part
from halohop.store.residency import IN_MEMORY, Residency
from halohop.store.schema import Schema
from halohop.store.tables import GraphTables
from halohop.store.topology import Topology
from halohop.tables.owner import Owner
from halohop.telemetry import Counters, added
from halohop.typing import EdgeDir, Relation, TableKey

if TYPE_CHECKING:
    from halohop.partitioning.building.build import Build


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
        graph.leave_tables()
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
        identities: the tables of which the user's ids are known to be the gids.
        batch_servers: servers that make whole batches, so that nothing need be sampled here; None where there are none.
        parts_of_hosts: by host, the partitions that it serves; empty where one host, or servers, have all.
        on_device: the same graph for batches of a GPU; None where no device is named.
        opened_by: opens this graph in another process, to which it is sent; None where only this process has it.
    """

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Raises for attributes that a graph does not have, such as `edge_index`, which PyG's code reads."""
            hint = "; PyG's RandomNodeLoader and ClusterData take the Data itself, halohop.ClusterLoader takes this graph"
            read_by_pyg = ("edge_index", "num_nodes", "num_edges", "node_types", "edge_types", "adj_t", "x")
            raise AttributeError(f"a halohop graph has no {name!r}{hint if name in read_by_pyg else ''}", name=name, obj=self)

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
        table_owners: Callable[[], TableOwners] | None = None,
    ) -> None:
        self.schema = schema
        self.narrow_tables = frozenset(
            table for table in schema.tables if any(spec.stored is not None for spec in schema.table(table).columns.values())
        )
        self.book = book
        self.pool = pool
        self.counters = counters
        self.batch_servers = batch_servers
        self.parts_of_hosts: tuple[tuple[int, ...], ...] = ()
        self.opened_by: GraphReference | None = None
        self.on_device: DeviceGraph | None = None
        self._router = router
        self._listed_ids = {}
        self.parts_here = router.parts_here
        self.identities = router.identities
        self._connections = connections
        self._closed = False
        self._find_owners = table_owners
        self._tables: Tables | None = None
        self._tables_lock = threading.Lock()
        self._forget_child_end: Callable[[], object] = lambda: None

    @property
    def tables(self) -> Tables:
        """Rows that lie with the partitions, beside the stored columns, which clients make, read and write; see
        `halohop.DistTensor`. Their owners are found when this is first used.

        Raises:
            InputError: the graph has no owners of tables in reach: it was closed, or sent here by a process that holds all of it.
            ClusterError, TransportError: an owner does not come in time.
        """
        with self._tables_lock:
            if self._closed or (self._tables is None and self._find_owners is None):
                why = "was closed" if self._closed else "is one whose tables lie in the memory of another process"
                raise InputError(f"this graph {why}; use the tables of one that is open: from halohop.open, or halohop.connect")
            if self._tables is None:
                assert self._find_owners is not None
                owners = self._find_owners()
                self._tables = Tables(self, owners, self.pool, self.counters)
                if owners.with_others and self._connections is None:
                    self.keep_until_exit()
            return self._tables

    def stores(self, table: TableKey, column: str) -> bool:
        """Whether a column lies with the partitions, and not in an object of the user's."""
        return True

    def check_readable(self, names: Iterable[str | None]) -> None:
        """
        Raises:
            InputError: sampling is to read a column that this graph does not keep beside its edges.
        """

    def leave_tables(self) -> None:
        """Where another process opened this graph and holds all of it, the tables are that one's, and not made here again."""
        if self._connections is None:
            self._find_owners = None

    @property
    def router(self) -> Router:
        """Who answers requests."""
        return self._router

    def use_device(self, options: DeviceOptions | None) -> None:
        """Has batches made on a GPU from now on, if `options` name one.

        Raises:
            InputError: see `DeviceGraph`.
        """
        if options is not None:
            pool = device.device_pool(options.device)
            peers = [device.device_pool(name) for name in options.cache_devices]
            peers = [pool if peer.device == pool.device else peer for peer in peers]
            self.on_device = DeviceGraph(self, pool, options, peers or None)

    def columns_beside(self) -> Mapping[TableKey, Mapping[str, ops.Pieces]]:
        """Columns in memory of the process that do not lie with the partitions, as kernels read them."""
        return {}

    @property
    def topologies(self) -> Mapping[Relation, Topology] | None:
        """The lists of all nodes, by relation; None where some are elsewhere."""
        shard = self._router.only_shard
        return shard.topologies if isinstance(shard, LocalShard) else None

    @property
    def is_local(self) -> bool:
        """Whether every partition is in this process, so that a forked one can read them, too."""
        return len(self.parts_here) == self.book.num_parts

    def statistics(self) -> dict[str, float]:
        """Sums so far: ids answered by this host's partitions ("local_rows"), by copies of others' ("replica_rows"; the bytes
        that did not cross the network, "replica_bytes"), and by other hosts ("remote_rows"); rows of tables that this process was
        asked for ("table_local_rows"), others ("table_remote_rows"), or none, as they lie in memory that this process can read
        ("table_shared_rows", "table_shared_bytes"); seconds; transport and pool.
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
            with ExitStack() as ends:  # the last one first
                if self.on_device is not None:
                    ends.callback(self.on_device.close)
                if self._connections is not None:
                    ends.callback(self._connections.close, wait=wait)
                if self._tables is not None:
                    ends.callback(self._tables.shut, wait=wait)

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


def in_one_part(tables: GraphTables, *, edge_dir: EdgeDir = "in") -> "Build":
    """The whole graph as one partition; gids are rows of the tables, unless these have ids of their own."""
    from halohop.partitioning.building.build import build_parts  # with METIS and all: loaders of PyG's objects do without it

    assignment = {name: torch.zeros(table.num_nodes, dtype=torch.int32) for name, table in tables.nodes.items()}
    return build_parts(tables, assignment, 1, edge_dir=edge_dir)


def local_graph(
    schema: Schema,
    book: Book,
    parts: dict[int, Part],
    *,
    residency: Residency = IN_MEMORY,
    owner: Owner | None = None,
    table_owners: Callable[[], TableOwners] | None = None,
) -> Graph:
    """A graph of all partitions in this process, by their numbers.

    Args:
        owner: of the tables whose rows lie with them; None: one in memory.
        table_owners: other ones, where several processes hold the graph.
    """
    pool, counters = ops.Pool(), Counters()
    shard = LocalShard(parts, book=book, pool=pool, counters=counters, residency=residency, owner=owner)
    return Graph(
        schema=schema,
        book=book,
        router=Router(book, [PartitionOwner(shard=shard, parts=tuple(parts), identities=shard.identities)], pool, counters),
        pool=pool,
        counters=counters,
        table_owners=table_owners or partial(owners_here, book, {shard.owner: tuple(parts)}),
    )


AnyGraph = Graph | DeviceGraph
"""Whoever answers requests of samplers and loaders: tensors lie where it does."""
