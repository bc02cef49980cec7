"""How a sparse optimiser changes the rows of a table: what its owners must know of it."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from halohop.errors import InputError

RuleKind = Literal["sgd", "adagrad", "rowwise_adagrad", "adam"]
Ranks = Literal["mean", "sum"]
Duplicates = Literal["sum", "mean"]
Bias = Literal["step", "row"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSpec:
    """A rule by which gradients change rows; the learning rate comes with each step.

    Args:
        kind: "sgd", "adagrad" and "adam" are those of `torch.optim.SGD`, `Adagrad` and `SparseAdam` on sparse gradients;
            "rowwise_adagrad" keeps one number per row, the mean of the squared gradient's entries.
        eps: added to the root.
        beta1, beta2: of "adam".
        lr_decay: of "adagrad": step t divides the learning rate by ``1 + (t - 1) * lr_decay``.
        initial: what the sums of "adagrad" and "rowwise_adagrad" begin with.
        bias: of "adam": corrects by the steps of the table ("step", as torch), or of each row ("row", as DGL).
        ranks: gradients of several ranks are averaged over all of them, as DDP does, or added up.
        duplicates: gradients of one row within the union of all ranks' lookups are added up, or averaged over its lookups (DGL).
        maximize: goes along the gradient, not against it.

    Raises:
        InputError: a word or a number that is none of these.
    """

    kind: RuleKind
    eps: float = 1e-10
    beta1: float = 0.9
    beta2: float = 0.999
    lr_decay: float = 0.0
    initial: float = 0.0
    bias: Bias = "step"
    ranks: Ranks = "mean"
    duplicates: Duplicates = "sum"
    maximize: bool = False

    def __post_init__(self) -> None:
        words = {"kind": RuleKind, "bias": Bias, "ranks": Ranks, "duplicates": Duplicates}
        for name, known in words.items():
            if getattr(self, name) not in get_args(known):
                raise InputError(f"{name}={getattr(self, name)!r} is none of {', '.join(map(repr, get_args(known)))}")
        below = {"eps": math.inf, "lr_decay": math.inf, "initial": math.inf, "beta1": 1.0, "beta2": 1.0}
        for name, end in below.items():
            if not 0 <= getattr(self, name) < end:
                limit = "a finite number of at least 0" if end == math.inf else "at least 0 and below 1"
                raise InputError(f"{name}={getattr(self, name)!r} of a {self.kind} rule is to be {limit}")
