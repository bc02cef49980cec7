"""Rows of a hop's destinations made of those of their sources, and the order of a product and a sum that costs less."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn.dense import Linear

from halohop.errors import InputError
from halohop.nn.hops import Hop
from halohop.ops import segment_spmm
from halohop.ops.segments import Reduce

_NUMBER = 16
"""What reading one number of a row costs in an aggregation, in multiplications of a product of matrices, as measured."""


def aggregate(
    x: Tensor,
    hop: Hop,
    *,
    reduce: Reduce = "sum",
    weight: Tensor | None = None,
    lin: nn.Module | None = None,
    own: bool = False,
) -> Tensor:
    """For each destination of a hop, the sum, mean or maximum of the rows of its sources; for layers of your own.

    Args:
        x: rows of the sources, ``[num_src, *width]``, float16, bfloat16, float32 or float64.
        hop: from `hops`.
        reduce: "sum", "mean" or "max".
        weight: what the row of each edge is multiplied by first, of all edges of the batch, ``[E]``.
        lin: a linear layer of the result; where that costs less, rows are multiplied before they are summed.
        own: whether a destination counts among its sources, once more than the edges say; not with "max" or weights.

    Returns:
        ``[num_dst, *width]``; 0 where a list is empty.

    Raises:
        InputError: a dtype, shape or reduction that is not offered.

    Example:
        >>> import torch
        >>> hop = Hop(src=torch.tensor([1, 2]), begins=torch.tensor([0, 2]), num_src=3, num_dst=1, edges=slice(0, 2))
        >>> aggregate(torch.tensor([[1.0], [2.0], [6.0]]), hop, reduce="mean", own=True)
        tensor([[3.]])
    """
    if own and (reduce == "max" or weight is not None):
        raise InputError(f"own=True goes with sums and means without weights only, got reduce={reduce!r}; leave it out")
    weight = None if weight is None else hop.of_edges(weight)

    def reduced(rows: Tensor) -> Tensor:
        if not own:
            return segment_spmm(rows, hop.src, hop.begins, reduce=reduce, weight=weight)
        total = segment_spmm(rows, hop.src, hop.begins) + rows[: hop.num_dst]
        return total if reduce == "sum" else total / (1 + hop.begins.diff()).view(-1, *[1] * (rows.dim() - 1))

    if lin is None:
        return reduced(x)
    if reduce == "max":
        out: Tensor = lin(reduced(x))
        return out
    return multiplied(lin, x, hop, reduced)


def multiplied(lin: Any, x: Tensor, hop: Hop, reduced: Callable[[Tensor], Tensor]) -> Tensor:
    """A linear layer of aggregated rows, by the way that costs less.

    Args:
        lin: the layer.
        x: rows of the sources.
        hop: what they are aggregated over.
        reduced: aggregates rows of any width; commutes with products.
    """
    if _is_product(lin) and _multiplies_first(lin, x, hop):
        first = reduced(F.linear(x, lin.weight))
        return first if lin.bias is None else first + lin.bias
    out: Tensor = lin(reduced(x))
    return out


def with_product(made: Any, out: Tensor, lin: Any, rows: Tensor) -> Tensor:
    """What the layer `made` gave, plus a linear layer of some rows; in the memory of `out` where nothing else can have it."""
    alone = _is_product(made) and _is_product(lin) and lin.bias is None and not torch.is_autocast_enabled(out.device.type)
    if alone and out.dtype == rows.dtype == lin.weight.dtype:
        return out.addmm_(rows, lin.weight.t())
    total: Tensor = out + lin(rows)
    return total


def _is_product(lin: nn.Module) -> bool:
    """Whether a layer is a product of matrices and nothing else."""
    return type(lin) in (Linear, nn.Linear) and not lin._forward_hooks and not lin._forward_pre_hooks


def _multiplies_first(lin: Any, x: Tensor, hop: Hop) -> bool:
    """Whether to multiply all sources' rows costs less than to aggregate wide ones and multiply those of the destinations."""
    narrow, width = lin.weight.shape
    backwards = 1 + x.requires_grad
    saved = _NUMBER * hop.num_edges * (backwards * width - 2 * narrow)
    first: bool = saved > (1 + backwards) * (hop.num_src - hop.num_dst) * width * narrow
    return first
