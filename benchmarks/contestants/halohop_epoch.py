"""halohop's loader feeding the model: `workers` threads or processes, or each batch when it is asked for."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import nn

import halohop
import halohop.nn
from benchmarks.layers import RELATIONS, Layers, convs_of
from benchmarks.model import Hop, Reader, Ready, Sage, Trainer
from benchmarks.protocol import Info, serve
from benchmarks.work import SeedBatches


def start(
    folder: str,
    fanout: list[int],
    threads: int,
    run: Any,
    workers: int,
    expand: Any = "all",
    train: bool = True,
    kind: str = "",
) -> tuple[Info, Any]:
    torch.set_num_threads(threads)
    graph = halohop.open(f"{folder}/parts-1")
    seeds = SeedBatches(folder)
    # One loader for all units: its processes stay. Its seeds are those of one unit.
    loaders: dict[int, halohop.NeighborLoader] = {}

    def epoch(batches: int) -> Iterator[Any]:
        if batches not in loaders:
            nodes = torch.cat([torch.from_numpy(chosen) for chosen in seeds.take(batches)])
            how = {"run": run, "num_workers": workers, "persistent_workers": run == "processes"}
            loaders[batches] = halohop.NeighborLoader(graph, fanout, nodes, batch_size=seeds.batch_size, expand=expand, **how)
        return iter(loaders[batches])

    finish: Any = partial(listed, expand=expand, kind=kind) if kind else partial(ready, expand=expand)
    width = graph.schema.nodes["node"].columns["x"].shape[0]

    def model() -> nn.Module:
        if not kind:
            return Sage(width, len(fanout))
        return Layers(convs_of(halohop.nn, kind, width, len(fanout)), lambda conv, x, edges: conv(x, *edges))

    contest = Trainer(model, epoch, finish) if train else Reader(epoch, whole)
    return Info(versions={"halohop": halohop.__version__, "torch": torch.__version__}), contest.run


def ready(batch: Any, expand: str) -> Ready:
    """A layer's edges: of one hop, if it began at all nodes so far; of all hops so far, if each began at new nodes."""
    hops: list[Hop] = []
    num_dst = end = 0
    for nodes, edges in zip(batch.num_sampled_nodes[:-1], batch.num_sampled_edges, strict=True):
        num_dst += nodes
        begin, end = end if expand == "all" else 0, end + edges
        src, dst = batch.edge_index[:, begin:end]
        hops.insert(0, (src, dst, num_dst))
    return batch.x, batch.y[: batch.batch_size], hops


def whole(batch: Any) -> Ready:
    """A batch that is only read, with each of its edges once. torch-sparse does not say its hops."""
    src, dst = batch.edge_index
    return batch.x, batch.y[: batch.batch_size], [(src, dst, batch.num_nodes)]


def listed(batch: Any, expand: str, kind: str) -> Ready:
    """What halohop's own layers read."""
    types = (batch.e_id % RELATIONS,) if kind == "rgcn" else ()
    found = halohop.nn.hops(batch, cumulative=expand != "all")
    return batch.x, batch.y[: batch.batch_size], [(hop.src, (hop, *types), hop.num_dst) for hop in found]


if __name__ == "__main__":
    serve(start)
