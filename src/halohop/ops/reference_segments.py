"""Aggregation over lists of in-edges, in plain torch: what the kernels compute, and what runs on other devices than the CPU.

Rows are ``[n, heads, width]``, values of edges ``[E, heads]``; list i holds the edges ``begins[i]`` to ``begins[i + 1]``. Edge k
of the lists has its values in row ``edge[k]``, or in row k where `edge` is None.
"""

import torch
from torch import Tensor


def wide(dtype: torch.dtype) -> torch.dtype:
    """What is computed in: float32 for halves, as a sum of many of them would lose what it has."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def destinations(begins: Tensor, num_edges: int) -> Tensor:
    """The list that each edge is in."""
    return torch.arange(len(begins) - 1, device=begins.device).repeat_interleave(begins.diff(), output_size=num_edges)


def shares(begins: Tensor, num_edges: int, dtype: torch.dtype) -> Tensor:
    """``[E, 1]``: 1 / the length of the list that each edge is in."""
    lengths = begins.diff()
    return lengths.to(dtype).reciprocal().repeat_interleave(lengths, output_size=num_edges).unsqueeze(1)


def by_source(src: Tensor, begins: Tensor, num_src: int) -> tuple[Tensor, Tensor, Tensor]:
    """The lists of out-edges: each edge's destination, where each source's list begins, and each edge's place in `src`."""
    place = src.argsort(stable=True)
    counts = torch.zeros(num_src, dtype=torch.int64, device=src.device).index_add_(
        0, src, torch.ones_like(src, dtype=torch.int64)
    )
    return destinations(begins, len(src))[place], torch.cat([begins.new_zeros(1), counts.cumsum(0)]), place


def weighted_sum(
    x: Tensor, src: Tensor, begins: Tensor, weight: Tensor | None, edge: Tensor | None, own: Tensor | None, mean: bool
) -> Tensor:
    """For each list, the sum of its edges' rows of `x`, each times the edge's weight; divided by their number for the mean. Added
    is the destination's own row times its factor in `own`; the first destinations have one."""
    messages = x.index_select(0, src).to(wide(x.dtype))
    if weight is not None:
        messages = messages * (weight if edge is None else weight.index_select(0, edge)).unsqueeze(-1)
    out = messages.new_zeros(len(begins) - 1, *x.shape[1:])
    out.index_add_(0, destinations(begins, len(src)), messages)
    if own is not None:
        out[: len(own)] += own.unsqueeze(-1) * x[: len(own)]
    return (out / begins.diff().clamp(min=1).to(out.dtype).view(-1, 1, 1) if mean else out).to(x.dtype)


def dot(left: Tensor, right: Tensor, src: Tensor, begins: Tensor, edge: Tensor | None) -> Tensor:
    """For each edge, the product of its source's row of `left` and its destination's row of `right`."""
    there, here = left.to(wide(left.dtype)), right.to(wide(right.dtype))
    products = (there.index_select(0, src) * here.index_select(0, destinations(begins, len(src)))).sum(-1).to(left.dtype)
    return products if edge is None else torch.empty_like(products).index_copy_(0, edge, products)


def add(left: Tensor, right: Tensor, src: Tensor, begins: Tensor) -> Tensor:
    """For each edge, its source's row of `left` plus its destination's row of `right`, ``[n, heads]`` each."""
    return left.index_select(0, src) + right.index_select(0, destinations(begins, len(src)))


def greatest(x: Tensor, src: Tensor, begins: Tensor) -> Tensor:
    """For each list, the greatest of its edges' values in each column; 0 where it is empty."""
    index = destinations(begins, len(src)).view(-1, 1, 1).expand(-1, *x.shape[1:])
    return x.new_zeros(len(begins) - 1, *x.shape[1:]).scatter_reduce_(
        0, index, x.index_select(0, src), "amax", include_self=False
    )


def greatest_backward(grad: Tensor, x: Tensor, out: Tensor, src: Tensor, begins: Tensor) -> Tensor:
    """The gradient of `greatest` towards x; edges that have the greatest value share it."""
    dst = destinations(begins, len(src))
    wins = (x.index_select(0, src) == out.index_select(0, dst)).to(grad.dtype)
    share = grad / torch.zeros_like(grad).index_add_(0, dst, wins).clamp_(min=1)
    return torch.zeros_like(x).index_add_(0, src, wins * share.index_select(0, dst))


def softmax(scores: Tensor, begins: Tensor) -> Tensor:
    """Of the scores of each list: they become positive and add up to 1."""
    dst, shape = destinations(begins, len(scores)), (len(begins) - 1, scores.shape[1])
    index = dst.unsqueeze(1).expand_as(scores)
    top = scores.new_zeros(shape).scatter_reduce_(0, index, scores, "amax", include_self=False)
    powers = (scores - top.index_select(0, dst)).exp()
    return powers / powers.new_zeros(shape).index_add_(0, dst, powers).index_select(0, dst)


def softmax_backward(grad: Tensor, out: Tensor, begins: Tensor) -> Tensor:
    """The gradient of `softmax`, given what it returned."""
    dst = destinations(begins, len(out))
    total = out.new_zeros(len(begins) - 1, out.shape[1]).index_add_(0, dst, grad * out)
    return out * (grad - total.index_select(0, dst))


def gatv2(
    left: Tensor, right: Tensor, attention: Tensor, edges: Tensor | None, src: Tensor, begins: Tensor, slope: float
) -> Tensor:
    """For each edge, attention times leaky_relu(its source's row of `left` + its destination's of `right` + its own)."""
    return (torch.nn.functional.leaky_relu(_rows_of_edges(left, right, edges, src, begins), slope) * attention).sum(-1)


def gatv2_backward(
    grad: Tensor,
    left: Tensor,
    right: Tensor,
    attention: Tensor,
    edges: Tensor | None,
    src: Tensor,
    begins: Tensor,
    slope: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of `gatv2` towards left, right, attention and the edges' own rows, empty where there are none."""
    both, dst = _rows_of_edges(left, right, edges, src, begins), destinations(begins, len(src))
    own = grad.unsqueeze(-1)
    to_rows = own * attention * torch.where(both > 0, both.new_ones(()), both.new_full((), slope))
    to_attention = (own * torch.nn.functional.leaky_relu(both, slope)).sum(0)
    to_left, to_right = torch.zeros_like(left).index_add_(0, src, to_rows), torch.zeros_like(right).index_add_(0, dst, to_rows)
    return to_left, to_right, to_attention, to_rows.new_empty(0) if edges is None else to_rows


def _rows_of_edges(left: Tensor, right: Tensor, edges: Tensor | None, src: Tensor, begins: Tensor) -> Tensor:
    both = left.index_select(0, src) + right.index_select(0, destinations(begins, len(src)))
    return both if edges is None else both + edges
