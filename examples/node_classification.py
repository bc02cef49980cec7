"""PyG's training loop over a partitioned graph, alone or on many ranks, with fused layers (docs/guide/layers.md).

python examples/node_classification.py
torchrun --nproc-per-node 2 examples/node_classification.py
"""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.nn.models import GraphSAGE

import halohop
from halohop.datasets import synthetic
from halohop.nn import fuse


def train(parts: Path, epochs: int, world: halohop.World) -> None:
    torch.manual_seed(0)
    with halohop.open(parts) as graph:
        loader = halohop.NeighborLoader(graph, [10, 5], "train", batch_size=64, shuffle=True, world=world)
        model: torch.nn.Module = fuse(GraphSAGE(next(iter(loader)).num_features, 64, num_layers=2, out_channels=8), rows="seeds")
        if world.size > 1:
            model = DistributedDataParallel(model)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for epoch in range(epochs):
            for batch in loader:
                out = model(batch.x, batch.edge_index)
                loss = F.cross_entropy(out, batch.y[: batch.batch_size])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            if world.rank == 0:
                print(f"epoch {epoch}: loss {loss.item():.3f}")


def main(parts: Path, epochs: int) -> None:
    world = halohop.World.from_env()
    if world.size > 1:
        dist.init_process_group("gloo")
    if world.rank == 0 and not parts.exists():
        halohop.partition(synthetic("tiny"), parts, num_parts=2)
    if world.size > 1:
        dist.barrier()
    train(parts, epochs, world)  # nothing of DDP outlives it: a process group that ends after its last user may wait for ever
    if world.size > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "parts"), epochs=5)
