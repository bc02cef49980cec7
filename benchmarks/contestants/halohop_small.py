"""halohop's loader of a graph in memory."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

import halohop
from benchmarks.contestants.halohop_epoch import ready
from benchmarks.contestants.pyg_epoch import data_of
from benchmarks.model import Reader, Sage, Trainer
from benchmarks.protocol import Info, serve
from benchmarks.work import SeedBatches


def start(
    folder: str, fanout: list[int], threads: int, run: Any, workers: int | None, expand: Any, batch_size: int, train: bool = True
) -> tuple[Info, Any]:
    torch.set_num_threads(threads)
    data, seeds = data_of(folder), SeedBatches(folder, batch_size)
    loaders: dict[int, halohop.NeighborLoader] = {}

    def epoch(batches: int) -> Iterator[Any]:
        if batches not in loaders:
            nodes = torch.cat([torch.from_numpy(chosen) for chosen in seeds.take(batches)])
            how = {"run": run, "num_workers": workers}
            loaders[batches] = halohop.NeighborLoader(data, fanout, nodes, batch_size=seeds.batch_size, expand=expand, **how)
        return iter(loaders[batches])

    finish = partial(ready, expand=expand)
    contest = Trainer(lambda: Sage(data.num_features, len(fanout)), epoch, finish) if train else Reader(epoch, finish)
    return Info(versions={"halohop": halohop.__version__, "torch": torch.__version__}), contest.run


if __name__ == "__main__":
    serve(start)
