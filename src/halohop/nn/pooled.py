"""Products and ReLU whose large results reuse memory: page faults of fresh memory take a quarter of a training step."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from halohop.ops.pool import layer_pool

_LARGE = 1 << 20  # bytes; for smaller results a Python function costs more than page faults
_DTYPES = (torch.float32, torch.float64)
_PLAIN = (Tensor, torch.nn.Parameter)


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Computes `torch.nn.functional.linear`."""
    given = (input, weight) if bias is None else (input, weight, bias)
    if not (input.dim() == 2 == weight.dim() and _are_large(len(input) * len(weight), *given)):
        return F.linear(input, weight, bias)
    out: Tensor = _Linear.apply(*given)  # type: ignore[no-untyped-call]
    return out


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """Computes `torch.nn.functional.relu`."""
    if inplace or not _are_large(input.numel(), input):
        return F.relu(input, inplace)
    out: Tensor = _Relu.apply(input)  # type: ignore[no-untyped-call]
    return out


def clone(rows: Tensor) -> Tensor:
    """Copies rows; the copy has no gradient."""
    return _new(rows.shape, rows).copy_(rows) if _are_large(rows.numel(), rows) else rows.clone()


IN_POOL: dict[Any, Callable[..., Any]] = {F.linear: linear, F.relu: relu, torch.relu: relu, Tensor.relu: relu}
"""Functions of torch, and the functions here that compute the same."""


def _are_large(numbers: int, *tensors: Tensor) -> bool:
    """Whether a result of so many numbers reuses memory: a large one, of plain CPU tensors, in eager mode."""
    first = tensors[0]
    return (
        numbers * first.element_size() >= _LARGE
        and first.dtype in _DTYPES
        and not torch.compiler.is_compiling()
        and not torch.is_autocast_enabled("cpu")
        and all(_is_plain(one) and one.dtype == first.dtype for one in tensors)
    )


def _is_plain(tensor: Tensor) -> bool:
    return type(tensor) in _PLAIN and tensor.is_cpu and tensor.layout == torch.strided


def _new(shape: tuple[int, ...], like: Tensor) -> Tensor:
    return layer_pool().empty(tuple(shape), like.dtype)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        out = _new((len(rows), len(weight)), rows)
        return torch.mm(rows, weight.t(), out=out) if bias is None else torch.addmm(bias, rows, weight.t(), out=out)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs[:2])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        rows, weight = ctx.saved_tensors
        to_rows, to_weight, *to_bias = ctx.needs_input_grad
        return (
            linear(grad, weight.t()) if to_rows else None,
            grad.t() @ rows if to_weight else None,
            *(grad.sum(0) if needed else None for needed in to_bias),
        )


class _Relu(torch.autograd.Function):
    @staticmethod
    def forward(rows: Tensor) -> Tensor:
        return torch.clamp(rows, min=0, out=_new(rows.shape, rows))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        (out,) = ctx.saved_tensors
        if torch.is_grad_enabled():  # a gradient that is differentiated in turn
            return grad * (out > 0)
        return torch.ops.aten.threshold_backward.grad_input(grad, out, 0, grad_input=_new(out.shape, out))
