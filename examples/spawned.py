"""Ranks that a script spawns by itself: each has a partition in memory, seeds of its own, and trains with the others.

A rank knows its number, how many there are, and one address and port. It makes its part of the graph, and never sees the rest.

python examples/spawned.py                                                  # four ranks here
python examples/spawned.py --master 10.0.0.7 --port 29500 --ranks 0 1       # two on this host, and
python examples/spawned.py --master 10.0.0.7 --port 29500 --ranks 2 3       # two on another; both with the same HALOHOP_TOKEN
"""

import argparse
import os
import socket

import torch
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.nn.models import GraphSAGE

import halohop
from halohop.collectives import process_group, sum_over_ranks

RANKS, NODES, CLASSES, DEGREE, EPOCHS = 4, 4000, 8, 6, 5


def owners() -> torch.Tensor:
    """The partition of every node: arithmetic that all ranks know."""
    return torch.arange(NODES) // CLASSES % RANKS


def own_partition(rank: int) -> halohop.slices.MemoryPartition:
    """The nodes of this rank and the edges to them, by the ids that all ranks use. The class of a node is `id % CLASSES`."""
    generator = torch.Generator().manual_seed(rank)
    own = (owners() == rank).nonzero().view(-1)
    y = own % CLASSES
    columns = {
        "x": 0.5 * F.one_hot(y, CLASSES) + torch.randn(len(own), CLASSES, generator=generator),
        "y": y,
        "year": 2000 + own % 25,
        "views": own * 3,
        "summary": torch.randn(len(own), 256, generator=generator),
    }
    dst = own.repeat_interleave(DEGREE)
    steps = torch.randint(NODES // CLASSES, (len(dst),), generator=generator)
    src = (dst + CLASSES * steps) % NODES  # of the same class, anywhere
    edges = {("node", "to", "node"): halohop.slices.EdgeSlice(edge_index=torch.stack([src, dst]))}
    nodes = {"node": halohop.slices.NodeSlice(id=own, owner=owners(), columns=columns)}
    return halohop.slices.MemoryPartition(part=rank, num_parts=RANKS, nodes=nodes, edges=edges)


def train(world: halohop.World, graph: halohop.Graph) -> None:
    torch.manual_seed(0)
    mine = (owners() == world.rank).nonzero().view(-1)
    seeds = mine[: len(mine) * (RANKS - 1 - world.rank) // RANKS]  # 750, 500, 250 and none
    loader = halohop.NeighborLoader(
        *(graph, [5, 5], seeds), batch_size=64, shuffle=True, world=world, own_seeds=True, node_columns=["x", "y"]
    )
    model = DistributedDataParallel(GraphSAGE(CLASSES, 32, num_layers=2, out_channels=CLASSES))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for epoch in range(EPOCHS):
        total, steps = 0.0, 0
        with Join([model]):  # ranks that have no batch left take part in the sums of the others
            for batch in loader:
                out = model(batch.x, batch.edge_index)[: batch.batch_size]
                loss = F.cross_entropy(out, batch.y[: batch.batch_size])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total, steps = total + loss.item(), steps + 1
        total, all_steps = sum_over_ranks([total, steps], torch.device("cpu"), world)
        if world.rank == 0:
            columns = [name for name in ("x", "y", "year", "views", "summary") if name in batch]
            print(f"epoch {epoch}: loss {total / all_steps:.3f}, {all_steps:.0f} batches with {' and '.join(columns)}")


def run(number: int, ranks: list[int], master: str, port: int) -> None:
    os.environ |= {"MASTER_ADDR": master, "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    rank = ranks[number]
    world = halohop.World(rank=rank, size=RANKS)  # who shares a machine is found out
    with (
        process_group(world, torch.device("cpu"), 60.0),
        halohop.open(own_partition(rank), world=world) as graph,
    ):
        train(world, graph)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--master", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--ranks", type=int, nargs="+", default=list(range(RANKS)))
    options = parser.parse_args()
    mp.spawn(run, (options.ranks, options.master, options.port or free_port()), nprocs=len(options.ranks))
