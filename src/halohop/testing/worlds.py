"""Small worlds: a graph in several partitions, or on several hosts, inside one process."""

import os
import random
import socket
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from halohop import ops
from halohop.cluster.graph import Graph, local_graph
from halohop.cluster.router import PartitionOwner, Router
from halohop.cluster.shard import LocalShard
from halohop.net.open import open_graph
from halohop.partitioning.build import build_parts
from halohop.store.tables import GraphTables
from halohop.telemetry import Counters
from halohop.transport import Token
from halohop.world import World

TOKEN = Token("for tests only, no secret")


def partitioned(
    tables: GraphTables, num_parts: int, *, seed: int = 0, shard_each: bool = False, halo: Sequence[str] = ()
) -> Graph:
    """The graph in `num_parts` partitions in memory, every node in a random one (some may be empty).

    With `shard_each` every partition is a shard of its own behind the router, as if each lay on another host. `halo` as of
    `halohop.partition`.

    Example:
        >>> from halohop.testing.graphs import ring
        >>> partitioned(ring(10), 3).book.num_parts
        3
    """
    generator = torch.Generator().manual_seed(seed)
    assignment = {
        name: torch.randint(num_parts, (table.num_nodes,), generator=generator, dtype=torch.int32)
        for name, table in tables.nodes.items()
    }
    build = build_parts(tables, assignment, num_parts, halo=halo)
    parts = dict(enumerate(build.parts))
    if not shard_each:
        return local_graph(build.schema, build.book, parts)
    pool, counters = ops.Pool(), Counters()
    shards = {index: LocalShard({index: part}, book=build.book, pool=pool, counters=counters) for index, part in parts.items()}
    holders = [PartitionOwner(shard=shard, parts=(index,)) for index, shard in shards.items()]
    router = Router(build.book, holders, pool, counters)
    return Graph(schema=build.schema, book=build.book, router=router, pool=pool, counters=counters)


@contextmanager
def hosts(path: str | Path, partitions: Sequence[Sequence[int]], **options: Any) -> Iterator[list[Graph]]:
    """One graph per host, each mapping its own partitions and asking the others over loopback sockets.

    They listen at `free_addresses`: what takes a host's place at its address finds it free.

    Args:
        path: a partitioned folder.
        partitions: per host, the partitions that it sees.
        options: further arguments of `halohop.open`; the token is one for tests unless given.
    """
    board, addresses = dist.HashStore(), free_addresses(len(partitions))
    options = {"token": TOKEN, **options}

    def join(host: int) -> Graph:
        world = World(rank=host, size=len(partitions), host=host, num_hosts=len(partitions))
        listen = f"tcp://{addresses[host]}"
        graph = open_graph(path, partitions=partitions[host], world=world, board=board, listen=listen, **options)
        stack.callback(graph.shut, wait=False)  # also if another host fails to open
        return graph

    with ExitStack() as stack:
        with ThreadPoolExecutor(len(partitions)) as pool:
            graphs = list(pool.map(join, range(len(partitions)), timeout=60))
        yield graphs


def environment() -> dict[str, str]:
    """Of processes that share the token for tests."""
    return os.environ | {"HALOHOP_TOKEN": TOKEN.key.decode()}


def free_addresses(count: int) -> list[str]:
    """Different addresses of this host, ``127.0.0.1:PORT``, that no process listens at.

    The ports lie below those that the kernel gives to connections, so none of these takes one before it is used.
    """
    first_given = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    found: list[str] = []
    for port in random.SystemRandom().sample(range(first_given // 2, first_given), 50 * count):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):  # another process has it
            found.append(f"127.0.0.1:{port}")
        if len(found) == count:
            break
    return found


def free_address() -> str:
    """One of `free_addresses`."""
    return free_addresses(1)[0]
