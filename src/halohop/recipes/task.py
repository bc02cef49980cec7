"""What a training run learns, behind one face: `halohop.recipes.loop` trains it without knowing whether it is nodes or links."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import halohop
from halohop import Graph, World
from halohop.recipes.config import TrainConfig
from halohop.recipes.spec import ModelSpec

Loader = halohop.NeighborLoader | halohop.LinkNeighborLoader


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Where a run takes place: what was asked for, the graph, this trainer's place among the others, and where it computes."""

    config: TrainConfig
    graph: Graph
    world: World
    device: torch.device


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How good a model is on a split.

    Args:
        figures: by name, such as accuracy; the first one decides which model is the best. Greater is better. NaN: of nothing.
        loss: mean over what was scored.
        count: how many nodes or edges that were.
        seconds: that it took.
    """

    figures: dict[str, float]
    loss: float
    count: int
    seconds: float

    @property
    def main(self) -> float:
        return next(iter(self.figures.values()))

    def beats(self, other: "Score | None") -> bool:
        """Where the main figure is the same, as it often is on few nodes, the smaller loss is better."""
        return other is None or (self.main, -self.loss) > (other.main, -other.loss)


class Task(ABC):
    """One trainer's part in learning something.

    Attributes:
        spec: of the model.
        splits: those that there is something of.
        scored: what the count of a score counts, "nodes" or "edges".
        figure: the main one of its scores.
        eval_fanout: of validation and test.
        by_layers: whether these compute all nodes a layer at a time, rather than batches.
    """

    spec: ModelSpec
    splits: tuple[str, ...]
    scored: str
    figure: str
    eval_fanout: tuple[int, ...]
    by_layers = False

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self._loaders: dict[str, Loader] = {}

    @abstractmethod
    def about(self) -> dict[str, Any]:
        """What the event "start" tells of it."""

    @abstractmethod
    def loader(self, split: str) -> Loader:
        """This rank's batches: those to learn from for "train", those to score for other splits."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, Tensor]:
        """The sum of the losses of a batch, and the number of losses, as tensors that the host does not read.

        A batch without examples has a loss, too, whose gradients are all zero.
        """

    @abstractmethod
    def score(self, model: nn.Module, loader: Loader) -> Score:
        """How good the model is, over all ranks; each takes its share, all get the same answer. Leaves it in evaluation mode."""

    def evaluate(self, model: nn.Module, split: str) -> Score:
        """`score` on a split, with the same draws every time, so that scores compare."""
        if split not in self._loaders:
            self._loaders[split] = self.loader(split)
        self._loaders[split].set_epoch(0)
        return self.score(model, self._loaders[split])


def evaluation_fanout(setting: Setting, *, few_edges: int) -> tuple[int, ...]:
    """The fanout to evaluate with: the wanted one, else all neighbours on graphs of few edges, else that of training."""
    config = setting.config
    if config.eval_fanout is not None:
        return config.eval_fanout
    num_edges = sum(spec.count for spec in setting.graph.schema.edges.values())
    return (-1,) * config.layers if num_edges <= few_edges else config.fanout


def moved(batch: Any, device: torch.device) -> Any:
    """A batch on the device of the model."""
    return batch if device.type == "cpu" else batch.to(device, non_blocking=True)


def num_edges(batch: Any) -> int | Tensor:
    """How many edges a batch has; of a padded one a number that lies where the batch does, so that nobody waits for it here."""
    total: int | Tensor = 0
    for store in batch.edge_stores:
        if "edge_index" in store:
            total = total + (store.edge_mask.sum() if "edge_mask" in store else store.edge_index.size(1))
    return total
