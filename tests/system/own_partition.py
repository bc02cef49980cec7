"""One rank that makes its own partition of a ring from arithmetic, so that no process ever has the whole graph.

Nodes are 0 to COUNT - 1, owned by ``(7 * v // 3) % SIZE``; edge v leads from v to v + 1, edge COUNT + v from v to v + 2. It
prints a digest of every batch.

python -m tests.system.own_partition RANK SIZE PORT COUNT
"""

import sys
from datetime import timedelta

import torch
import torch.distributed as dist

import halohop
from tests.system.worker import digest


def owners(num_nodes: int, num_parts: int) -> torch.Tensor:
    return (torch.arange(num_nodes) * 7 // 3) % num_parts


def share(part: int, num_parts: int, num_nodes: int) -> halohop.slices.MemoryPartition:
    owner = owners(num_nodes, num_parts)
    own = (owner == part).nonzero().view(-1)
    src = torch.cat([(own - 1) % num_nodes, (own - 2) % num_nodes])
    edge_id = torch.cat([(own - 1) % num_nodes, num_nodes + (own - 2) % num_nodes])
    edges = halohop.slices.EdgeSlice(
        edge_index=torch.stack([src, own.repeat(2)]), edge_id=edge_id, columns={"weight": 1.0 + edge_id % 5}
    )
    nodes = halohop.slices.NodeSlice(id=own, owner=owner, columns={"x": own.float(), "train_mask": own % 2 == 0})
    return halohop.slices.MemoryPartition(
        part=part, num_parts=num_parts, nodes={"node": nodes}, edges={("node", "to", "node"): edges}
    )


def batches(graph: halohop.Graph) -> list[str]:
    loader = halohop.NeighborLoader(graph, [1, 2], "train", batch_size=16, shuffle=True, seed=3, weight_attr="weight")
    return [digest(batch) for batch in loader]


def main(rank: int, size: int, port: int, num_nodes: int) -> None:
    board = dist.TCPStore("127.0.0.1", port, is_master=False, timeout=timedelta(seconds=30))
    world = halohop.World(rank=rank, size=size, host=rank, num_hosts=size)
    with halohop.open(share(rank, size, num_nodes), world=world, board=board, listen="tcp://127.0.0.1:0") as graph:
        print("\n".join(batches(graph)))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
