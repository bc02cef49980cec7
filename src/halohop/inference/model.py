"""What layer-wise inference computes: a model in stages, each of which gives every node a new row."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from halohop.errors import NotFiniteError
from halohop.flags import checks_flags
from halohop.ops import segment_spmm
from halohop.typing import NodeType, Relation

PREDICTIONS, CONFIDENCE, EMBEDDINGS = "predictions", "confidence", "embeddings"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Neighbours:
    """Some in-edges of a batch of `n` nodes, all of one relation, grouped by the node that they lead to.

    Args:
        relation: their relation.
        x: rows of their sources, ``[m, width]``; of the batch's own nodes first, where the relation leads from a type to itself.
        src: which row of `x` each edge comes from, int64 ``[edges]``.
        counts: how many of these edges each node has, int64 ``[n]``.
        degree: how many in-edges of this relation it has in all, int64 ``[n]``.
    """

    relation: Relation
    x: Tensor
    src: Tensor
    counts: Tensor
    degree: Tensor

    @property
    def dst(self) -> Tensor:
        """Which node of the batch each edge leads to, int64 ``[edges]``."""
        return torch.arange(len(self.counts), device=self.src.device).repeat_interleave(self.counts, output_size=len(self.src))

    def reduce(self, values: Tensor, how: str = "sum", empty: float = 0.0) -> Tensor:
        """Per node the sum (or "max") of `values` ``[edges, ...]``; `empty` where it has no edge.

        By segments and not by scattering, so that the order of the additions, and so the result, is the same every time.
        """
        flat = values.reshape(len(values), values[:0].flatten(1).shape[1])
        if not len(values):
            return values.new_full((len(self.counts), *values.shape[1:]), empty)
        out: Tensor = torch.segment_reduce(flat, how, lengths=self.counts, axis=0, initial=empty)
        return out.view(len(self.counts), *values.shape[1:])

    def sum_of(self, rows: Tensor, weights: Tensor | None = None) -> Tensor:
        """Per node the sum of its sources' rows ``[m, ...]``, times the weights of edges ``[edges]`` or ``[edges, heads]``.

        On the CPU no edge has a row of its own. On a GPU, where that would add in another order each time, it has.
        """
        if rows.device.type == "cpu":
            return segment_spmm(rows, self.src, torch.cat([self.counts.new_zeros(1), self.counts.cumsum(0)]), weight=weights)
        messages = rows[self.src]
        if weights is not None:
            messages = messages * weights.view(*weights.shape, *[1] * (messages.dim() - weights.dim()))
        return self.reduce(messages)

    def share_of_mean(self, values: Tensor) -> Tensor:
        """What these edges contribute to each node's mean of `values` ``[m, width]`` over all its in-edges."""
        return self.sum_of(values) / self.degree.clamp(min=1)[:, None]


class LayeredModel:
    """A model in stages. Each gives every node a new row, made of its own row and those of its in-neighbours before.

    Attributes:
        target: the node type whose rows are wanted in the end.
        relations: of the graph.
        stages: how many.
        folds: whether `rows` takes a node's edges in several pieces; otherwise it needs all of a relation in one.
    """

    folds = True

    def __init__(self, module: nn.Module, target: NodeType, relations: tuple[Relation, ...], stages: int) -> None:
        self.module, self.target, self.relations, self.stages = module, target, relations, stages

    def hops(self, stage: int) -> bool:
        """Whether a stage looks at neighbours."""
        return True

    def relations_into(self, stage: int, node_type: NodeType) -> tuple[Relation, ...]:
        """The relations along which a stage looks for neighbours of a node type."""
        return tuple(relation for relation in self.relations if relation[2] == node_type) if self.hops(stage) else ()

    def columns(self, node_type: NodeType) -> tuple[str, ...]:
        """The columns that `inputs` is made of."""
        raise NotImplementedError

    def inputs(self, node_type: NodeType, columns: tuple[Tensor, ...]) -> Tensor:
        """What the first stage begins with, ``[n, ...]``."""
        raise NotImplementedError

    def rows(self, stage: int, node_type: NodeType, x: Tensor, neighbours: Iterable[Neighbours]) -> Tensor:
        """New rows ``[n, width]`` of nodes whose rows were `x`."""
        raise NotImplementedError

    def results(self, rows: Tensor) -> dict[str, Tensor]:
        """What is kept of the last stage's rows."""
        raise NotImplementedError

    def node_types(self, stage: int) -> tuple[NodeType, ...]:
        """The node types that a stage must compute, for the last one to know all it needs."""
        needed = {self.target}
        for later in range(self.stages - 1, stage, -1):
            needed |= {relation[0] for name in tuple(needed) for relation in self.relations_into(later, name)}
        return tuple(sorted(needed))


def check_finite(name: str, values: Tensor) -> None:
    """Refuses losses, weights or predictions of a model that are NaN or infinite.

    Raises:
        NotFiniteError: a value is NaN or infinite; `name` says what it is.
    """
    wrong = values[~values.isfinite()]
    if len(wrong):
        raise NotFiniteError(
            f"{name} is {float(wrong[0])}: the model has diverged, or its input has missing or very large values; "
            "check the features `x`, or train with a lower learning rate (lr, --lr)"
        )


@checks_flags
def classified(head: Callable[[Tensor], Tensor], rows: Tensor, *, embeddings: bool, several: bool = False) -> dict[str, Tensor]:
    """Classes, how sure the model is of them, and the rows themselves if they are wanted.

    Where a node may belong to several classes: whether to each (uint8), and the probability of each.

    Raises:
        NotFiniteError: a probability is NaN.
    """
    if several:
        confidence = head(rows).sigmoid()
        classes = (confidence > 0.5).to(torch.uint8)
    else:
        confidence, classes = head(rows).softmax(dim=1).max(dim=1)
    check_finite("the confidence of a prediction", confidence)
    return {PREDICTIONS: classes, CONFIDENCE: confidence} | ({EMBEDDINGS: rows} if embeddings else {})
