"""The loader of sampled batches: seeds in, batches with their rows out. What the user sees of one is the face's business."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from halohop.cluster.device import DeviceGraph
from halohop.cluster.graph import AnyGraph
from halohop.loading.base import BaseLoader
from halohop.loading.examples import Examples
from halohop.loading.pipeline import Made
from halohop.loading.seeds import Share
from halohop.sampling.batch import AnySeeds, Batch
from halohop.sampling.collect import checked_layout, collect, laid_out
from halohop.sampling.sampler import Sampler

_NO_SPAN = nullcontext()


class BatchLoader(BaseLoader):
    """A loader of what a sampler draws around its seeds.

    Subclasses say what the user sees of a batch (`_to_user`), and may change one before its rows are collected (`_revised`).

    Args:
        sampler: draws the subgraphs; its graph is asked for the rows.
        seeds: what is dealt to the batches.
        layout: of features that are stored sparse: `torch.strided` (dense), or `torch.sparse_csr` for models that multiply so.
        options: as of `BaseLoader`.

    Raises:
        InputError: options that exclude each other, or that cannot work.
    """

    def __init__(self, sampler: Sampler, seeds: Examples, *, layout: torch.layout = torch.strided, **options: Any) -> None:
        self._layout = checked_layout(layout)
        self._sampler = sampler
        graph = sampler.graph
        super().__init__(graph.host if isinstance(graph, DeviceGraph) else graph, seeds, **options)

    def _revised(self, batch: Batch) -> Batch:
        return batch

    def _collected(self, batch: Batch) -> Batch:
        return collect(self._rows_from(), batch)

    def _rows_from(self) -> AnyGraph:
        """The graph that is asked for the rows of batches: where there is a device, that of the device."""
        there = self._graph().on_device
        return self._graph() if there is None else there

    def _drawn_around(self, seeds: AnySeeds) -> Batch:
        """The structure of a batch as the sampler gives it."""
        drawn_from = self._sampler.graph
        return self._sampler.sample(seeds.put(drawn_from.pool) if isinstance(drawn_from, DeviceGraph) else seeds)

    def _sampled(self, seeds: AnySeeds) -> Batch:
        """The structure of a batch, where its rows are to be."""
        batch, there = self._revised(self._drawn_around(seeds)), self._graph().on_device
        return batch if there is None or isinstance(self._sampler.graph, DeviceGraph) else batch.put(there.pool)

    def _to_user(self, batch: Batch) -> Made[Any]:
        return Made(item=batch, num_bytes=batch.num_bytes)

    def _device_span(self, name: str) -> AbstractContextManager[None]:
        return _NO_SPAN if self._on_device is None else self._on_device.span(name)

    def _made(self, epoch: int, share: Share) -> Made[Any]:
        with self.counters.span("sample"), self._device_span("sample"):
            batch = self._sampled(self._seeds.seeds(epoch, share))
        with self.counters.span("collect"), self._device_span("gather"):
            batch = laid_out(self._collected(batch), self._layout, self._rows_from())
        with self.counters.span("convert"):
            made = self._to_user(batch)
        self.counters.add("sampled_edges", batch.num_edges)
        return made
