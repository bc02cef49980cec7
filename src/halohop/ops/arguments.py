"""Checks of what comes through the door, and its way to NumPy without a copy."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop.errors import InputError

_INT64_ONLY = (torch.int64,)
_INTEGERS = (torch.int64, torch.int32)

ARRAY_DTYPES: dict[torch.dtype, np.dtype[Any]] = {
    getattr(torch, name): np.dtype(name)
    for name in ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")
}
"""NumPy's dtypes of columns, where it has them: an array is made in less time than a view of a tensor in another dtype."""

INT64 = ARRAY_DTYPES[torch.int64]


def require_cpu(tensor: Tensor, name: str) -> None:
    if not tensor.is_cpu:
        raise InputError(f"{name} lies on {tensor.device}, but this operation works on CPU tensors only; move it with .cpu()")


def integers(tensor: Tensor, name: str, length: int | None = None, *, only_int64: bool = False) -> NDArray[Any]:
    """A one-dimensional tensor of int64 or int32 as a contiguous array, copied only where it has gaps."""
    if not tensor.is_cpu:
        require_cpu(tensor, name)
    allowed = _INT64_ONLY if only_int64 else _INTEGERS
    if tensor.ndim != 1 or tensor.dtype not in allowed:
        kinds = " or ".join(str(dtype).removeprefix("torch.") for dtype in allowed)
        raise InputError(f"{name} must be one-dimensional {kinds}, got {tensor.dtype} of shape {tuple(tensor.shape)}")
    if length is not None and tensor.shape[0] != length:
        raise InputError(f"{name} has {tensor.shape[0]} entries, expected {length}")
    array: NDArray[Any] = tensor.numpy()
    return array if tensor.is_contiguous() else np.ascontiguousarray(array)


def target(out: Tensor, name: str, length: int) -> NDArray[np.int64]:
    """A contiguous int64 tensor that a kernel writes to."""
    array = integers(out, name, length, only_int64=True)
    if not out.is_contiguous():  # then the array is a copy
        raise InputError(f"{name} is not contiguous (strides {out.stride()}); make it with torch.empty")
    return array


def as_int64(array: NDArray[Any]) -> NDArray[np.int64]:
    return array if array.dtype == INT64 else array.astype(np.int64)
