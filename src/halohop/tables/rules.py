"""A rule at work: the state that it keeps, how gradients of equal rows are put together, and how they change rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from halohop import ops
from halohop.errors import InputError
from halohop.tables.rule_spec import Duplicates, RuleSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSpec:
    """An array of a rule's state.

    Args:
        row_shape: of a row's entries.
        dtype: of them.
        fill: what they are before the first step.
    """

    row_shape: tuple[int, ...]
    dtype: torch.dtype
    fill: float = 0.0


class Rule:
    """Changes rows of a table as a `RuleSpec` says. It holds nothing: the table's owner keeps the state.

    Args:
        spec: the rule.
        shape: of the table's rows.
        dtype: of the table.

    Raises:
        InputError: the table is not of floats.

    Example:
        >>> rule = Rule(RuleSpec(kind="sgd"), shape=(2,), dtype=torch.float32)
        >>> rows = torch.zeros(3, 2)
        >>> rule.apply(rows, {}, torch.tensor([1]), torch.ones(1, 2), lr=0.5, step=1)
        >>> rows.tolist()
        [[0.0, 0.0], [-0.5, -0.5], [0.0, 0.0]]
    """

    def __init__(self, spec: RuleSpec, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        if dtype not in ops.FLOATS:
            kinds = ", ".join(str(known).removeprefix("torch.") for known in ops.FLOATS)
            raise InputError(f"a table of {str(dtype).removeprefix('torch.')} cannot be trained; make it of one of {kinds}")
        self.spec = spec
        self._shape, self._dtype = shape, ops.gradient_dtype(dtype)

    def states(self) -> dict[str, StateSpec]:
        """The arrays of the state, by name."""
        entries = StateSpec(row_shape=self._shape, dtype=self._dtype)
        match self.spec.kind:
            case "sgd":
                return {}
            case "adagrad":
                return {"sum": StateSpec(row_shape=self._shape, dtype=self._dtype, fill=self.spec.initial)}
            case "rowwise_adagrad":
                return {"sum": StateSpec(row_shape=(), dtype=self._dtype, fill=self.spec.initial)}
            case "adam":
                steps = {"steps": StateSpec(row_shape=(), dtype=torch.int32)} if self.spec.bias == "row" else {}
                return {"mean": entries, "square": entries} | steps

    def apply(
        self,
        rows: Tensor,
        states: Mapping[str, Tensor],
        lid: Tensor,
        grads: Tensor | ops.SummedRows,
        *,
        lr: float,
        step: int,
        scale: float = 1.0,
    ) -> None:
        """Changes rows, and their state. Several threads may do so at once with other rows of the same arrays.

        Args:
            rows: ``[n, *shape]`` of the table's dtype, contiguous.
            states: ``[n, *row_shape]`` each, as `states` describes them.
            lid: int64 ``[k]``, each at most once.
            grads: ``[k, *shape]``, see `gradient_dtype`.
            lr: the learning rate.
            step: the number of this step, from 1.
            scale: gradients are multiplied by this first.

        Raises:
            IdError: a row that is not there; nothing is changed.
            InputError: other dtypes or shapes.
        """
        spec = self.spec
        factor = -scale if spec.maximize else scale
        match spec.kind:
            case "sgd":
                ops.step_sgd(rows, lid, grads, lr=lr, scale=factor)
            case "adagrad" | "rowwise_adagrad":
                apply = ops.step_adagrad if spec.kind == "adagrad" else ops.step_rowwise_adagrad
                decayed = lr / (1 + (step - 1) * spec.lr_decay)
                apply(rows, states["sum"], lid, grads, lr=decayed, eps=spec.eps, scale=factor)
            case "adam":
                ops.step_adam(
                    rows,
                    states["mean"],
                    states["square"],
                    lid,
                    grads,
                    lr=lr,
                    eps=spec.eps,
                    beta1=spec.beta1,
                    beta2=spec.beta2,
                    step=step,
                    row_steps=states.get("steps"),
                    scale=factor,
                )


def coalesce(
    gid: Sequence[Tensor], grads: Sequence[Tensor], duplicates: Duplicates, *, pool: ops.Pool | None = None
) -> tuple[Tensor, ops.SummedRows]:
    """Puts together the gradients that several ranks have for rows, by row.

    Args:
        gid: of each rank in turn, int64 ``[n]``, in any order, repeated as often as they were looked up; at least one rank.
        grads: of each rank, ``[n, *shape]``.
        duplicates: gradients of one row are added up, or averaged over all of them.
        pool: where the memory of the sums comes from.

    Returns:
        The rows that occur, ascending, and the gradient of each. Sums are formed in order of rank and position, so that they have
        the same bits wherever the rows lie. Gradients of rows that occur once stay where they are.

    Example:
        >>> ids, grads = [torch.tensor([5, 3]), torch.tensor([5])], [torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0]])]
        >>> rows, sums = coalesce(ids, grads, "sum")
        >>> rows, sums.tensor()
        (tensor([3, 5]), tensor([[2.],
                [4.]]))
    """
    return ops.unite(gid, grads, mean=duplicates == "mean", pool=pool)
