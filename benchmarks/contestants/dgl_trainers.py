"""The same as table_trainers with DGL's DistEmbedding and SparseAdam: a server and a trainer on each host."""

import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.cluster import Trainers, is_trainer, resident_bytes
from benchmarks.protocol import Info, in_turn, serve
from tests.support.hosts import joined

NUM_ROWS, WIDTH, BATCHES, TOUCHED = 1_000_000, 64, 8, 10_000
PORT = 30060
SERVER = "import dgl, sys; dgl.distributed.initialize(sys.argv[1])"


def start(end: ExitStack, *, hosts: int) -> tuple[Info, Any]:
    network = end.enter_context(joined(hosts, "hhg"))
    folder = Path(end.enter_context(tempfile.TemporaryDirectory(prefix="halohop-bench-")))
    (folder / "addresses").write_text("".join(f"{host.address} {PORT}\n" for host in network))
    _divide(folder, hosts)
    trainers = Trainers("dgl_trainers")
    for rank, host in enumerate(network):
        places = {"MASTER_ADDR": network[0].address, "MASTER_PORT": "29556", "RANK": str(rank), "WORLD_SIZE": str(hosts)}
        env = places | {"GLOO_SOCKET_IFNAME": "eth0", "TP_SOCKET_IFNAME": "eth0"}
        trainers.start(host, {"folder": str(folder), "rank": rank, "hosts": hosts}, env)
    trainers.ready()
    return Info(versions={name: version(name) for name in ("dgl", "torch")}), trainers.run


def _divide(folder: Path, parts: int) -> None:
    import dgl
    import torch

    nodes = torch.arange(NUM_ROWS)
    few = slice(None, None, 2)  # were there as many edges as nodes, DGL would not know whose the rows are
    graph = dgl.graph((nodes[few], nodes.roll(1)[few]), num_nodes=NUM_ROWS)
    dgl.distributed.partition_graph(graph, "graph", parts, str(folder), part_method="random")


def start_trainer(end: ExitStack, *, folder: str, rank: int, hosts: int) -> tuple[Info, Any]:
    # `ip netns exec` has given this process mounts of its own.
    subprocess.run(["mount", "-t", "tmpfs", "halohop-bench", "/dev/shm"], check=True)
    addresses = f"{folder}/addresses"
    os.environ |= {
        "DGL_DIST_MODE": "distributed",
        "DGL_IP_CONFIG": addresses,
        "DGL_CONF_PATH": f"{folder}/graph.json",
        "DGL_NUM_SERVER": "1",
        "DGL_NUM_CLIENT": str(hosts),
        "DGL_NUM_SAMPLER": "0",
        "DGL_GRAPH_FORMAT": "csc",
    }
    subprocess.Popen(
        [sys.executable, "-c", SERVER, addresses], env={**os.environ, "DGL_ROLE": "server", "DGL_SERVER_ID": str(rank)}
    )
    import dgl
    import torch

    torch.set_num_threads(1)
    dgl.distributed.initialize(addresses)
    torch.distributed.init_process_group("gloo")
    graph = dgl.distributed.DistGraph("graph")
    embedding = dgl.distributed.DistEmbedding(graph.num_nodes(), WIDTH, "rows")
    optimizer = dgl.distributed.optim.SparseAdam([embedding], lr=1e-3)
    order = torch.Generator().manual_seed(rank)
    batches = [torch.randperm(NUM_ROWS, generator=order)[:TOUCHED] for _ in range(BATCHES)]
    grads = torch.randn(TOUCHED, WIDTH)

    def step(chosen: Any) -> None:
        optimizer.zero_grad()  # or the lookups of all steps so far would be sent again
        embedding(chosen).backward(grads)
        optimizer.step()

    return Info(versions={}), in_turn(step, batches, {"batches": 1, "rows": TOUCHED}, lambda: {"resident": resident_bytes()})


if __name__ == "__main__":
    with ExitStack() as end:
        serve(partial(start_trainer if is_trainer() else start, end))
