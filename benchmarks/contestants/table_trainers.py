"""Two hosts that train a table of a million rows of 64 float32, with a server and a trainer each; 10,000 rows a trainer and step.

A host holds half of the rows and of Adam's state. Trainers do not see the other host's processes, nor its memory.
"""

import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch

import halohop
from benchmarks.cluster import Trainers, is_trainer, resident_bytes, told
from benchmarks.contestants.halohop_cluster import SECRET, ranks_env
from benchmarks.protocol import Info, in_turn, serve
from benchmarks.table_servers import NUM_ROWS, WIDTH, batches_of, divided
from halohop import init, optim
from halohop.typing import NODE
from tests.support.hosts import joined

TOUCHED = 10_000
PORT = 5530


def start(end: ExitStack, *, hosts: int) -> tuple[Info, Any]:
    network = end.enter_context(joined(hosts, "hht"))
    parts = divided(end.enter_context(tempfile.TemporaryDirectory(prefix="halohop-bench-")), hosts)
    trainers = Trainers("table_trainers")
    addresses = [f"{host.address}:{PORT}" for host in network]
    for rank, host in enumerate(network):
        env = SECRET | ranks_env(network, rank)
        trainers.start(host, {"parts": str(parts), "addresses": addresses, "rank": rank}, env, apart=True)
    trainers.ready()
    return Info(versions={"halohop": halohop.__version__, "torch": torch.__version__}), trainers.run


def start_trainer(end: ExitStack, *, parts: str, addresses: list[str], rank: int) -> tuple[Info, Any]:
    torch.set_num_threads(1)
    others = ",".join(other for other in addresses if other != addresses[rank])
    options = ("--partitions", str(rank), "--listen", addresses[rank], "--peers", others)
    server = subprocess.Popen(
        [sys.executable, "-m", "halohop", "serve", parts, *options], env=os.environ, stderr=subprocess.PIPE, text=True
    )
    end.callback(server.wait, 20)
    end.callback(server.terminate)
    lines = iter(told(server.stderr).readline, "")
    assert any(line.startswith("serving") for line in lines), "the server has ended"
    graph = end.enter_context(halohop.connect(addresses))
    batches, grads = [graph.locate(ids) for ids in batches_of(TOUCHED, rank)], torch.randn(TOUCHED, WIDTH)
    embedding = halohop.DistEmbedding(graph, NUM_ROWS, WIDTH, "rows", init.zeros(), node_type=NODE)
    optimizer = optim.SparseAdam([embedding], lr=1e-3)

    def step(chosen: torch.Tensor) -> None:
        embedding(gid=chosen).backward(grads)
        optimizer.step()
        optimizer.zero_grad()

    return Info(versions={}), in_turn(step, batches, {"batches": 1, "rows": TOUCHED}, lambda: {"resident": resident_bytes()})


if __name__ == "__main__":
    with ExitStack() as end:
        serve(partial(start_trainer if is_trainer() else start, end))
