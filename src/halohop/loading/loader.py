"""The loader of sampled batches: seeds in, batches with their rows out. What the user sees of one is the face's business."""

from typing import Any

import torch

from halohop.loading.base import BaseLoader
from halohop.loading.examples import Examples
from halohop.loading.pipeline import Made
from halohop.loading.seeds import Share
from halohop.sampling.batch import Batch
from halohop.sampling.collect import checked_layout, collect, laid_out
from halohop.sampling.sampler import Sampler


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
        super().__init__(sampler.graph, seeds, **options)

    def _revised(self, batch: Batch) -> Batch:
        return batch

    def _collected(self, batch: Batch) -> Batch:
        return collect(self._sampler.graph, batch)

    def _to_user(self, batch: Batch) -> Made[Any]:
        return Made(item=batch, num_bytes=batch.num_bytes)

    def _made(self, epoch: int, share: Share) -> Made[Any]:
        with self.counters.span("sample"):
            batch = self._sampler.sample(self._seeds.seeds(epoch, share))
            batch = self._revised(batch)
        with self.counters.span("collect"):
            batch = laid_out(self._collected(batch), self._layout, self._sampler.graph)
        with self.counters.span("convert"):
            made = self._to_user(batch)
        self.counters.add("sampled_edges", batch.num_edges)
        return made
