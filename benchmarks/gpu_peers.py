"""Loaders of DGL and PyG for `benchmarks.gpu`: an epoch of finished batches on the GPU, and what the model takes of one."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.contestants.halohop_epoch import ready
from benchmarks.entries import FANOUT
from benchmarks.model import Ready
from benchmarks.work import BATCH_SIZE, column, relations

Peer = tuple[Callable[[], Iterator[Any]], Callable[[Any], Ready]]


def dgl(folder: str, nodes: Tensor, *, uva: bool) -> Peer:
    """DGL's DataLoader with its graph and rows on the device, or both page-locked (`use_uva`)."""
    from dgl import graph as graph_of
    from dgl.dataloading import DataLoader, NeighborSampler

    ((indptr, indices),) = relations(folder).values()
    graph = graph_of(("csc", (torch.from_numpy(indptr), torch.from_numpy(indices).long(), torch.empty(0, dtype=torch.int64))))
    graph.ndata["x"], graph.ndata["y"] = (torch.from_numpy(column(folder, name)) for name in ("x", "y"))
    graph = graph if uva else graph.to("cuda")
    sampler = NeighborSampler(FANOUT[::-1], prefetch_node_feats=["x"], prefetch_labels=["y"])
    loader = DataLoader(graph, nodes.cuda(), sampler, batch_size=BATCH_SIZE, device="cuda", use_uva=uva)

    def finish(batch: Any) -> Ready:
        _, _, blocks = batch
        hops = [(*block.edges(), block.num_dst_nodes()) for block in blocks]
        return blocks[0].srcdata["x"], blocks[-1].dstdata["y"], hops

    return lambda: iter(loader), finish


def pyg(folder: str, nodes: Tensor) -> Peer:
    """PyG's NeighborLoader, which samples and gathers on the CPU, and copies by page-locked memory."""
    from torch_geometric.data import Data
    from torch_geometric.loader import NeighborLoader

    ((indptr, indices),) = relations(folder).values()
    ends = torch.repeat_interleave(torch.arange(len(indptr) - 1), torch.from_numpy(indptr).diff())
    data = Data(edge_index=torch.stack([torch.from_numpy(indices).long(), ends]))
    data.x, data.y = (torch.from_numpy(column(folder, name)) for name in ("x", "y"))
    loader = NeighborLoader(data, FANOUT, nodes, batch_size=BATCH_SIZE, num_workers=4, persistent_workers=True, pin_memory=True)
    return lambda: (batch.to("cuda", non_blocking=True) for batch in loader), partial(ready, expand="new")
