"""How good is a model on a split? Every rank takes its share of the nodes; all get the same answer."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from halohop.recipes.labels import seed_labels
from halohop.recipes.ranks import sum_over_ranks
from halohop.store.schema import Schema
from halohop.typing import NodeType
from halohop.world import World

FEW_EDGES = 10_000_000
"""Graphs of up to so many edges are evaluated with all neighbours, unless the user says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Accuracy (0..1) and mean cross-entropy of `nodes` labelled nodes; both are NaN where there are none."""

    accuracy: float
    loss: float
    nodes: int
    seconds: float


def evaluation_fanout(wanted: tuple[int, ...] | None, schema: Schema, trained_with: tuple[int, ...]) -> tuple[int, ...]:
    """The fanout to evaluate with: the wanted one, else all neighbours on small graphs and the training fanout on others."""
    if wanted is not None:
        return wanted
    num_edges = sum(spec.count for spec in schema.edges.values())
    return (-1,) * len(trained_with) if num_edges <= FEW_EDGES else trained_with


@torch.no_grad()
def evaluate(model: nn.Module, loader: Iterable[Any], *, target: NodeType, device: torch.device, world: World) -> Score:
    """Scores a model on this rank's batches, and adds up what all ranks found.

    Args:
        model: maps a batch to the logits of its seeds; left in evaluation mode.
        loader: this rank's share of the split.
        target: node type of the seeds.
        device: where the model lies.
        world: the ranks that take part.
    """
    start = time.perf_counter()
    model.eval()
    correct = loss = known = 0.0
    for batch in loader:
        batch = batch if device.type == "cpu" else batch.to(device, non_blocking=True)
        y = seed_labels(batch, target)
        logits, y = model(batch)[y >= 0], y[y >= 0]
        correct += int((logits.argmax(dim=1) == y).sum())
        loss += float(F.cross_entropy(logits, y, reduction="sum"))
        known += len(y)
    correct, loss, known = sum_over_ranks([correct, loss, known], device, world)
    accuracy, mean = (correct / known, loss / known) if known else (float("nan"), float("nan"))
    return Score(accuracy=accuracy, loss=mean, nodes=int(known), seconds=time.perf_counter() - start)
