"""What torch has to know of the functions over lists: their names, for compiled models, their shapes and their gradients.

A gradient towards rows of sources is a sum over the lists of out-edges: the same kernel over the edges sorted by source. So the
sum and the product are each other's gradients, and have second ones; the others do not.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from halohop.errors import InputError
from halohop.ops import reference_segments as reference
from halohop.ops import segment_kernels as kernels

Gradients = tuple[Tensor | None, ...]

# --- gradients ----------------------------------------------------------


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(*(value for value in inputs if value is None or isinstance(value, Tensor)))


def _sum_by_source(
    grad: Tensor, src: Tensor, begins: Tensor, num_src: int, weight: Tensor | None, edge: Tensor | None, own: Tensor | None
) -> Tensor:
    dst, ends, place = by_source(src, begins, num_src)
    if weight is None:
        return weighted_sum(grad, dst, ends, None, None, own, False)
    return weighted_sum(grad, dst, ends, weight, place if edge is None else edge[place], own, False)


def _keep_weighted(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    x, src, begins, weight, edge, own, ctx.mean = inputs
    ctx.num_src = x.shape[0]
    factors = ctx.needs_input_grad[3] or ctx.needs_input_grad[5]  # their gradients need the rows
    ctx.save_for_backward(x if factors else None, src, begins, weight, edge, own)


def _weighted_sum_backward(ctx: Any, grad: Tensor) -> Gradients:
    x, src, begins, weight, edge, own = ctx.saved_tensors
    to_x = to_weight = to_own = None
    if ctx.needs_input_grad[3]:
        to_weight = dot(x, grad, src, begins, edge)
    if ctx.needs_input_grad[5]:
        to_own = (x[: len(own)] * grad[: len(own)]).sum(-1)
    if ctx.mean:
        assert edge is None
        assert own is None
        # as of a sum whose edges weigh 1 / the length of their list
        share = reference.shares(begins, src.shape[0], reference.wide(grad.dtype))
        to_weight = None if to_weight is None else (to_weight * share).to(weight.dtype)
        weight = share if weight is None else weight * share
    if ctx.needs_input_grad[0]:
        to_x = _sum_by_source(grad, src, begins, ctx.num_src, weight, edge, own)
    return to_x, None, None, to_weight, None, to_own, None


def _dot_backward(ctx: Any, grad: Tensor) -> Gradients:
    left, right, src, begins, edge = ctx.saved_tensors
    to_left = _sum_by_source(right, src, begins, left.shape[0], grad, edge, None) if ctx.needs_input_grad[0] else None
    to_right = weighted_sum(left, src, begins, grad, edge, None, False) if ctx.needs_input_grad[1] else None
    return to_left, to_right, None, None, None


def _keep_lists(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    left, _, src, begins = inputs
    ctx.save_for_backward(src, begins)
    ctx.num_src = left.shape[0]


def _add_backward(ctx: Any, grad: Tensor) -> Gradients:
    src, begins = ctx.saved_tensors
    values, to_left, to_right = grad.unsqueeze(-1), None, None
    if ctx.needs_input_grad[0]:
        _, ends, place = by_source(src, begins, ctx.num_src)
        to_left = weighted_sum(values, place, ends, None, None, None, False).squeeze(-1)
    if ctx.needs_input_grad[1]:
        every = torch.arange(src.shape[0], device=src.device)
        to_right = weighted_sum(values, every, begins, None, None, None, False).squeeze(-1)
    return to_left, to_right, None, None


def _keep_all(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    _keep(ctx, (*inputs, output), output)


def _greatest_backward(ctx: Any, grad: Tensor) -> Gradients:
    x, src, begins, out = ctx.saved_tensors
    return greatest_backward(grad, x, out, src, begins), None, None


def _softmax_backward(ctx: Any, grad: Tensor) -> Gradients:
    _, begins, out = ctx.saved_tensors
    return softmax_backward(grad, out, begins), None


def _keep_slope(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    _keep(ctx, inputs, output)
    ctx.slope = inputs[-1]


def _gatv2_backward(ctx: Any, grad: Tensor) -> Gradients:
    *to_rows, to_edges = gatv2_backward(grad, *ctx.saved_tensors, ctx.slope)
    return (*to_rows, to_edges if ctx.needs_input_grad[3] else None, None, None, None)


def _refuse(what: str) -> Callable[..., Gradients]:
    def backward(ctx: Any, *grads: Tensor) -> Gradients:
        raise InputError(f"{what} over lists has no second gradient (create_graph=True): take PyG's own layer for those")

    return backward


# --- operators ----------------------------------------------------------


def _operator(name: str, shapes: Callable[..., Any], keep: Callable[..., None] | None = None, backward: Any = None) -> Any:
    """The operator of a function of the reference: kernels compute it on the CPU and on GPUs, elsewhere the reference."""
    operator = torch.library.custom_op(f"halohop::segment_{name}", getattr(reference, name), mutates_args=())
    operator.register_kernel("cpu", getattr(kernels, name))
    operator.register_kernel("cuda", _on_gpu(name))
    operator.register_fake(shapes)
    if backward is not None:
        operator.register_autograd(backward, setup_context=keep)
    return operator


def _on_gpu(name: str) -> Callable[..., Any]:
    """The function of that name for GPUs; the reference's where there is none, or no Triton."""

    def run(*arguments: Any) -> Any:
        try:
            from halohop.ops import gpu_segments as there
        except ImportError:
            return getattr(reference, name)(*arguments)
        return getattr(there, name, getattr(reference, name))(*arguments)

    return run


def _of_lists(x: Tensor, src: Tensor, begins: Tensor, *rest: Any) -> Tensor:
    return x.new_empty(begins.shape[0] - 1, *x.shape[1:])


def _of_edges(left: Tensor, right: Tensor, src: Tensor, *rest: Any) -> Tensor:
    return left.new_empty(src.shape[0], left.shape[1])


def _of_sources(src: Tensor, begins: Tensor, num_src: int) -> tuple[Tensor, Tensor, Tensor]:
    return src.new_empty(src.shape, dtype=torch.int64), begins.new_empty(num_src + 1), src.new_empty(src.shape, dtype=torch.int64)


def _like(number: int) -> Callable[..., Tensor]:
    return lambda *inputs: inputs[number].new_empty(inputs[number].shape)


def _of_rows(grad: Tensor, *rows: Any) -> tuple[Tensor, ...]:
    return (*(_like(number)(*rows) for number in range(3)), rows[0].new_empty(0) if rows[3] is None else _like(3)(*rows))


by_source: Callable[..., tuple[Tensor, Tensor, Tensor]] = _operator("by_source", _of_sources)
weighted_sum: Callable[..., Tensor] = _operator("weighted_sum", _of_lists, _keep_weighted, _weighted_sum_backward)
dot: Callable[..., Tensor] = _operator("dot", _of_edges, _keep, _dot_backward)
add: Callable[..., Tensor] = _operator("add", _of_edges, _keep_lists, _add_backward)
greatest: Callable[..., Tensor] = _operator("greatest", _of_lists, _keep_all, _greatest_backward)
greatest_backward: Callable[..., Tensor] = _operator("greatest_backward", _like(1), _keep, _refuse("the maximum"))
softmax: Callable[..., Tensor] = _operator("softmax", _like(0), _keep_all, _softmax_backward)
softmax_backward: Callable[..., Tensor] = _operator("softmax_backward", _like(0), _keep, _refuse("softmax"))
gatv2: Callable[..., Tensor] = _operator(
    "gatv2", lambda left, right, _, edges, src, *rest: _of_edges(left, right, src), _keep_slope, _gatv2_backward
)
gatv2_backward: Callable[..., tuple[Tensor, Tensor, Tensor, Tensor]] = _operator(
    "gatv2_backward", _of_rows, _keep, _refuse("the scores of GATv2")
)
