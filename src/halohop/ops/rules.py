"""How gradients change rows, in place: one pass over the touched rows and their state.

All of them take `rows` ``[n, ...]`` of float32, float64, float16 or bfloat16, contiguous; `lid` int64 ``[k]``, rows that each
occur at most once; and `grads` ``[k, ...]`` in float64 where the rows are, else float32, which are multiplied by `scale` first:
a tensor, or `SummedRows`.
State is of the gradients' dtype. Several threads may change other rows of the same arrays at once.

They raise `IdError` where a row is not there, and `InputError` where dtypes or shapes differ from this; nothing is changed then.
"""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop.errors import IdError, InputError
from halohop.ops import cpu_rules
from halohop.ops.arguments import integers, require_cpu
from halohop.ops.sums import SummedRows

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
"""Dtypes of rows that gradients can change."""

Grads = Tensor | SummedRows

_BITS = {torch.bfloat16: np.uint16, torch.float16: np.int16}
_NO_STEPS = np.zeros(0, np.int32)


def gradient_dtype(dtype: torch.dtype) -> torch.dtype:
    """Of the gradients and the state of rows of a dtype: float64 of float64, else float32."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def step_sgd(rows: Tensor, lid: Tensor, grads: Grads, *, lr: float, scale: float = 1.0) -> None:
    """Moves rows against their gradients, `lr` times.

    Example:
        >>> rows = torch.zeros(2, 1)
        >>> step_sgd(rows, torch.tensor([1]), torch.tensor([[2.0]]), lr=0.5)
        >>> rows.tolist()
        [[0.0], [-1.0]]
    """
    real, words, given = _flat(rows, lid, grads)
    cpu_rules.sgd(words, *given, real(scale), real(lr))


def step_adagrad(
    rows: Tensor,
    sums: Tensor,
    lid: Tensor,
    grads: Grads,
    *,
    lr: float,
    eps: float,
    scale: float = 1.0,
) -> None:
    """As `torch.optim.Adagrad`; `sums` are those of the squared gradients, of the rows' shape.

    Example:
        >>> rows, sums = torch.zeros(2, 1), torch.zeros(2, 1)
        >>> step_adagrad(rows, sums, torch.tensor([1]), torch.tensor([[2.0]]), lr=0.5, eps=0.0)
        >>> rows.tolist(), sums.tolist()
        ([[0.0], [-0.5]], [[0.0], [4.0]])
    """
    real, words, given = _flat(rows, lid, grads)
    total = _state(sums, "sums", tuple(rows.shape), grads.dtype)
    cpu_rules.adagrad(words, total, *given, real(scale), real(lr), real(eps))


def step_rowwise_adagrad(
    rows: Tensor,
    sums: Tensor,
    lid: Tensor,
    grads: Grads,
    *,
    lr: float,
    eps: float,
    scale: float = 1.0,
) -> None:
    """Adagrad with one number per row, ``sums[n]``, to which the mean of the squared gradient's entries is added.

    Example:
        >>> rows, sums = torch.zeros(2, 2), torch.zeros(2)
        >>> step_rowwise_adagrad(rows, sums, torch.tensor([1]), torch.tensor([[1.0, 7.0]]), lr=0.5, eps=0.0)
        >>> rows.tolist(), sums.tolist()
        ([[0.0, 0.0], [-0.10000000149011612, -0.699999988079071]], [0.0, 25.0])
    """
    real, words, given = _flat(rows, lid, grads)
    total = _state(sums, "sums", (len(rows),), grads.dtype)
    factor = scale * scale / max(math.prod(rows.shape[1:]), 1)
    cpu_rules.rowwise_adagrad(words, total, *given, real(scale), real(lr), real(eps), factor)


def step_adam(
    rows: Tensor,
    mean: Tensor,
    square: Tensor,
    lid: Tensor,
    grads: Grads,
    *,
    lr: float,
    eps: float,
    beta1: float,
    beta2: float,
    step: int = 1,
    row_steps: Tensor | None = None,
    scale: float = 1.0,
) -> None:
    """As `torch.optim.SparseAdam`; `mean` and `square` are running means of the gradients and of their squares, of the rows'
    shape. The bias is corrected by `step`, from 1, or by `row_steps`, int32 ``[n]``, to which 1 is added first.

    Example:
        >>> rows, mean, square = (torch.zeros(2, 1) for _ in range(3))
        >>> grads = torch.tensor([[2.0]])
        >>> step_adam(rows, mean, square, torch.tensor([1]), grads, lr=0.5, eps=0.0, beta1=0.5, beta2=0.75)
        >>> rows.tolist(), mean.tolist(), square.tolist()
        ([[0.0], [-0.5]], [[0.0], [1.0]], [[0.0], [1.0]])
    """
    real, words, given = _flat(rows, lid, grads)
    shape = tuple(rows.shape)
    moments = _state(mean, "mean", shape, grads.dtype), _state(square, "square", shape, grads.dtype)
    steps = _NO_STEPS if row_steps is None else _state(row_steps, "row_steps", (len(rows),), torch.int32)
    cpu_rules.adam(words, moments[0], moments[1], steps, *given, real(scale), lr, real(eps), beta1, beta2, step)


def _flat(
    rows: Tensor, lid: Tensor, grads: Grads
) -> tuple[Any, NDArray[Any], tuple[np.uint64, NDArray[Any], NDArray[Any], NDArray[Any]]]:
    """The type to compute in; the rows for a kernel; and their width, row numbers, and gradients' places and entries. All are
    checked."""
    require_cpu(rows, "rows")
    _check_rows(rows, lid, grads)
    index = integers(lid, "lid", only_int64=True)
    if len(index) and not (index.min() >= 0 and index.max() < len(rows)):
        outside = index[(index < 0) | (index >= len(rows))]
        raise IdError(f"row {outside[0]} is out of range: there are {len(rows)} rows")
    width = np.uint64(math.prod(rows.shape[1:]))
    if isinstance(grads, Tensor):
        require_cpu(grads, "grads")
        values = _array(grads)
        return values.dtype.type, _words(rows), (width, index, np.arange(len(index), dtype=np.uint64) * width, values)
    return grads.entries.dtype.type, _words(rows), (width, index, grads.places, grads.entries)


def _check_rows(rows: Tensor, lid: Tensor, grads: Grads) -> None:
    """
    Raises:
        InputError: rows that gradients cannot change, or other gradients than theirs.
    """
    if rows.dtype not in FLOATS or not rows.is_contiguous() or not rows.dim():
        known = ", ".join(map(str, FLOATS))
        raise InputError(f"rows are {rows.dtype} of shape {tuple(rows.shape)}, but must be one of {known}, and contiguous")
    if lid.dtype != torch.int64 or lid.dim() != 1:
        raise InputError(f"lid must be one-dimensional int64, got {lid.dtype} of shape {tuple(lid.shape)}")
    shape, dtype = (len(lid), *rows.shape[1:]), gradient_dtype(rows.dtype)
    if isinstance(grads, Tensor):
        _check_state(grads, "grads", shape, dtype)
    elif grads.dtype != dtype or grads.shape != shape:
        raise InputError(f"grads must be {dtype} of shape {shape}, got {grads.dtype} of shape {grads.shape}")


def _check_state(tensor: Tensor, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """
    Raises:
        InputError: a tensor of another dtype or shape, or with gaps.
    """
    if tensor.dtype != dtype or tuple(tensor.shape) != shape or not tensor.is_contiguous():
        raise InputError(
            f"{name} must be {dtype} of shape {shape}, contiguous, got {tensor.dtype} of shape {tuple(tensor.shape)} "
            f"and strides {tensor.stride()}"
        )


def _state(tensor: Tensor, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> NDArray[Any]:
    require_cpu(tensor, name)
    _check_state(tensor, name, shape, dtype)
    return _array(tensor)


def _array(tensor: Tensor) -> NDArray[Any]:
    flat: NDArray[Any] = tensor.detach().view(-1).numpy()
    return flat


def _words(rows: Tensor) -> NDArray[Any]:
    """Numbers of two bytes as the kernels know them."""
    flat, bits = rows.detach().view(-1), _BITS.get(rows.dtype)
    words: NDArray[Any] = flat.numpy() if bits is None else flat.view(torch.int16).numpy().view(bits)
    return words
