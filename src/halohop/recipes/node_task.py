"""Node classification: nodes with sampled neighbourhoods, cross-entropy, accuracy."""

import time
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import halohop
from halohop.loading.loader import BatchLoader
from halohop.recipes.labels import count_classes, find_target, seed_labels
from halohop.recipes.ranks import share_of, sum_over_ranks
from halohop.recipes.spec import ModelSpec, class_names, numbered
from halohop.recipes.task import Score, Setting, Task, evaluation_fanout, moved

FEW_EDGES = 10_000_000
"""Graphs of up to so many edges are evaluated with all neighbours, unless the user says otherwise."""


class NodeTask(Task):
    """One trainer's part in classifying the nodes of a type.

    Raises:
        SchemaError, InputError: the graph has no such nodes, or no labels; or the model does not fit it.
    """

    scored, figure = "nodes", "accuracy"

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        schema = setting.graph.schema
        self.target = find_target(schema, setting.config.target)
        self.splits = schema.splits(self.target)
        found = count_classes(setting.graph, self.target, setting.world, setting.device)
        num_classes = max(found, len(class_names(schema, self.target)))
        self.spec = numbered(setting.graph, ModelSpec.of(setting.config, schema, self.target, num_classes))
        self.eval_fanout = evaluation_fanout(setting, few_edges=FEW_EDGES)

    def about(self) -> dict[str, Any]:
        return {"target": self.target, "classes": self.spec.num_classes}

    def loader(self, split: str) -> halohop.NeighborLoader:
        config, train = self.setting.config, split == "train"
        return share_of(
            self.setting.graph,
            (self.target, split),
            config.fanout if train else self.eval_fanout,
            batch_size=config.batch_size if train else config.eval_batch_size,
            shuffle=train,
            seed=config.seed,
            workers=config.workers,
            backlog_bytes=config.backlog_bytes,
            world=self.setting.world,
            device=self.setting.device,
            deadline_s=config.deadline_s,
        )

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, int]:
        y = seed_labels(batch, self.target)
        logits, y = model(batch)[y >= 0], y[y >= 0]
        return F.cross_entropy(logits, y, reduction="sum"), len(y)

    @torch.no_grad()
    def score(self, model: nn.Module, loader: BatchLoader) -> Score:
        start = time.perf_counter()
        model.eval()
        correct = losses = known = 0.0
        for batch in loader:
            batch = moved(batch, self.setting.device)
            y = seed_labels(batch, self.target)
            logits, y = model(batch)[y >= 0], y[y >= 0]
            correct += int((logits.argmax(dim=1) == y).sum())
            losses += float(F.cross_entropy(logits, y, reduction="sum"))
            known += len(y)
        correct, losses, known = sum_over_ranks([correct, losses, known], self.setting.device, self.setting.world)
        accuracy, mean = (correct / known, losses / known) if known else (float("nan"), float("nan"))
        return Score(figures={"accuracy": accuracy}, loss=mean, count=int(known), seconds=time.perf_counter() - start)
