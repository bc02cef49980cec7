"""One rank, as a process: a dense model in DDP and a table, trained under torch's `Join` with fewer batches at each next rank."""

import os
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

import halohop
from tests.optim.joined import DIM, EPOCHS, Head, batches

if __name__ == "__main__":
    address, out = sys.argv[1:]
    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo")
    with halohop.connect([address]) as graph:
        embedding = halohop.DistEmbedding(graph, None, DIM, "learned", node_type="node", seed=1)
        model = DistributedDataParallel(Head())
        dense = torch.optim.SGD(model.parameters(), lr=0.1)
        sparse = halohop.optim.SparseAdam([embedding], lr=0.05)
        for epoch in range(EPOCHS):
            with Join([model, sparse]):
                for ids, labels in batches(epoch, rank):
                    dense.zero_grad()
                    F.cross_entropy(model(embedding(ids)), labels).backward()
                    dense.step()
                    sparse.step()
        torch.save({"dense": model.module.state_dict(), "steps": sparse.steps}, f"{out}/{rank}.pt")
        dist.barrier()
    dist.destroy_process_group()
