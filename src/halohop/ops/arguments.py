"""Checks of what comes through the door, and its way to NumPy without a copy."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop.errors import InputError

_INT64 = (torch.int64,)
_INTEGERS = (torch.int64, torch.int32)

ARRAY_DTYPES: dict[torch.dtype, Any] = {
    torch.bool: np.bool_,
    torch.uint8: np.uint8,
    torch.int8: np.int8,
    torch.int16: np.int16,
    torch.int32: np.int32,
    torch.int64: np.int64,
    torch.float16: np.float16,
    torch.float32: np.float32,
    torch.float64: np.float64,
}
"""NumPy's dtypes of columns, where it has them: an array is made in less time than a view of a tensor in another dtype."""


def require_cpu(tensor: Tensor, name: str) -> None:
    if not tensor.is_cpu:
        raise InputError(f"{name} lies on {tensor.device}, but this operation works on CPU tensors only; move it with .cpu()")


def integers(tensor: Tensor, name: str, length: int | None = None, *, only_int64: bool = False) -> NDArray[Any]:
    """A one-dimensional tensor of int64 or int32 as a contiguous array, copied only where it has gaps."""
    if not tensor.is_cpu:
        require_cpu(tensor, name)
    allowed = _INT64 if only_int64 else _INTEGERS
    if tensor.ndim != 1 or tensor.dtype not in allowed:
        kinds = " or ".join(str(dtype).removeprefix("torch.") for dtype in allowed)
        raise InputError(f"{name} must be one-dimensional {kinds}, got {tensor.dtype} of shape {tuple(tensor.shape)}")
    array: NDArray[Any] = tensor.numpy()
    if length is not None and len(array) != length:
        raise InputError(f"{name} has {len(array)} entries, expected {length}")
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def target(out: Tensor, name: str, length: int) -> NDArray[np.int64]:
    """A contiguous int64 tensor that a kernel writes to."""
    array = integers(out, name, length, only_int64=True)
    if not out.is_contiguous():  # then the array is a copy
        raise InputError(f"{name} is not contiguous (strides {out.stride()}); make it with torch.empty")
    return array


def as_int64(array: NDArray[Any]) -> NDArray[np.int64]:
    return array if array.dtype == np.int64 else array.astype(np.int64)
