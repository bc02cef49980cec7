"""The same as table_trainers by what PyG's users do: the table and Adam's state copied to each trainer, kept alike by DDP."""

from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from benchmarks.cluster import Trainers, is_trainer, resident_bytes
from benchmarks.contestants.halohop_cluster import ranks_env
from benchmarks.contestants.table_trainers import TOUCHED
from benchmarks.protocol import Info, in_turn, serve
from benchmarks.table_servers import NUM_ROWS, WIDTH, batches_of
from tests.support.hosts import joined


def start(end: ExitStack, *, hosts: int) -> tuple[Info, Any]:
    network = end.enter_context(joined(hosts, "hhd"))
    trainers = Trainers("dense_trainers")
    for rank, host in enumerate(network):
        trainers.start(host, {"rank": rank}, ranks_env(network, rank) | {"GLOO_SOCKET_IFNAME": "eth0"})
    trainers.ready()
    return Info(versions={"torch": torch.__version__}), trainers.run


def start_trainer(end: ExitStack, *, rank: int) -> tuple[Info, Any]:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    end.callback(dist.destroy_process_group)
    embedding = torch.nn.Embedding(NUM_ROWS, WIDTH)
    model = torch.nn.parallel.DistributedDataParallel(embedding)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    batches, grads = batches_of(TOUCHED, rank), torch.randn(TOUCHED, WIDTH)

    def step(chosen: torch.Tensor) -> None:
        model(chosen).backward(grads)
        optimizer.step()
        optimizer.zero_grad()

    return Info(versions={}), in_turn(step, batches, {"batches": 1, "rows": TOUCHED}, lambda: {"resident": resident_bytes()})


if __name__ == "__main__":
    with ExitStack() as end:
        serve(partial(start_trainer if is_trainer() else start, end))
