"""DGL's distributed sampling on several hosts, as its launcher sets it up: on each a server with one partition, and a trainer.

Sampling is done in the trainer, or, with `samplers`, in that many processes beside it. The trainer pulls features and labels,
as in DGL's examples. With `own` its seeds are those that DGL's `node_split` gives it, near ones first. Server and trainer of a
host share memory under names that DGL chooses, the same on all hosts: so each host gets a /dev/shm of its own. Every unit begins
an epoch.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cluster import Trainers, is_trainer
from benchmarks.protocol import Info, Unit, serve
from benchmarks.work import BATCH_SIZE
from tests.support.hosts import joined

PORT = 30050
SERVER = "import dgl, sys; dgl.distributed.initialize(sys.argv[1])"


def start(
    end: ExitStack,
    *,
    folder: str,
    hosts: int,
    gigabits: float,
    division: str,
    fanout: list[int],
    samplers: int,
    own: bool = False,
) -> tuple[Info, Any]:
    network = end.enter_context(joined(hosts))
    addresses = Path(end.enter_context(tempfile.TemporaryDirectory(prefix="halohop-bench-"))) / "addresses"
    addresses.write_text("".join(f"{host.address} {PORT}\n" for host in network))
    trainers = Trainers("dgl_cluster")
    for rank, host in enumerate(network):
        host.limit_rate(gigabits * 1e9)
        options = {"folder": folder, "division": division, "fanout": fanout, "rank": rank, "hosts": hosts}
        options |= {"samplers": samplers, "own": own}
        trainers.start(host, {"addresses": str(addresses), **options})
    trainers.ready()
    return Info(versions={name: version(name) for name in ("dgl", "torch")}, widths={"all ids": "int64"}), trainers.run


def start_trainer(
    *, addresses: str, folder: str, division: str, fanout: list[int], rank: int, hosts: int, samplers: int, own: bool
) -> tuple[Info, Any]:
    # `ip netns exec` has given this process mounts of its own.
    subprocess.run(["mount", "-t", "tmpfs", "halohop-bench", "/dev/shm"], check=True)
    parts = Path(folder) / f"{division}-dgl"
    os.environ |= {
        "DGL_DIST_MODE": "distributed",
        "DGL_IP_CONFIG": addresses,
        "DGL_CONF_PATH": str(parts / "graph.json"),
        "DGL_NUM_SERVER": "1",
        "DGL_NUM_CLIENT": str(hosts * (1 + samplers)),
        "DGL_NUM_SAMPLER": str(samplers),
        "DGL_GRAPH_FORMAT": "csc",
    }
    server = {"DGL_ROLE": "server", "DGL_SERVER_ID": str(rank)}
    subprocess.Popen([sys.executable, "-c", SERVER, addresses], env={**os.environ, **server})
    import dgl
    import torch

    dgl.distributed.initialize(addresses)
    graph = dgl.distributed.DistGraph("graph")
    sampler = dgl.dataloading.NeighborSampler(fanout[::-1])
    new_id = np.load(parts / "new_id.npy")
    mine = torch.from_numpy(new_id[np.load(f"{folder}/seeds.npy")])
    if own:
        is_seed = torch.zeros(len(new_id), dtype=torch.bool)
        is_seed[mine] = True
        mine = dgl.distributed.node_split(is_seed, graph.get_partition_book(), force_even=True)
    else:
        mine = mine[rank::hosts]
    order = torch.Generator().manual_seed(rank)

    def run(batches: int) -> Unit:
        counts: Counter[str] = Counter()
        seeds = mine[torch.randperm(len(mine), generator=order)[: batches * BATCH_SIZE]]
        begin = time.perf_counter()
        loader = dgl.dataloading.DistNodeDataLoader(graph, seeds, sampler, batch_size=BATCH_SIZE)
        for inputs, outputs, blocks in loader:
            graph.ndata["x"][inputs], graph.ndata["y"][outputs]
            counts.update(batches=1, edges=sum(block.num_edges() for block in blocks), nodes=len(inputs))
        return Unit(seconds=time.perf_counter() - begin, counts=dict(counts))

    return Info(versions={}), run


if __name__ == "__main__":
    with ExitStack() as end:
        serve(start_trainer if is_trainer() else partial(start, end))
