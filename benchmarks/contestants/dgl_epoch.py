"""DGL's DataLoader feeding the model: `workers` processes, or none. Features are picked by the trainer, as in DGL's examples."""

from collections.abc import Callable, Iterator
from typing import Any

import dgl
import dgl.nn
import torch
from torch import nn

from benchmarks.contestants.dgl_sampling import build
from benchmarks.layers import BASES, HIDDEN, RELATIONS, Layers, heads_of, widths
from benchmarks.model import Reader, Ready, Sage, Trainer
from benchmarks.protocol import Info, serve
from benchmarks.work import BATCH_SIZE, SeedBatches, column


def start(
    folder: str,
    fanout: list[int],
    threads: int,
    workers: int,
    ids: str = "int64",
    batch_size: int = BATCH_SIZE,
    train: bool = True,
    kind: str = "",
    step_only: bool = False,
) -> tuple[Info, Any]:
    torch.set_num_threads(threads)
    graph = build(folder, ids)
    features, labels = torch.from_numpy(column(folder, "x")), torch.from_numpy(column(folder, "y"))
    sampler = dgl.dataloading.NeighborSampler(fanout[::-1])
    seeds = SeedBatches(folder, batch_size)

    # One loader for all units: its processes stay. Its seeds are those of one unit.
    loaders: dict[int, Any] = {}

    def epoch(batches: int) -> Iterator[Any]:
        if batches not in loaders:
            nodes = torch.cat([torch.from_numpy(chosen) for chosen in seeds.take(batches)]).to(graph.idtype)
            loaders[batches] = dgl.dataloading.DataLoader(
                graph, nodes, sampler, batch_size=seeds.batch_size, num_workers=workers, persistent_workers=workers > 0
            )
        return iter(loaders[batches])

    def ready(batch: Any) -> Ready:
        inputs, outputs, blocks = batch
        hops = [(*block.edges(), block.num_dst_nodes()) for block in blocks]
        return features[inputs], labels[outputs], hops

    def own(batch: Any) -> Ready:
        """What DGL's own layers read."""
        inputs, outputs, blocks = batch
        types = [(block.edata[dgl.EID] % RELATIONS,) if kind == "rgcn" else () for block in blocks]
        found = [(block.edata[dgl.EID], (block, *more), block.num_dst_nodes()) for block, more in zip(blocks, types)]  # noqa: B905
        return features[inputs], labels[outputs], found

    def model() -> nn.Module:
        if not kind:
            return Sage(features.shape[1], len(fanout))
        return Layers(_convs(kind, features.shape[1], len(fanout)), lambda conv, x, edges: conv(edges[0], x, *edges[1:]))

    finish = own if kind else ready
    contest = Trainer(model, epoch, finish, step_only=step_only) if train else Reader(epoch, finish)
    return Info(versions={"dgl": dgl.__version__, "torch": torch.__version__}, widths={"all ids": ids}), contest.run


def _convs(kind: str, features: int, layers: int) -> list[nn.Module]:
    """The layers that do what those of PyG's names do; GAT without edges from a node to itself, which DGL leaves to the graph."""
    made: dict[str, Callable[[int, int], nn.Module]] = {
        "sage": lambda wide, narrow: dgl.nn.SAGEConv(wide, narrow, "mean"),
        "gcn": lambda wide, narrow: dgl.nn.GraphConv(wide, narrow, allow_zero_in_degree=True),
        "gin": lambda wide, narrow: dgl.nn.GINConv(nn.Sequential(nn.Linear(wide, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, narrow))),
        "gat": lambda wide, narrow: dgl.nn.GATConv(wide, *heads_of(narrow), allow_zero_in_degree=True),
        "rgcn": lambda wide, narrow: dgl.nn.RelGraphConv(wide, narrow, RELATIONS, regularizer="basis", num_bases=BASES),
    }
    return [made[kind](wide, narrow) for wide, narrow in widths(features, layers)]


if __name__ == "__main__":
    serve(start)
