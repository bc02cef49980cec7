"""PyG's NeighborSampler through pyg-lib or torch-sparse, where one of them is installed; with `rows` also the features.

pyg-lib shares a batch among torch's threads, which it numbers itself. With `time` seeds have the time SEED_TIME, and only edges
up to it are drawn; lists are in the order of time. Weights and times are pyg-lib's alone.
"""

import importlib.metadata
from typing import Any

import torch
from torch_geometric import typing as pyg_typing
from torch_geometric.data import Data
from torch_geometric.sampler import NeighborSampler, NodeSamplerInput

from benchmarks.protocol import Info, Unit, serve, timed
from benchmarks.work import SEED_TIME, SeedBatches, column, edge_column, relations


def start(
    folder: str,
    fanout: list[int],
    threads: int = 1,
    rows: bool = False,
    weight: str | None = None,
    time: str | None = None,
    last: bool = False,
) -> tuple[Info, Any]:
    torch.set_num_threads(threads)
    ((indptr, indices),) = relations(folder).values()
    dst = torch.arange(len(indptr) - 1).repeat_interleave(torch.from_numpy(indptr).diff())
    data = Data(edge_index=torch.stack([torch.from_numpy(indices).long(), dst]), num_nodes=len(indptr) - 1)
    for name in filter(None, (weight, time)):
        data[name] = torch.from_numpy(edge_column(folder, name))
    how: dict[str, Any] = {"weight_attr": weight} if time is None else {"time_attr": time, "disjoint": True}
    sampler = NeighborSampler(data, fanout, is_sorted=True, temporal_strategy="last" if last else "uniform", **how)
    features = torch.from_numpy(column(folder, "x")) if rows else None
    seeds = SeedBatches(folder)

    def make(chosen: Any) -> dict[str, float]:
        node = torch.from_numpy(chosen)
        until = None if time is None else torch.full_like(node, SEED_TIME)
        out = sampler.sample_from_nodes(NodeSamplerInput(input_id=None, node=node, time=until))
        if features is not None:
            torch.index_select(features, 0, out.node)
        return {"batches": 1, "edges": len(out.row), "nodes": len(out.node)}

    def run(batches: int) -> Unit:
        return timed(make, seeds.take(batches))

    backend = "pyg-lib" if pyg_typing.WITH_PYG_LIB else "torch-sparse"
    versions = {name: importlib.metadata.version(name) for name in ("torch-geometric", backend, "torch")}
    return Info(versions=versions, widths={"all ids": "int64"}), run


if __name__ == "__main__":
    serve(start)
