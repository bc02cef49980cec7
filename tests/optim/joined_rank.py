"""One rank, as a process: a dense model in DDP and tables, trained under a join with batches of unequal number."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

import halohop
from halohop.errors import HalohopError
from tests.optim.joined import DIM, LENGTHS, TABLES, WAYS, Head, Whole, batches, optimizers


def train(graph: halohop.Graph, way: str, rank: int) -> dict[str, Any]:
    """Trains tables of this way's name; what of the result lies at this rank."""
    tables = [
        halohop.DistEmbedding(graph, None, DIM, f"{way}: {name}", node_type="node", seed=seed) for seed, name in enumerate(TABLES)
    ]
    if way == "model.join(), made first":
        model = DistributedDataParallel(Head())
        sparse = optimizers(tables, halohop.optim.SparseAdam, halohop.optim.SparseAdagrad)
    else:
        sparse = optimizers(tables, halohop.optim.SparseAdam, halohop.optim.SparseAdagrad)
        model = DistributedDataParallel(Whole(tables) if way == "model.join(), holds the tables" else Head())
    head = model.module.head if isinstance(model.module, Whole) else model.module
    dense = torch.optim.SGD(model.parameters(), lr=0.1)

    def backward(ids: torch.Tensor, labels: torch.Tensor) -> None:
        for optimizer in (dense, *sparse):
            optimizer.zero_grad()
        given = ids if isinstance(model.module, Whole) else [table(ids) for table in tables]
        F.cross_entropy(model(given), labels).backward()

    for epoch in range(len(LENGTHS)):
        with Join([model, *sparse]) if way.startswith("Join") else model.join():
            for ids, labels in batches(epoch, rank):
                backward(ids, labels)
                for optimizer in (dense, *sparse):
                    optimizer.step()
        if epoch == 1:
            fail(model, backward, rank)
    return {"dense": head.state_dict(), "steps": [optimizer.steps for optimizer in sparse]}


def fail(model: DistributedDataParallel, backward: Any, rank: int) -> None:
    """A loop that every rank leaves by an error of its own, before a step."""
    with suppress(LookupError), model.join():
        backward(*batches(2, rank)[0])
        raise LookupError


def lose(graph: halohop.Graph, rank: int) -> str:
    """A loop that one rank leaves by an error of its own: what the others hear."""
    table = halohop.DistEmbedding(graph, None, DIM, "lost", node_type="node")
    model = DistributedDataParallel(Head())
    sparse, heard = halohop.optim.SparseSGD([table], timeout=3.0), ""
    with suppress(LookupError), model.join():
        ids, labels = batches(2, rank)[0]
        F.cross_entropy(model([table(ids)] * 3), labels).backward()
        if rank == 1:
            raise LookupError
        try:
            sparse.step()
        except HalohopError as error:
            heard = str(error)
            raise LookupError from error
    return heard


def main(argv: Sequence[str]) -> None:
    address, out = argv
    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo")
    with halohop.connect([address]) as graph:
        ways = [train(graph, way, rank) for way in WAYS]
        torch.save({"ways": ways, "heard": lose(graph, rank)}, f"{out}/{rank}.pt")
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1:])
