"""Products and ReLU whose large results reuse memory: page faults of fresh memory take a quarter of a training step."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import functional as F

from halohop.ops.pool import layer_pool

_LARGE = 1 << 20  # bytes; for smaller results a Python function costs more than page faults
_ROWS = 4096  # of a product that is computed at once
_DTYPES = (torch.float32, torch.float64)
_PLAIN = (Tensor, torch.nn.Parameter)


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Computes `torch.nn.functional.linear`."""
    return sum_of_products((input, weight), bias=bias)


def sum_of_products(*products: tuple[Tensor, Tensor], bias: Tensor | None = None) -> Tensor:
    """Adds the products of rows ``[n, in]`` and matrices ``[out, in]``, and a bias ``[out]``."""
    (rows, weight), *others = products
    given = [tensor for product in products for tensor in product]
    vectors = [] if bias is None else [bias]
    fit = all(matrix.dim() == 2 == each.dim() and len(each) == len(rows) for each, matrix in products)
    fit = fit and all(vector.shape == weight.shape[:1] for vector in vectors)
    if fit and _are_large(len(rows) * len(weight), *given, *vectors):
        out: Tensor = _SumOfProducts.apply(bias, *given)  # type: ignore[no-untyped-call]
        return out
    out = F.linear(rows, weight, bias)
    for rows, weight in others:
        out = out + F.linear(rows, weight)
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
    """Tells whether a result reuses memory: it is large, and all tensors are plain ones of the CPU, in eager mode."""
    first = tensors[0]
    return (
        numbers * first.element_size() >= _LARGE
        and first.dtype in _DTYPES
        and not torch.compiler.is_compiling()
        and not torch._C._get_tracing_state()
        and not torch.is_autocast_enabled("cpu")
        and not _is_transformed(first)
        and all(_is_plain(one) and one.dtype == first.dtype for one in tensors)
    )


def _is_transformed(tensor: Tensor) -> bool:
    """Tells whether `vmap` and other transforms, batched gradients or forward-mode differentiation are active."""
    batched = torch._C._functorch.is_legacy_batchedtensor(tensor)
    return batched or torch._C._functorch.peek_interpreter_stack() is not None or forward_ad._current_level >= 0


def _is_plain(tensor: Tensor) -> bool:
    return type(tensor) in _PLAIN and tensor.is_cpu and tensor.layout == torch.strided


def _new(shape: tuple[int, ...], like: Tensor) -> Tensor:
    return layer_pool().empty(tuple(shape), like.dtype)


class _SumOfProducts(torch.autograd.Function):
    """Some rows at a time: with two threads, products of 130 thousand rows at once take 1.6 times as long."""

    @staticmethod
    def forward(bias: Tensor | None, *given: Tensor) -> Tensor:
        (rows, weight), *others = zip(given[::2], given[1::2], strict=True)
        out = _new((len(rows), len(weight)), rows)
        for some in _parts(len(out)):
            if bias is None:
                torch.mm(rows[some], weight.t(), out=out[some])
            else:
                torch.addmm(bias, rows[some], weight.t(), out=out[some])
            for more, matrix in others:
                out[some].addmm_(more[some], matrix.t())
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        given, needed = inputs[1:], ctx.needs_input_grad[1:]
        # of a product, each is in the gradient of the other
        ctx.save_for_backward(*(given[place ^ 1] if need else None for place, need in enumerate(needed)))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        found = [grad.sum(0) if ctx.needs_input_grad[0] else None]
        for place in range(0, len(ctx.saved_tensors), 2):
            weight, rows = ctx.saved_tensors[place : place + 2]
            found.append(None if weight is None else linear(grad, weight.t()))
            found.append(None if rows is None else _product_of_rows(grad, rows))
        return tuple(found)


def _product_of_rows(left: Tensor, right: Tensor) -> Tensor:
    if torch.is_grad_enabled() or _is_transformed(left):
        return left.t() @ right
    out = right.new_zeros(left.shape[1], right.shape[1])
    for some in _parts(len(left)):
        out.addmm_(left[some].t(), right[some])
    return out


def _parts(number: int) -> Iterator[slice]:
    return (slice(begin, begin + _ROWS) for begin in range(0, number, _ROWS))


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
        if torch.is_grad_enabled() or _is_transformed(grad):
            return torch.ops.aten.threshold_backward(grad, out, 0)
        return torch.ops.aten.threshold_backward.grad_input(grad, out, 0, grad_input=_new(out.shape, out))
