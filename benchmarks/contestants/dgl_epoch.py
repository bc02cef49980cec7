"""DGL's DataLoader feeding the model: `workers` processes, or none. Features are picked by the trainer, as in DGL's examples."""

from collections.abc import Iterator
from typing import Any

import dgl
import torch

from benchmarks.contestants.dgl_sampling import build
from benchmarks.model import Reader, Ready, Trainer
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

    contest = Trainer(features.shape[1], len(fanout), epoch, ready) if train else Reader(epoch, ready)
    return Info(versions={"dgl": dgl.__version__, "torch": torch.__version__}, widths={"all ids": ids}), contest.run


if __name__ == "__main__":
    serve(start)
