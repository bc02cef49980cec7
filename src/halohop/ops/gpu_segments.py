"""The functions of `halohop.ops.reference_segments` on a GPU, without a row for every edge and with the same bits each time.

Lists are added up in their order, by one program for a list and some columns, so nothing depends on how programs are scheduled.
Kernels cannot raise: where a source is out of range, the result is no number (NaN).
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from halohop.ops.gpu_launch import kernel, launch
from halohop.ops.reference_segments import wide

_COLUMNS = 128  # of a program, at most
_EDGES = 16  # of a program that multiplies rows
_TYPES = {torch.float32: tl.float32, torch.float64: tl.float64}


@kernel
def sum_rows(
    x: tl.tensor,
    src: tl.tensor,
    begins: tl.tensor,
    weight: tl.tensor,
    edge: tl.tensor,
    out: tl.tensor,
    num_src: tl.int64,
    heads: tl.tensor,
    width: tl.tensor,
    count: tl.int64,
    weighted: tl.constexpr,
    listed: tl.constexpr,
    sums: tl.constexpr,
    columns: tl.constexpr,
    block: tl.constexpr,
) -> None:
    """For each list the sum of its edges' rows, times their weights; `listed`: edge k has its weight at ``edge[k]``."""
    row, blocks = heads * width, tl.cdiv(heads * width, columns)
    i = tl.program_id(0).to(tl.int64) * block // blocks
    c = (tl.program_id(0).to(tl.int64) % blocks) * columns + tl.arange(0, columns)
    begin, end = tl.load(begins + i), tl.load(begins + i + 1)
    total = tl.zeros((columns,), sums)
    for number in range(0, end - begin):
        k = begin + number
        source = tl.load(src + k).to(tl.int64) + tl.zeros_like(c)
        there = (c < row) & (source >= 0) & (source < num_src)
        value = tl.load(x + source * row + c, mask=there, other=float("nan")).to(sums)
        if weighted:
            place = tl.load(edge + k) if listed else k
            value *= tl.load(weight + place * heads + c // width, mask=c < row, other=0).to(sums)
        total += value
    tl.store(out + i * row + c, total, mask=c < row)


@kernel
def take_greatest(
    x: tl.tensor,
    src: tl.tensor,
    begins: tl.tensor,
    out: tl.tensor,
    num_src: tl.int64,
    row: tl.tensor,
    count: tl.int64,
    sums: tl.constexpr,
    columns: tl.constexpr,
    block: tl.constexpr,
) -> None:
    """For each list the greatest of its edges' values in each column; 0 where it is empty."""
    blocks = tl.cdiv(row, columns)
    i = tl.program_id(0).to(tl.int64) * block // blocks
    c = (tl.program_id(0).to(tl.int64) % blocks) * columns + tl.arange(0, columns)
    begin, end = tl.load(begins + i), tl.load(begins + i + 1)
    top = tl.full((columns,), float("-inf"), sums)
    for number in range(0, end - begin):
        source = tl.load(src + begin + number).to(tl.int64) + tl.zeros_like(c)
        there = (c < row) & (source >= 0) & (source < num_src)
        value = tl.load(x + source * row + c, mask=there, other=float("nan"))
        top = tl.where((value > top) | (value != value), value, top)
    tl.store(out + i * row + c, tl.where(tl.zeros_like(c) + begin < end, top, 0.0), mask=c < row)


@kernel
def sum_equal(
    own: tl.tensor,
    other: tl.tensor,
    rows: tl.tensor,
    src: tl.tensor,
    begins: tl.tensor,
    out: tl.tensor,
    row: tl.tensor,
    count: tl.int64,
    counted: tl.constexpr,
    sums: tl.constexpr,
    columns: tl.constexpr,
    block: tl.constexpr,
) -> None:
    """For each list the sum of its edges' `rows` where `other` is equal to the list's `own`; if `counted`, of 1."""
    blocks = tl.cdiv(row, columns)
    i = tl.program_id(0).to(tl.int64) * block // blocks
    c = (tl.program_id(0).to(tl.int64) % blocks) * columns + tl.arange(0, columns)
    inside = c < row
    begin, end = tl.load(begins + i), tl.load(begins + i + 1)
    wanted = tl.load(own + i * row + c, mask=inside, other=0)
    total = tl.zeros((columns,), sums)
    for number in range(0, end - begin):
        source = tl.load(src + begin + number).to(tl.int64)
        equal = inside & (tl.load(other + source * row + c, mask=inside, other=0) == wanted)
        total += equal.to(sums) if counted else tl.load(rows + source * row + c, mask=equal, other=0)
    tl.store(out + i * row + c, total, mask=inside)


@kernel
def multiply_rows(
    left: tl.tensor,
    right: tl.tensor,
    src: tl.tensor,
    dst: tl.tensor,
    edge: tl.tensor,
    out: tl.tensor,
    num_src: tl.int64,
    heads: tl.tensor,
    width: tl.tensor,
    count: tl.int64,
    listed: tl.constexpr,
    sums: tl.constexpr,
    columns: tl.constexpr,
    block: tl.constexpr,
) -> None:
    """For each edge and head the product of two rows."""
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    live = at < count
    k, head = at // heads, at % heads
    source = tl.load(src + k, mask=live, other=0).to(tl.int64)
    there = live & (source >= 0) & (source < num_src)
    first = (source * heads + head) * width
    second = (tl.load(dst + k, mask=live, other=0) * heads + head) * width
    c = tl.arange(0, columns)[None, :]
    total = tl.zeros((block,), sums)
    for begin in range(0, width, columns):
        inside = begin + c < width
        one = tl.load(left + first[:, None] + begin + c, mask=there[:, None] & inside, other=0).to(sums)
        two = tl.load(right + second[:, None] + begin + c, mask=live[:, None] & inside, other=0).to(sums)
        total += tl.sum(one * two, axis=1)
    place = tl.load(edge + k, mask=live, other=0) if listed else k
    tl.store(out + place * heads + head, tl.where(there, total, float("nan")), mask=live)


def by_source(src: Tensor, begins: Tensor, num_src: int) -> tuple[Tensor, Tensor, Tensor]:
    """As of the reference."""
    ascending, place = torch.sort(src.long(), stable=True)
    ends = torch.searchsorted(ascending, begins.new_ones(num_src + 1).cumsum(0) - 1)
    return _destinations(begins, len(src)).index_select(0, place), ends, place


def weighted_sum(
    x: Tensor, src: Tensor, begins: Tensor, weight: Tensor | None, edge: Tensor | None, own: Tensor | None, mean: bool
) -> Tensor:
    """As of the reference."""
    out = x.new_empty((len(begins) - 1, *x.shape[1:]), dtype=wide(x.dtype))
    given = x if weight is None else weight.to(out.dtype), src if edge is None else edge
    how = {"weighted": weight is not None, "listed": edge is not None, "sums": _TYPES[out.dtype]}
    _run(sum_rows, out, x, src, begins, *given, sizes=(len(x), *x.shape[1:]), **how)
    if own is not None:
        out[: len(own)] += own.unsqueeze(-1) * x[: len(own)]
    return (out / begins.diff().clamp(min=1).to(out.dtype).view(-1, 1, 1) if mean else out).to(x.dtype)


def dot(left: Tensor, right: Tensor, src: Tensor, begins: Tensor, edge: Tensor | None) -> Tensor:
    """As of the reference."""
    num_edges, heads, width = len(src), *left.shape[1:]
    out = left.new_empty((num_edges, heads), dtype=wide(left.dtype))
    rows = left, right, src, _destinations(begins, num_edges), src if edge is None else edge
    how = {"columns": triton.next_power_of_2(max(min(width, 64), 1)), "sums": _TYPES[out.dtype], "listed": edge is not None}
    count = num_edges * heads
    whole = (one.contiguous() for one in rows)
    launch(multiply_rows, count, *whole, out, len(left), heads, width, count, block=_EDGES, **how)
    return out.to(left.dtype)


def greatest(x: Tensor, src: Tensor, begins: Tensor) -> Tensor:
    """As of the reference."""
    out = x.new_empty((len(begins) - 1, *x.shape[1:]))
    _run(take_greatest, out, x, src, begins, sizes=(len(x), _row(x)), sums=_TYPES[x.dtype])
    return out


def greatest_backward(grad: Tensor, x: Tensor, out: Tensor, src: Tensor, begins: Tensor) -> Tensor:
    """As of the reference."""
    wins, result = out.new_empty(out.shape), x.new_empty(x.shape)
    how: dict[str, Any] = {"sizes": (_row(x),), "sums": _TYPES[x.dtype]}
    _run(sum_equal, wins, out, x, x, src, begins, counted=True, **how)
    share = grad / wins.clamp_(min=1)
    dst, ends, _ = by_source(src, begins, len(x))
    _run(sum_equal, result, x, out, share, dst, ends, counted=False, **how)
    return result


def softmax(scores: Tensor, begins: Tensor) -> Tensor:
    """As of the reference."""
    every, dst, top = *_edges(scores, begins), greatest(scores.unsqueeze(-1), _numbers(scores), begins).squeeze(-1)
    powers = (scores - top.index_select(0, dst)).exp()
    return powers / _totals(powers, every, begins).index_select(0, dst)


def softmax_backward(grad: Tensor, out: Tensor, begins: Tensor) -> Tensor:
    """As of the reference."""
    every, dst = _edges(out, begins)
    return out * (grad - _totals(grad * out, every, begins).index_select(0, dst))


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
    """As of the reference, which has a row for every edge here, too."""
    both = left.index_select(0, src) + right.index_select(0, _destinations(begins, len(src)))
    both = both if edges is None else both + edges
    own = grad.unsqueeze(-1)
    to_rows = own * attention * torch.where(both > 0, both.new_ones(()), both.new_full((), slope))
    to_attention = (own * torch.nn.functional.leaky_relu(both, slope)).sum(0)
    _, ends, place = by_source(src, begins, len(left))
    to_left = weighted_sum(to_rows, place, ends, None, None, None, False)
    to_right = weighted_sum(to_rows, _numbers(grad), begins, None, None, None, False)
    return to_left, to_right, to_attention, to_rows.new_empty(0) if edges is None else to_rows


def _run(run: Any, out: Tensor, *arguments: Tensor, sizes: tuple[int, ...], **constants: Any) -> None:
    """A program for each list and `columns` of its columns. Arguments may have gaps, such as sources of a transposed matrix."""
    columns = min(triton.next_power_of_2(max(_row(out), 1)), _COLUMNS)
    count = len(out) * triton.cdiv(_row(out), columns)
    whole = (one.contiguous() for one in arguments)
    launch(run, count, *whole, out, *sizes, count, block=1, columns=columns, **constants)


def _row(x: Tensor) -> int:
    return x.shape[1:].numel()


def _numbers(values: Tensor) -> Tensor:
    """0, 1, ... for each edge, int64."""
    return torch.ones_like(values[:, 0], dtype=torch.int64).cumsum(0) - 1


def _destinations(begins: Tensor, num_edges: int) -> Tensor:
    """The list that each edge is in, int64 ``[E]``."""
    return (torch.ones_like(begins[1:]).cumsum(0) - 1).repeat_interleave(begins.diff(), output_size=num_edges)


def _edges(values: Tensor, begins: Tensor) -> tuple[Tensor, Tensor]:
    return _numbers(values), _destinations(begins, len(values))


def _totals(values: Tensor, every: Tensor, begins: Tensor) -> Tensor:
    return weighted_sum(values.unsqueeze(-1), every, begins, None, None, None, False).squeeze(-1)
