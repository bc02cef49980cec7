"""Small worlds: a graph in several partitions, or on several hosts, inside one process."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from halohop import ops
from halohop.cluster.graph import Graph, local_graph
from halohop.cluster.router import PartitionOwner, Router
from halohop.cluster.shard import LocalShard
from halohop.cluster.tables.owners import owners_here
from halohop.collectives import free_port
from halohop.net.open import open_graph
from halohop.partitioning.assigners.division import Assignment
from halohop.partitioning.building.build import build_parts
from halohop.partitioning.slices.slices import EdgeSlice, MemoryPartition, NodeSlice
from halohop.store.tables import GraphTables, is_dense
from halohop.telemetry import Counters
from halohop.transport import Token
from halohop.typing import EdgeDir, NodeType, Relation
from halohop.world import World

TOKEN = Token("for tests only, no secret")


def partitioned(
    tables: GraphTables,
    num_parts: int,
    *,
    seed: int = 0,
    shard_each: bool = False,
    halo: Sequence[str] = (),
    edge_dir: EdgeDir = "in",
) -> Graph:
    """The graph in `num_parts` partitions in memory, every node in a random one (some may be empty).

    With `shard_each` every partition is a shard of its own behind the router, as if each lay on another host. `halo` as of
    `halohop.partition`.

    Example:
        >>> from halohop.testing.graphs import ring
        >>> partitioned(ring(10), 3).book.num_parts
        3
    """
    assignment = random_assignment(tables, num_parts, seed=seed)
    build = build_parts(tables, assignment, num_parts, halo=halo, edge_dir=edge_dir)
    parts = dict(enumerate(build.parts))
    if not shard_each:
        return local_graph(build.schema, build.book, parts)
    pool, counters = ops.Pool(), Counters()
    shards = {index: LocalShard({index: part}, book=build.book, pool=pool, counters=counters) for index, part in parts.items()}
    holders = [PartitionOwner(shard=shard, parts=(index,)) for index, shard in shards.items()]
    router = Router(build.book, holders, pool, counters)
    owners = partial(owners_here, build.book, {shard.owner: (index,) for index, shard in shards.items()})
    return Graph(schema=build.schema, book=build.book, router=router, pool=pool, counters=counters, table_owners=owners)


def random_assignment(tables: GraphTables, num_parts: int, *, seed: int = 0) -> Assignment:
    """A random part for every node; some may be empty."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randint(num_parts, (table.num_nodes,), generator=generator, dtype=torch.int32)
        for name, table in tables.nodes.items()
    }


def divided(
    tables: GraphTables, assignment: Assignment, num_parts: int, *, seed: int = 0, edge_dir: EdgeDir = "in"
) -> list[MemoryPartition]:
    """The graph as partitions in memory, by the part of every node (per type); rows and edges of each in a random order.

    Example:
        >>> from halohop.testing.graphs import ring
        >>> [len(part.nodes["node"].id) for part in divided(ring(10), {"node": torch.arange(10) % 2}, 2)]
        [5, 5]
    """
    generator = torch.Generator().manual_seed(seed)

    def some(wanted: Tensor) -> Tensor:
        rows = wanted.nonzero().view(-1)
        return rows[torch.randperm(len(rows), generator=generator)]

    def nodes(name: NodeType, part: int) -> NodeSlice:
        table, rows = tables.nodes[name], some(assignment[name] == part)
        columns = {
            key: column[rows] if is_dense(column) else column.to_dense()[rows].to_sparse()
            for key, column in table.columns.items()
        }
        return NodeSlice(id=rows, owner=assignment[name], columns=columns, names=table.names)

    def edges(relation: Relation, part: int) -> EdgeSlice:
        table, end = tables.edges[relation], 1 if edge_dir == "in" else 0
        owner = assignment[relation[2 * end]][table.ends[end].long()]
        rows = some(owner == part)
        columns = {key: column[rows] for key, column in table.columns.items()}
        return EdgeSlice(edge_index=torch.stack([table.src, table.dst])[:, rows], edge_id=rows, columns=columns, owner=owner)

    return [
        MemoryPartition(
            part=part,
            num_parts=num_parts,
            edge_dir=edge_dir,
            nodes={name: nodes(name, part) for name in tables.nodes},
            edges={relation: edges(relation, part) for relation in tables.edges},
        )
        for part in range(num_parts)
    ]


@contextmanager
def hosts(path: str | Path, partitions: Sequence[Sequence[int]], **options: Any) -> Iterator[list[Graph]]:
    """One graph per host, each mapping its own partitions and asking the others over loopback sockets.

    They listen at `free_addresses`: what takes a host's place at its address finds it free.

    Args:
        path: a partitioned folder.
        partitions: per host, the partitions that it sees.
        options: further arguments of `halohop.open`; the token is one for tests unless given.
    """
    with _hosts([{"path": path, "partitions": own, **options} for own in partitions]) as graphs:
        yield graphs


@contextmanager
def memory_hosts(
    shares: Sequence[Sequence[MemoryPartition]], *, halo: Sequence[str] = (), **options: Any
) -> Iterator[list[Graph]]:
    """One graph per host, each with its own partitions in memory; `options` as of `hosts`, `halo` as of `halohop.partition`."""
    with ExitStack() as stack:
        if halo:
            with _hosts([{"path": own, **options} for own in shares]) as graphs:
                shares = [[one.with_halo(graph, halo) for one in own] for own, graph in zip(shares, graphs, strict=True)]
        yield stack.enter_context(_hosts([{"path": own, **options} for own in shares]))


@contextmanager
def _hosts(options: Sequence[dict[str, Any]]) -> Iterator[list[Graph]]:
    """A graph per host, opened with the options of each."""
    board, size = dist.HashStore(), len(options)
    addresses = free_addresses(size)

    def join(host: int) -> Graph:
        world = World(rank=host, size=size, host=host, num_hosts=size)
        listen = f"tcp://{addresses[host]}"
        graph = open_graph(**{"token": TOKEN, "world": world, "board": board, "listen": listen, **options[host]})
        stack.callback(graph.shut, wait=False)  # also if another host fails to open
        return graph

    with ExitStack() as stack:
        with ThreadPoolExecutor(size) as pool:
            graphs = list(pool.map(join, range(size), timeout=60))
        yield graphs


def environment() -> dict[str, str]:
    """Of processes that share the token for tests."""
    return os.environ | {"HALOHOP_TOKEN": TOKEN.key.decode()}


def free_addresses(count: int) -> list[str]:
    """Different addresses of this host, ``127.0.0.1:PORT``, that no process listens at."""
    ports: set[int] = set()
    while len(ports) < count:
        ports.add(free_port("127.0.0.1"))
    return [f"127.0.0.1:{port}" for port in ports]


def free_address() -> str:
    """One of `free_addresses`."""
    return free_addresses(1)[0]
