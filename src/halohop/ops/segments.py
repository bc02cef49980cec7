"""What layers compute over lists of in-edges: sums, means and maxima of rows, softmax, and scores; with gradients.

Lists are those of CSC: edge k comes from row ``src[k]``, and list i, the in-edges of destination i, goes from ``begins[i]`` to
``begins[i + 1]``. On the CPU nothing here makes a row for every edge, the maximum of weighted rows excepted: memory is that of
the arguments, of the result and of one number for every edge and head.
"""

import math
from typing import Literal, get_args

import torch
from torch import Tensor

from halohop.errors import InputError
from halohop.ops import segment_ops
from halohop.ops.reference_segments import wide

Reduce = Literal["sum", "mean", "max"]
SEGMENT_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def segment_spmm(
    x: Tensor,
    src: Tensor,
    begins: Tensor,
    *,
    reduce: Reduce = "sum",
    weight: Tensor | None = None,
    own: Tensor | None = None,
) -> Tensor:
    """Reduces, for each list, the rows of its edges' sources: a sparse matrix times a dense one (SpMM).

    The result has the same bits for any number of threads. Of halves it is computed in float32.

    Args:
        x: ``[num_src, *width]``, float16, bfloat16, float32 or float64.
        src: int64 or int32 ``[E]``, each edge's source; in 0 .. num_src - 1.
        begins: int64 ``[num_dst + 1]``, where each list begins; ascending, from 0 to E.
        reduce: "sum", "mean" (the sum divided by the number of edges) or "max" (sources that are equal share the gradient, as
            in `torch.amax`).
        weight: ``[E]``, or ``[E, heads]`` where x is ``[num_src, heads, *width]``: what each row is multiplied by first. It may
            need a gradient, too.
        own: ``[n]`` for the first n destinations, which are the first rows of x: what a destination's own row is multiplied by
            and added. With sums only; may need a gradient.

    Returns:
        ``[num_dst, *width]``, of the dtype that torch's promotion gives of x, weight and own; 0 for an empty list.

    Raises:
        InputError: another dtype, shape or reduction; begins that do not ascend from 0 to E.
        IdError: a source out of range.

    Example:
        >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 9.0]])
        >>> segment_spmm(x, torch.tensor([1, 2, 0]), torch.tensor([0, 2, 2, 3]), reduce="mean").tolist()
        [[4.0, 6.5], [0.0, 0.0], [1.0, 2.0]]
    """
    if reduce not in get_args(Reduce):
        raise InputError(f'reduce={reduce!r} is none of "sum", "mean" and "max"')
    _check_values("x", x)
    _check_lists(src, begins, x.device)
    dtype, out_shape = x.dtype, (len(begins) - 1, *x.shape[1:])
    if weight is not None:
        _check_weight(weight, x, len(src))
        dtype = torch.promote_types(dtype, weight.dtype)
    if own is not None:
        _check_own(own, min(len(x), out_shape[0]), reduce)
        dtype = torch.promote_types(dtype, own.dtype)
    heads = weight.shape[1] if weight is not None and weight.dim() == 2 else 1
    rows = x.to(dtype).reshape(len(x), heads, math.prod(x.shape[1:]) // max(heads, 1))
    weights = None if weight is None else weight.to(dtype).reshape(len(src), heads)
    if reduce == "max":
        if weights is not None:
            rows, src = _widened(rows).index_select(0, src) * weights.unsqueeze(-1), torch.arange(len(src), device=src.device)
        out = segment_ops.greatest(_widened(rows), src, begins)
    else:
        owns = None if own is None else own.to(dtype).unsqueeze(1).expand(-1, heads)
        out = segment_ops.weighted_sum(rows, src, begins, weights, None, owns, reduce == "mean")
    return out.reshape(out_shape).to(dtype)


def segment_softmax(scores: Tensor, begins: Tensor) -> Tensor:
    """Softmax within each list: values above 0 that add up to 1.

    Args:
        scores: ``[E]`` or ``[E, heads]``, float16, bfloat16, float32 or float64.
        begins: int64 ``[num_dst + 1]``, as of `segment_spmm`.

    Returns:
        As `scores`.

    Raises:
        InputError: another dtype or shape; begins that do not ascend from 0 to E.

    Example:
        >>> segment_softmax(torch.tensor([1.0, 1.0, 7.0]), torch.tensor([0, 2, 3])).tolist()
        [0.5, 0.5, 1.0]
    """
    _check_values("scores", scores)
    if scores.dim() > 2:
        raise InputError(f"scores must be [E] or [E, heads], got shape {tuple(scores.shape)}")
    _check_begins(begins, len(scores), scores.device)
    heads = 1 if scores.dim() == 1 else scores.shape[1]
    return segment_ops.softmax(_widened(scores).reshape(len(scores), heads), begins).view(scores.shape).to(scores.dtype)


def segment_add(left: Tensor, right: Tensor, src: Tensor, begins: Tensor) -> Tensor:
    """For each edge, its source's row of `left` plus its destination's row of `right`: the scores of GAT before its activation.

    Args:
        left: ``[num_src]`` or ``[num_src, heads]``.
        right: ``[num_dst]`` or ``[num_dst, heads]``, of the dtype of `left`.
        src, begins: as of `segment_spmm`.

    Returns:
        ``[E]`` or ``[E, heads]``.

    Raises:
        InputError, IdError: as of `segment_spmm`.

    Example:
        >>> left, right = torch.tensor([1.0, 2.0]), torch.tensor([10.0, 20.0])
        >>> segment_add(left, right, torch.tensor([0, 1, 1]), torch.tensor([0, 2, 3])).tolist()
        [11.0, 12.0, 22.0]
    """
    _check_pair(left, right, src, begins, dims=(1, 2))
    heads = 1 if left.dim() == 1 else left.shape[1]
    there, here = (_widened(rows).reshape(len(rows), heads) for rows in (left, right))
    return segment_ops.add(there, here, src, begins).reshape(len(src), *left.shape[1:]).to(left.dtype)


def segment_dot(left: Tensor, right: Tensor, src: Tensor, begins: Tensor) -> Tensor:
    """For each edge, the product of its source's row of `left` and its destination's row of `right`: the scores of transformers.

    Args:
        left: ``[num_src, width]`` or ``[num_src, heads, width]``.
        right: ``[num_dst, width]`` or ``[num_dst, heads, width]``, of the dtype of `left`.
        src, begins: as of `segment_spmm`.

    Returns:
        ``[E]`` or ``[E, heads]``.

    Raises:
        InputError, IdError: as of `segment_spmm`.

    Example:
        >>> rows = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> segment_dot(rows, rows, torch.tensor([1, 1]), torch.tensor([0, 1, 2])).tolist()
        [11.0, 25.0]
    """
    _check_pair(left, right, src, begins, dims=(2, 3))
    heads = left.shape[1] if left.dim() == 3 else 1
    there, here = (rows.reshape(len(rows), heads, rows.shape[-1]) for rows in (left, right))
    return segment_ops.dot(there, here, src, begins, None).reshape(len(src), *left.shape[1:-1])


def segment_gatv2(
    left: Tensor,
    right: Tensor,
    attention: Tensor,
    src: Tensor,
    begins: Tensor,
    *,
    edges: Tensor | None = None,
    negative_slope: float = 0.2,
) -> Tensor:
    """The scores of GATv2: attention times the leaky ReLU of an edge's source's row of `left` plus its destination's of `right`.

    Args:
        left: ``[num_src, heads, width]``.
        right: ``[num_dst, heads, width]``, of the dtype of `left`.
        attention: ``[heads, width]``, of the dtype of `left`.
        src, begins: as of `segment_spmm`.
        edges: a row of each edge, which is added to these two, ``[E, heads, width]``, of the dtype of `left`.
        negative_slope: of the leaky ReLU.

    Returns:
        ``[E, heads]``.

    Raises:
        InputError, IdError: as of `segment_spmm`.

    Origin: Brody, Alon & Yahav, "How Attentive are Graph Attention Networks?", ICLR 2022.

    Example:
        >>> left, right = torch.tensor([[[1.0, -5.0]]]), torch.tensor([[[1.0, 0.0]]])
        >>> segment_gatv2(left, right, torch.tensor([[1.0, 2.0]]), torch.tensor([0]), torch.tensor([0, 1])).tolist()
        [[0.0]]
    """
    _check_pair(left, right, src, begins, dims=(3,))
    if attention.shape != left.shape[1:] or attention.dtype != left.dtype:
        raise InputError(
            f"attention is {attention.dtype} of shape {tuple(attention.shape)}, expected {left.dtype} of shape "
            f"{tuple(left.shape[1:])}"
        )
    if edges is not None and (edges.shape != (len(src), *left.shape[1:]) or edges.dtype != left.dtype):
        raise InputError(
            f"edges are {edges.dtype} of shape {tuple(edges.shape)}, expected {left.dtype} of shape {(len(src), *left.shape[1:])}"
        )
    there, here, wide, own = _widened(left), _widened(right), _widened(attention), None if edges is None else _widened(edges)
    return segment_ops.gatv2(there, here, wide, own, src, begins, negative_slope).to(left.dtype)


def _widened(values: Tensor) -> Tensor:
    """Halves as float32."""
    return values.to(wide(values.dtype))


def _check_values(name: str, values: Tensor) -> None:
    if values.dtype not in SEGMENT_DTYPES:
        names = ", ".join(str(dtype).removeprefix("torch.") for dtype in SEGMENT_DTYPES)
        raise InputError(f"{name} is {values.dtype}, but lists are aggregated for {names} only; convert it with .float()")
    if values.dim() == 0:
        raise InputError(f"{name} is a scalar; it needs a first dimension")


def _check_lists(src: Tensor, begins: Tensor, device: torch.device) -> None:
    if src.dim() != 1 or src.dtype not in (torch.int64, torch.int32):
        raise InputError(f"src must be one-dimensional int64 or int32, got {src.dtype} of shape {tuple(src.shape)}; convert it")
    if src.device != device:
        raise InputError(f"src lies on {src.device}, and the rows on {device}; move it with .to({str(device)!r})")
    _check_begins(begins, len(src), device)


def _check_begins(begins: Tensor, num_edges: int, device: torch.device) -> None:
    if begins.dim() != 1 or begins.dtype != torch.int64 or len(begins) == 0:
        raise InputError(
            f"begins must be one-dimensional int64 with at least one entry, got {begins.dtype} of shape "
            f"{tuple(begins.shape)}; it is the colptr of CSC"
        )
    if begins.device != device:
        raise InputError(f"begins lies on {begins.device}, and the rows on {device}; move it with .to({str(device)!r})")


def _check_own(own: Tensor, most: int, reduce: str) -> None:
    _check_values("own", own)
    if reduce != "sum":
        raise InputError(f'own goes with reduce="sum" only, got {reduce!r}; add the rows yourself')
    if own.dim() != 1 or len(own) > most:
        raise InputError(f"own has shape {tuple(own.shape)}, expected one number for each of at most {most} rows at both ends")


def _check_weight(weight: Tensor, x: Tensor, num_edges: int) -> None:
    _check_values("weight", weight)
    if weight.shape != (num_edges,) and (weight.dim() != 2 or x.dim() < 2 or weight.shape != (num_edges, x.shape[1])):
        heads = f" or {(num_edges, x.shape[1])}" if x.dim() > 1 else ""
        raise InputError(
            f"weight has shape {tuple(weight.shape)}, expected {(num_edges,)}{heads}: one number per edge, or per edge and head"
        )


def _check_pair(left: Tensor, right: Tensor, src: Tensor, begins: Tensor, *, dims: tuple[int, ...]) -> None:
    _check_values("left", left)
    _check_values("right", right)
    _check_lists(src, begins, left.device)
    expected = (len(begins) - 1, *left.shape[1:])
    if left.dim() not in dims or right.shape != expected or right.dtype != left.dtype:
        raise InputError(
            f"left is {left.dtype} of shape {tuple(left.shape)} and right {right.dtype} of shape {tuple(right.shape)}; expected "
            f"are {' or '.join(map(str, dims))} dimensions, and right {left.dtype} of shape {expected}"
        )
