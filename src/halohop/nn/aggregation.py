"""Rows of a hop's destinations made of those of their sources, and the order of a product and a sum that costs less."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook
from torch_geometric.nn.dense import Linear

from halohop.errors import InputError
from halohop.nn.hops import Hop
from halohop.nn.own import first, own_and_reduced
from halohop.nn.pooled import linear, sum_of_products
from halohop.ops import segment_spmm
from halohop.ops.segments import Reduce

Rows = Tensor | tuple[Tensor, Tensor | None]
"""Rows of all nodes; or those of the sources and of the destinations, where None leaves out what is made of the latter."""

_NUMBER = 16
"""What reading one number of a row costs in an aggregation, in multiplications of a product of matrices; an estimate."""


def aggregate(
    x: Rows,
    hop: Hop,
    *,
    reduce: Reduce = "sum",
    weight: Tensor | None = None,
    own: bool = False,
    lin: nn.Module | Tensor | None = None,
    root: nn.Module | None = None,
) -> Tensor:
    """For each destination of a hop, the sum, mean or maximum of the rows of its sources; for layers of your own.

    Args:
        x: rows of the sources, ``[num_src, *width]``, float16, bfloat16, float32 or float64; or a pair, those of the sources
            and of the destinations. Rows in CSR need `lin`, which makes them dense before they are summed.
        hop: from `hops`.
        reduce: "sum", "mean" or "max".
        weight: what the row of each edge is multiplied by first, of all edges of the batch, ``[E]``.
        own: whether a destination counts among its sources, once more than the edges say; not with "max" or weights.
        lin: a linear layer of the result, or the matrix of one, ``[out, in]``; where that costs less, rows are multiplied before
            they are summed.
        root: a linear layer of the destinations' own rows, which is added.

    Returns:
        ``[num_dst, *width]``; without `lin` and `root` 0 where a list is empty.

    Raises:
        InputError: a dtype, shape or reduction that is not offered; fewer rows than the hop has nodes.

    Example:
        >>> import torch
        >>> hop = Hop(src=torch.tensor([1, 2]), begins=torch.tensor([0, 2]), num_src=3, num_dst=1, edges=slice(0, 2))
        >>> aggregate(torch.tensor([[1.0], [2.0], [6.0]]), hop, reduce="mean", own=True)
        tensor([[3.]])
    """
    if own and (reduce == "max" or weight is not None):
        raise InputError(f"own=True goes with sums and means without weights only, got reduce={reduce!r}; leave it out")
    reads_own = own or (root is not None and isinstance(x, Tensor))
    there, here = pair_of(x if reads_own or isinstance(x, tuple) else (x, None), hop)
    weight = None if weight is None else hop.of_edges(weight)

    def reduced(rows: Tensor) -> tuple[Tensor, Tensor]:
        if not own and (not reads_own or rows is not there):  # the rows of the destinations are not asked of a product
            return rows, segment_spmm(rows, hop.src, hop.begins, reduce=reduce, weight=weight)
        mine, total = own_and_reduced(rows, hop, "sum" if own else reduce, weight)
        if own:
            total = mine + total
            total = total if reduce == "sum" else total / (1 + hop.begins.diff()).view(-1, *[1] * (rows.dim() - 1))
        return mine, total

    if lin is None or reduce == "max":
        mine, out = reduced(there)
    else:
        mine, out, lin = _multiply_first(lin, there, hop, reduced)
    here = mine if reads_own and isinstance(x, Tensor) else here
    return _add_products(lin, out, root, here)


def pair_of(x: Rows, hop: Hop) -> tuple[Tensor, Tensor | None]:
    """Rows of the sources, and of the destinations, of a hop.

    Raises:
        InputError: there are fewer rows than the hop has nodes.
    """
    there, here = x if isinstance(x, tuple) else (x, x)
    for rows, number in ((there, hop.num_src), (here, hop.num_dst)):
        if rows is not None and len(rows) < number:
            raise InputError(
                f"x has {len(rows)} rows, and the edges of this layer are of {number} nodes; give hops to layers outermost "
                "first, one to each"
            )
    return first(there, hop.num_src), None if here is None else first(here, hop.num_dst)


def multiplied(lin: Any, x: Tensor, hop: Hop, reduced: Callable[[Tensor], tuple[Tensor, Tensor]]) -> Tensor:
    """A linear layer of aggregated rows, by the way that costs less.

    Args:
        lin: the layer, or its matrix.
        x: rows of the sources.
        hop: what they are aggregated over.
        reduced: returns own and aggregated rows of any width; commutes with products.
    """
    _, out, lin = _multiply_first(lin, x, hop, reduced)
    return _add_products(lin, out)


def _multiply_first(
    lin: Any, x: Tensor, hop: Hop, reduced: Callable[[Tensor], tuple[Tensor, Tensor]]
) -> tuple[Tensor, Tensor, Any]:
    """Multiplies rows by a linear layer and aggregates them, if that costs less than the other order.

    Returns:
        The destinations' own rows, the aggregated ones, and the layer if these are still to be multiplied.
    """
    if isinstance(lin, Tensor) or is_product(lin):
        weight, bias = (lin, None) if isinstance(lin, Tensor) else (lin.weight, lin.bias)
        if _multiplies_first(weight, x, hop):
            _, out = reduced(linear(x, weight))
            return first(x, hop.num_dst), out if bias is None else out + bias, None
    own, out = reduced(x)
    return own, out, lin


def _add_products(lin: Any, rows: Tensor, root: Any = None, here: Tensor | None = None) -> Tensor:
    """A layer `lin` of rows, or these as they are, plus a layer `root` of others."""
    if here is not None and is_product(lin) and is_product(root):
        biases = [one.bias for one in (lin, root) if one.bias is not None]
        return sum_of_products((rows, lin.weight), (here, root.weight), bias=sum(biases) if biases else None)
    out = rows if lin is None else _applied(lin, rows)
    return out if root is None or here is None else out + _applied(root, here)


def _applied(lin: Any, rows: Tensor) -> Tensor:
    if isinstance(lin, Tensor):
        return linear(rows, lin)
    out: Tensor = linear(rows, lin.weight, lin.bias) if is_product(lin) else lin(rows)
    return out


def is_product(lin: Any) -> bool:
    """Whether a layer is a product of matrices and nothing else."""
    return type(lin) in (Linear, nn.Linear) and not is_altered(lin)


def is_altered(module: nn.Module) -> bool:
    """Whether a user's code runs beside a module's own or in its place, so that the module has to be called."""
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return any(map(len, hooks)) or _has_any_global_hook() or "forward" in module.__dict__


def _multiplies_first(weight: Tensor, x: Tensor, hop: Hop) -> bool:
    """Whether to multiply all sources' rows costs less than to aggregate wide ones and multiply those of the destinations."""
    if x.layout != torch.strided:
        return True  # the product is dense
    narrow, width = weight.shape
    backwards = 1 + x.requires_grad
    saved = _NUMBER * hop.num_edges * (backwards * width - 2 * narrow)
    first: bool = saved > (1 + backwards) * (hop.num_src - hop.num_dst) * width * narrow
    return first
