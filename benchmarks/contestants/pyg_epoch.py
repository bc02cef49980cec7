"""PyG's own NeighborLoader feeding the model, where pyg-lib or torch-sparse is installed. It expands new nodes only."""

import importlib.metadata
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch_geometric import nn as pyg
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader

from benchmarks.contestants.halohop_epoch import ready, whole
from benchmarks.layers import RELATIONS, Layers, convs_of
from benchmarks.model import Reader, Ready, Sage, Trainer
from benchmarks.protocol import Info, serve
from benchmarks.work import BATCH_SIZE, SeedBatches, column, relations


def data_of(folder: str) -> Data:
    """The graph as PyG's object, in memory; edges are in the order of their destinations."""
    ((indptr, indices),) = relations(folder).values()
    dst = torch.arange(len(indptr) - 1).repeat_interleave(torch.from_numpy(indptr).diff())
    return Data(
        x=torch.from_numpy(column(folder, "x")),
        y=torch.from_numpy(column(folder, "y")),
        edge_index=torch.stack([torch.from_numpy(indices).long(), dst]),
    )


def start(
    folder: str, fanout: list[int], threads: int, workers: int, batch_size: int = BATCH_SIZE, train: bool = True, kind: str = ""
) -> tuple[Info, Any]:
    torch.set_num_threads(threads)
    data, seeds = data_of(folder), SeedBatches(folder, batch_size)
    # One loader for all units: making one sorts the edges. Its seeds are those of one unit.
    loaders: dict[int, NeighborLoader] = {}

    def epoch(batches: int) -> Iterator[Any]:
        if batches not in loaders:
            nodes = torch.cat([torch.from_numpy(chosen) for chosen in seeds.take(batches)])
            how = {"num_workers": workers, "persistent_workers": workers > 0}
            loaders[batches] = NeighborLoader(data, fanout, nodes, batch_size=seeds.batch_size, is_sorted=True, **how)
        return iter(loaders[batches])

    finish: Any = partial(trimmed, kind=kind) if kind else partial(ready, expand="new")

    def model() -> torch.nn.Module:
        if not kind:
            return Sage(data.num_features, len(fanout))
        return Layers(convs_of(pyg, kind, data.num_features, len(fanout)), lambda conv, x, edges: conv(x[: edges[0]], *edges[1:]))

    contest = Trainer(model, epoch, finish) if train else Reader(epoch, whole)
    versions = {name: importlib.metadata.version(name) for name in ("torch-geometric", "torch")}
    return Info(versions=versions, widths={"all ids": "int64"}), contest.run


def trimmed(batch: Any, kind: str) -> Ready:
    """What `trim_to_layer` leaves for each layer: rows of all nodes so far, and their edges."""
    found = []
    for hops in range(len(batch.num_sampled_edges), 0, -1):
        num_src, num_dst = (sum(batch.num_sampled_nodes[: hops + last]) for last in (1, 0))
        edges = slice(0, sum(batch.num_sampled_edges[:hops]))
        types = (batch.e_id[edges] % RELATIONS,) if kind == "rgcn" else ()
        edge_index = batch.edge_index[:, edges]
        found.append((edge_index[0], (num_src, edge_index, *types), num_dst))
    return batch.x, batch.y[: batch.batch_size], found


if __name__ == "__main__":
    serve(start)
