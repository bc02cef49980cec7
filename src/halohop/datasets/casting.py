"""Arrays of NumPy as tensors of a dtype that torch has: as they are where that is possible, else converted chunk by chunk."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray
from torch import Tensor

from halohop.datasets.staging import Staging
from halohop.errors import InputError

Convert = Callable[[NDArray[Any]], NDArray[Any]]


def nearest(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """What torch has of a dtype: int64 for unsigned integers of more than a byte, and the bytes in the processor's order.

    Raises:
        TypeError: torch has nothing like it.

    Example:
        >>> nearest(np.dtype(">f4")), nearest(np.dtype("u2"))
        (dtype('float32'), dtype('int64'))
    """
    found = np.dtype(np.int64) if dtype.kind == "u" and dtype.itemsize > 1 else dtype.newbyteorder("=")
    torch.from_numpy(np.empty(0, found))
    return found


def as_tensor(staging: Staging, name: str, array: NDArray[Any], dtype: DTypeLike, convert: Convert | None = None) -> Tensor:
    """An array as a tensor of a dtype; `name` is that of the column for `staging`, where it is converted.

    Args:
        staging: where what is converted is collected.
        name: of the column.
        array: of any shape; its memory is the tensor's where nothing is converted.
        dtype: of the tensor.
        convert: makes what may be cast to `dtype` of some of the numbers.

    Raises:
        InputError: a number does not fit.
    """
    wanted = np.dtype(dtype)
    if wanted == array.dtype and convert is None:
        return torch.from_numpy(array)
    turned = array.flags.f_contiguous and not array.flags.c_contiguous  # columns one behind the other
    stored = array.T if turned else array
    flat = stored.reshape(-1)

    def cast(values: NDArray[Any]) -> Tensor:
        if values.dtype == np.uint64 and values.size and values.max() > np.iinfo(np.int64).max:
            raise InputError(f"{name} holds {values.max()}, a number over 2**63 - 1, which torch has no kind of integers for")
        return torch.from_numpy((values if convert is None else convert(values)).astype(wanted))

    entry = max(flat.dtype.itemsize, wanted.itemsize)
    values = staging.column(name, lambda: (cast(flat[part]) for part in staging.slices(flat.size, entry))).view(stored.shape)
    return values.permute(*reversed(range(array.ndim))) if turned else values
