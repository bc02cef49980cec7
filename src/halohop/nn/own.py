"""The rows of a hop's destinations and what they aggregate, with one gradient for both."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from halohop.nn.hops import Hop
from halohop.nn.pooled import clone
from halohop.ops import segment_ops, segment_spmm
from halohop.ops.segments import Reduce


def first(rows: Tensor, number: int) -> Tensor:
    """The first rows, dense or in CSR; all of them as they are, since the gradient of a slice is a copy."""
    if len(rows) == number:
        return rows
    if rows.layout != torch.sparse_csr:
        return rows[:number]
    begins = rows.crow_indices()[: number + 1]
    end = int(begins[-1])
    kept = rows.col_indices()[:end], rows.values()[:end]
    return torch.sparse_csr_tensor(begins, *kept, (number, rows.shape[1]), check_invariants=False)


def own_and_reduced(x: Tensor, hop: Hop, reduce: Reduce = "sum", weight: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The rows of the destinations, and those reduced over their lists.

    The destinations are the first sources. The gradient of their slice alone would be a matrix of zeros of the size of `x`, to be
    added to that of the lists; here it is added to the rows that it is of. A compiler adds them up itself.
    """
    apart = not x.requires_grad or x.dim() != 2 or reduce == "max" or len(x) == hop.num_dst
    apart = apart or torch.compiler.is_compiling() or not torch.is_grad_enabled()
    if apart or (weight is not None and (weight.requires_grad or weight.dtype != x.dtype)):
        return first(x, hop.num_dst), segment_spmm(x, hop.src, hop.begins, reduce=reduce, weight=weight)
    both: tuple[Tensor, Tensor] = _OwnAndReduced.apply(x, hop.src, hop.begins, weight, reduce == "mean")  # type: ignore[no-untyped-call]
    return both


class _OwnAndReduced(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, src: Tensor, begins: Tensor, weight: Tensor | None, mean: bool) -> tuple[Tensor, Tensor]:
        reduced = segment_spmm(x, src, begins, reduce="mean" if mean else "sum", weight=weight)
        return clone(x[: len(begins) - 1]), reduced

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        x, src, begins, weight, ctx.mean = inputs
        ctx.save_for_backward(src, begins, weight)
        ctx.num_src = len(x)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, own: Tensor | None, reduced: Tensor | None) -> Any:
        src, begins, weight = ctx.saved_tensors
        if reduced is None:
            return None if own is None else F.pad(own, (0, 0, 0, ctx.num_src - len(own))), None, None, None, None
        if ctx.mean:
            reduced = reduced / begins.diff().clamp(min=1).unsqueeze(1)
        dst, ends, place = segment_ops.by_source(src, begins, ctx.num_src)
        grad = segment_spmm(reduced, dst, ends, weight=None if weight is None else weight[place])
        if own is not None:
            grad[: len(own)] += own
        return grad, None, None, None, None
