"""Small graphs, and batches of them in three hops."""

from typing import Any

import torch
from torch_geometric.data import Data, HeteroData

import halohop

NODES, EDGES = 60, 400


def made(seed: int = 0) -> Data:
    generator = torch.Generator().manual_seed(seed)
    edge_index = torch.randint(NODES, (2, EDGES), generator=generator)
    time = torch.randint(100, (EDGES,), generator=generator)
    return Data(x=torch.randn(NODES, 5, generator=generator), edge_index=edge_index, time=time, edge_attr=torch.arange(EDGES))


def typed() -> HeteroData:
    generator = torch.Generator().manual_seed(1)
    data = HeteroData()
    for name, count in (("a", 30), ("b", 40)):
        data[name].x = torch.randn(count, 4, generator=generator)
    for src, dst in (("a", "a"), ("a", "b"), ("b", "a")):
        ends = [torch.randint(data[end].num_nodes, (150,), generator=generator) for end in (src, dst)]
        data[src, "to", dst].edge_index = torch.stack(ends)
    return data


def batch_of(data: Any, **options: Any) -> Any:
    node_type = "a" if isinstance(data, HeteroData) else None
    seeds = torch.arange(12)
    nodes = seeds if node_type is None else (node_type, seeds)
    return next(iter(halohop.NeighborLoader(data, [4, 3, 2], nodes, batch_size=8, num_workers=0, **options)))
