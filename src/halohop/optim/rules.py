"""`halohop.optim`: the rules by which gradients change rows, in torch's names."""

from collections.abc import Iterable, Mapping
from typing import Any, Unpack

from halohop.errors import InputError
from halohop.optim.groups import number
from halohop.optim.sparse_optimizer import SparseOptimizer, StepArguments
from halohop.tables.rule_spec import Bias, RuleSpec


class SparseSGD(SparseOptimizer):
    """Stochastic gradient descent, as `torch.optim.SGD` on sparse gradients.

    Args:
        embeddings: a list of `halohop.DistEmbedding`, or groups of them.
        lr: the learning rate.
        given: see `StepArguments`.
    """

    def __init__(self, embeddings: Iterable[Any], lr: float = 1e-3, **given: Unpack[StepArguments]) -> None:
        super().__init__(embeddings, {"lr": lr}, given)

    def _rule(self, group: Mapping[str, Any]) -> RuleSpec:
        return RuleSpec(kind="sgd")


class SparseAdagrad(SparseOptimizer):
    """Adagrad, as `torch.optim.Adagrad` on sparse gradients: rows that a step does not touch stay as they are.

    Args:
        embeddings, lr, given: as of `SparseSGD`.
        lr_decay: step t divides the learning rate by ``1 + (t - 1) * lr_decay``.
        initial_accumulator_value: what the sums of squares begin with.
        eps: added to their root.
    """

    def __init__(
        self,
        embeddings: Iterable[Any],
        lr: float = 1e-2,
        lr_decay: float = 0.0,
        *,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        **given: Unpack[StepArguments],
    ) -> None:
        defaults = {"lr": lr, "lr_decay": lr_decay, "initial_accumulator_value": initial_accumulator_value, "eps": eps}
        super().__init__(embeddings, defaults, given)

    def _rule(self, group: Mapping[str, Any]) -> RuleSpec:
        return RuleSpec(
            kind="adagrad",
            eps=number("eps", group["eps"]),
            lr_decay=number("lr_decay", group["lr_decay"]),
            initial=number("initial_accumulator_value", group["initial_accumulator_value"]),
        )


class RowwiseAdagrad(SparseOptimizer):
    """Adagrad with one number per row: the sum, over steps, of the mean of the squared gradient's entries.

    Args:
        embeddings, lr, given: as of `SparseSGD`.
        initial_accumulator_value, eps: as of `SparseAdagrad`.
    """

    def __init__(
        self,
        embeddings: Iterable[Any],
        lr: float = 1e-2,
        *,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        **given: Unpack[StepArguments],
    ) -> None:
        super().__init__(embeddings, {"lr": lr, "initial_accumulator_value": initial_accumulator_value, "eps": eps}, given)

    def _rule(self, group: Mapping[str, Any]) -> RuleSpec:
        return RuleSpec(
            kind="rowwise_adagrad",
            eps=number("eps", group["eps"]),
            initial=number("initial_accumulator_value", group["initial_accumulator_value"]),
        )


class SparseAdam(SparseOptimizer):
    """Adam for rows, as `torch.optim.SparseAdam`: rows, and their moments, that a step does not touch stay as they are.

    Args:
        embeddings, lr, given: as of `SparseSGD`.
        betas: of the running means of the gradient and of its square.
        eps: added to the root.
        bias: the means are corrected by the steps of the table ("step", as torch), or by those of each row ("row", as DGL).
    """

    def __init__(
        self,
        embeddings: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        *,
        bias: Bias = "step",
        **given: Unpack[StepArguments],
    ) -> None:
        super().__init__(embeddings, {"lr": lr, "betas": betas, "eps": eps, "bias": bias}, given)

    def _rule(self, group: Mapping[str, Any]) -> RuleSpec:
        betas = group["betas"]
        if not isinstance(betas, tuple | list) or len(betas) != 2:
            raise InputError(f"betas={betas!r} are no two numbers; give two, such as (0.9, 0.999)")
        beta1, beta2 = (number("betas", beta) for beta in betas)
        return RuleSpec(
            kind="adam",
            eps=number("eps", group["eps"]),
            beta1=beta1,
            beta2=beta2,
            bias=group["bias"],
        )
