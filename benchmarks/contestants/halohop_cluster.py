"""halohop on several hosts: network namespaces whose cables carry so many bits in a second.

    worker    every host holds one partition and trains; batches of all hosts are counted
    servers   every host holds one partition and serves; the trainer, on a host of its own, has the batches made by them

Every unit begins an epoch.
"""

import os
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.distributed import TCPStore

import halohop
from benchmarks.cluster import Trainers, is_trainer, told
from benchmarks.protocol import Info, Unit, serve
from benchmarks.work import BATCH_SIZE
from halohop.launch.runs.nodes import node_folders
from tests.support.hosts import Host, joined

PORT = 5510
SECRET = {"HALOHOP_TOKEN": "a secret of this benchmark only"}
DEADLINE = 600.0


# ---- the process that the harness talks to


def start(
    end: ExitStack,
    *,
    folder: str,
    hosts: int,
    gigabits: float,
    mode: str,
    division: str,
    fanout: list[int],
    locality: str = "none",
) -> tuple[Info, Any]:
    network = end.enter_context(joined(hosts + (mode == "servers")))
    shares = Path(end.enter_context(tempfile.TemporaryDirectory(prefix="halohop-bench-")))
    for host in network:
        host.limit_rate(gigabits * 1e9)
    parts = Path(folder) / division
    seeds = {"seeds": f"{folder}/seeds.npy", "fanout": fanout, "locality": locality}
    trainers = Trainers("halohop_cluster")
    if mode == "worker":
        for rank, share in enumerate(node_folders(parts, shares, hosts)):
            trainers.start(network[rank], {"parts": str(share), **seeds}, {**SECRET, **ranks_env(network, rank)})
    else:
        addresses = [f"{host.address}:{PORT}" for host in network[:hosts]]
        for part, address in enumerate(addresses):
            _server(network[part], parts, part, address, [other for other in addresses if other != address])
        trainers.start(network[-1], {"servers": addresses, **seeds}, SECRET)
    trainers.ready()
    return Info(versions={"halohop": halohop.__version__, "torch": torch.__version__}), trainers.run


def ranks_env(network: list[Host], rank: int) -> dict[str, str]:
    size = str(len(network))
    places = {"RANK": str(rank), "WORLD_SIZE": size, "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    return {**places, "MASTER_ADDR": network[0].address, "MASTER_PORT": "29555"}


def _server(host: Host, parts: Path, part: int, address: str, peers: list[str]) -> None:
    options = ("--partitions", part, "--listen", address, "--peers", ",".join(peers))
    server = host.start("-m", "halohop", "serve", parts, *options, env=SECRET)
    lines = iter(told(server.stderr).readline, "")
    assert any(line.startswith("serving") for line in lines), "the server has ended"  # it may compile kernels first


# ---- a trainer


def start_trainer(
    end: ExitStack, *, seeds: str, fanout: list[int], parts: str | None = None, servers: list[str] | None = None, **how: Any
) -> tuple[Info, Any]:
    """`seeds` is a file of ids, or the name of a split; `how` are further arguments of the loader."""
    torch.set_num_threads(1)
    world = halohop.World.from_env()
    if world.rank == 0 and world.num_hosts > 1:
        where = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        store = TCPStore(*where, is_master=True, wait_for_workers=False)
        end.callback(lambda: store)  # the ranks meet in it again when they end
    graph = halohop.open(parts, deadline=DEADLINE) if parts else halohop.connect(servers or [], deadline=DEADLINE)
    chosen = torch.from_numpy(np.load(seeds)) if seeds.endswith(".npy") else seeds
    how = {"batch_size": BATCH_SIZE, "shuffle": True, "expand": "all", "num_workers": 2} | how
    loader = halohop.NeighborLoader(graph, fanout, chosen, world=world, **how)

    def run(batches: int) -> Unit:
        counts: Counter[str] = Counter()
        iterator = iter(loader)
        begin, before = time.perf_counter(), loader.statistics()
        for batch in islice(iterator, batches):
            counts.update(batches=1, edges=batch.num_edges, nodes=batch.num_nodes)
        seconds, after = time.perf_counter() - begin, loader.statistics()
        received = after.get("transport_bytes_received", 0) - before.get("transport_bytes_received", 0)
        return Unit(seconds=seconds, counts={**counts, "bytes_received": received})

    return Info(versions={}), run


if __name__ == "__main__":
    with ExitStack() as end:
        serve(partial(start_trainer if is_trainer() else start, end))
