"""Node classification: nodes with sampled neighbourhoods, and what `halohop.recipes.judging` makes of their logits."""

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

import halohop
from halohop.collectives import max_over_ranks
from halohop.inference import LayerPass, costs_less
from halohop.memory import spare_bytes
from halohop.recipes.compiling import padding_of
from halohop.recipes.judging import Judge
from halohop.recipes.labels import count_classes, find_target, labeled_splits, labels_of, seed_labels, several_classes
from halohop.recipes.layered_models import trained_layers
from halohop.recipes.models import NodeClassifier
from halohop.recipes.sharing import shared
from halohop.recipes.spec import ModelSpec, class_names, columns_read
from halohop.recipes.task import Loader, Score, Setting, Task, evaluation_fanout, moved

FEW_EDGES = 10_000_000
"""Graphs of up to so many edges are evaluated with all neighbours, unless the user says otherwise."""


class NodeTask(Task):
    """One trainer's part in classifying the nodes of a type.

    Raises:
        SchemaError, InputError: the graph has no such nodes, or no labels; or the model does not fit it.
    """

    scored = "nodes"

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        schema = setting.graph.schema
        self.target = find_target(schema, setting.config.target)
        found = count_classes(setting.graph, self.target, setting.world, setting.device)
        self.splits = labeled_splits(setting.graph, self.target, setting.world, setting.device)
        num_classes = max(found, len(class_names(schema, self.target)))
        self.judge = Judge(num_classes=num_classes, several=several_classes(schema, self.target))
        self.figure = self.judge.figure
        spec = ModelSpec.of(setting.config, schema, self.target, num_classes)
        self.spec = replace(spec, several=self.judge.several)
        self._passes: dict[str, LayerPass] = {}
        self.by_layers = self._costs_less_by_layers()
        self.eval_fanout = (-1,) * setting.config.layers if self.by_layers else evaluation_fanout(setting, few_edges=FEW_EDGES)

    def about(self) -> dict[str, Any]:
        return {"target": self.target, "classes": self.spec.num_classes}

    def loader(self, split: str) -> halohop.NeighborLoader:
        config, setting, train = self.setting.config, self.setting, split == "train"
        return halohop.NeighborLoader(
            setting.graph,
            list(config.fanout if train else self.eval_fanout),
            (self.target, split),
            batch_size=config.batch_size if train else config.eval_batch_size,
            shuffle=train,
            locality=config.locality if train else "none",
            **columns_read(self.spec, setting.graph.schema, labels=["y"]),
            **shared(config, setting.world, setting.device, padding_of(setting) if train else None),
        )

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, Tensor]:
        return self.judge.loss(model(batch), seed_labels(batch, self.target))

    @torch.no_grad()
    def score(self, model: nn.Module, loader: Loader) -> Score:
        start = time.perf_counter()
        model.eval()
        batches = (moved(batch, self.setting.device) for batch in loader)
        return self._scored(((model(batch), seed_labels(batch, self.target)) for batch in batches), start)

    @torch.no_grad()
    def evaluate(self, model: nn.Module, split: str) -> Score:
        if not self.by_layers:
            return super().evaluate(model, split)
        start = time.perf_counter()
        model.eval()
        assert isinstance(model, NodeClassifier)
        graph, device = self.setting.graph, self.setting.device
        if split not in self._passes:
            gid, _ = graph.select(split, self.target)
            self._passes[split] = LayerPass(graph, self.target, gid, world=self.setting.world, device=device)
        work = self._passes[split]
        (labels,) = graph.fetch_rows(self.target, ["y"], work.gid)
        logits = model.head(work.rows(trained_layers(model, graph, self.target)))
        return self._scored([(logits, labels_of(labels).to(device))], start)

    def _scored(self, found: Iterable[tuple[Tensor, Tensor]], start: float) -> Score:
        """The score of all ranks, from this one's logits and labels."""
        figures, loss, count = self.judge.judge(found, self.setting.device, self.setting.world)
        return Score(figures=figures, loss=loss, count=count, seconds=time.perf_counter() - start)

    def _costs_less_by_layers(self) -> bool:
        """See `halohop.inference.in_memory.costs_less`; the same on all ranks, whatever the memory of each."""
        setting = self.setting
        if setting.config.eval_fanout is not None:
            return False
        seeds = [len(setting.graph.select(split, self.target)[0]) for split in self.splits if split != "train"]
        spare = -max_over_ranks(-spare_bytes(), setting.device, setting.world)
        width, schema = 2 * setting.config.hidden, setting.graph.schema
        return costs_less(schema, setting.config.fanout, max(seeds, default=0), width=width, spare_bytes=int(spare))
