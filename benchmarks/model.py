"""The GraphSAGE of the epoch benchmark, in plain torch: the same code in every environment, whatever loader feeds it.

`Reader` reads the loader alone.
"""

import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.protocol import Unit

HIDDEN = 64
CLASSES = 47
LEARNING_RATE = 0.003

Hop = tuple[Tensor, Any, int]
"""Edges of a hop: sources and destinations among the batch's nodes, and how many nodes are destinations (the first ones).

Instead of destinations, what a library's own layers take.
"""

Ready = tuple[Tensor, Tensor, list[Hop]]
"""A batch ready for the model: features, labels of the seeds, and hops, the outermost first."""


class Sage(nn.Module):
    """GraphSAGE with mean aggregation (Hamilton et al. 2017)."""

    def __init__(self, num_features: int, num_layers: int) -> None:
        super().__init__()
        widths = [num_features, *[HIDDEN] * (num_layers - 1), CLASSES]
        self.layers = nn.ModuleList(nn.Linear(2 * wide, narrow) for wide, narrow in pairwise(widths))

    def forward(self, x: Tensor, hops: list[Hop]) -> Tensor:
        for number, (layer, (src, dst, num_dst)) in enumerate(zip(self.layers, hops)):  # noqa: B905
            total = x.new_zeros(num_dst, x.shape[1]).index_add(0, dst, x[src])
            if dst.is_cuda:  # where the host would wait for the number of bins
                degree = x.new_zeros(num_dst).index_add(0, dst, x.new_ones(len(dst))).clamp(min=1)
            else:
                degree = torch.bincount(dst, minlength=num_dst).clamp(min=1).to(x.dtype)
            x = layer(torch.cat([x[:num_dst], total / degree[:, None]], dim=1))
            x = x if number == len(self.layers) - 1 else x.relu()
        return x


class Reader:
    """Reads short epochs: every batch is finished, with its features, and dropped."""

    def __init__(self, epoch: Callable[[int], Iterator[Any]], ready: Callable[[Any], Ready]) -> None:
        self._epoch, self._ready = epoch, ready

    def run(self, batches: int) -> Unit:
        edges = nodes = 0
        begin = time.perf_counter()
        for batch in self._epoch(batches):
            x, y, hops = self._ready(batch)
            edges, nodes = edges + sum(len(src) for src, _, _ in hops), nodes + len(x)
            del batch, x, y, hops
        return Unit(seconds=time.perf_counter() - begin, counts={"batches": batches, "edges": edges, "nodes": nodes})


class Trainer:
    """Trains on short epochs, and tells the seconds that go into data from those that go into the model.

    With `step_only` a unit's seconds are the latter alone.
    """

    def __init__(
        self,
        model: Callable[[], nn.Module],
        epoch: Callable[[int], Iterator[Any]],
        ready: Callable[[Any], Ready],
        *,
        step_only: bool = False,
    ) -> None:
        torch.manual_seed(0)
        self._model = model()
        self._optimizer = torch.optim.Adam(self._model.parameters(), lr=LEARNING_RATE)
        self._epoch, self._ready, self._step_only = epoch, ready, step_only

    def run(self, batches: int) -> Unit:
        data = model = edges = nodes = 0.0
        begin = last = time.perf_counter()
        for batch in self._epoch(batches):
            x, y, hops = self._ready(batch)
            loaded = time.perf_counter()
            self._step(x, y, hops)
            edges, nodes = edges + sum(len(src) for src, _, _ in hops), nodes + len(x)
            del batch, x, y, hops
            data, model = data + loaded - last, model + time.perf_counter() - loaded
            last = time.perf_counter()
        total = time.perf_counter() - begin
        counts = {"batches": batches, "edges": edges, "nodes": nodes, "data_seconds": total - model, "model_seconds": model}
        return Unit(seconds=model if self._step_only else total, counts=counts)

    def _step(self, x: Tensor, y: Tensor, hops: list[Hop]) -> None:
        self._optimizer.zero_grad()
        nn.functional.cross_entropy(self._model(x, hops), y).backward()
        self._optimizer.step()
