"""Rows of floats that are stored in one or two bytes per number, and read as what they were."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop.errors import InputError
from halohop.ops import cpu_narrow
from halohop.ops.arguments import require_cpu
from halohop.ops.pool import Pool, empty

_STEPS = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrow:
    """How the numbers of a column are stored.

    Args:
        dtype: "float16" or "bfloat16", which round each number; or "int8", which counts equal steps.
        scale: of int8, the width of a step in each place of a row, in the order of memory.
        low: of int8, the value of -128 in each place of a row.
    """

    dtype: str
    scale: tuple[float, ...] = ()
    low: tuple[float, ...] = ()

    @classmethod
    def between(cls, low: Tensor, high: Tensor) -> "Narrow":
        """As int8, for numbers from the least to the greatest of each place, float64 ``[width]`` each.

        Where both are the same every number is read exactly; else it is read within half a step, and the least one exactly.
        """
        return cls(dtype="int8", scale=tuple(((high - low) / _STEPS).tolist()), low=tuple(low.tolist()))


def narrowed(rows: Tensor, how: Narrow) -> Tensor:
    """Rows of floats ``[n, ...]`` as they are stored.

    Example:
        >>> how = Narrow(dtype="int8", scale=(0.5,), low=(-1.0,))
        >>> narrowed(torch.tensor([[-1.0], [0.6]]), how).tolist()
        [[-128], [-125]]
    """
    if how.dtype != "int8":
        wanted: torch.dtype = getattr(torch, how.dtype)
        return rows.to(wanted)
    scale, low = (torch.tensor(values, dtype=torch.float64).view(rows.shape[1:]) for values in (how.scale, how.low))
    steps = torch.where(scale > 0, (rows.double() - low) / scale, 0.0)
    return (steps.round_().clamp_(0, _STEPS) - 128).to(torch.int8)


def widened(rows: Tensor, how: Narrow, dtype: torch.dtype, *, pool: Pool | None = None) -> Tensor:
    """The inverse of `narrowed`, but for what is lost: in the calling thread alone.

    Args:
        rows: ``[n, ...]`` in the dtype of `how`, contiguous.
        how: they are stored.
        dtype: of the result, float32 or float64.
        pool: where the memory of the result comes from.

    Raises:
        InputError: rows of another dtype or shape, or not contiguous on the CPU.

    Example:
        >>> how = Narrow(dtype="int8", scale=(0.5,), low=(-1.0,))
        >>> widened(torch.tensor([[-128], [-125]], dtype=torch.int8), how, torch.float32).tolist()
        [[-1.0], [0.5]]
    """
    if not rows.is_cuda:
        require_cpu(rows, "rows")
    stored, width = getattr(torch, how.dtype), math.prod(rows.shape[1:])
    if rows.dtype != stored or not rows.is_contiguous() or (how.dtype == "int8" and width != len(how.scale)):
        raise InputError(f"rows are {rows.dtype} of shape {tuple(rows.shape)}, expected {stored}, stored as {how.dtype}")
    if rows.is_cuda:
        return _widened_there(rows, how, dtype)
    out = empty(pool, tuple(rows.shape), dtype)
    if rows.numel() == 0:
        return out
    into = out.view(-1).numpy()
    if how.dtype == "int8":
        cpu_narrow.scale_rows(rows.view(torch.uint8).view(-1).numpy(), *_steps(how, into.dtype), into)
    else:
        cpu_narrow.look_up(rows.view(torch.int16).view(-1).numpy().view(np.uint16), _values(stored, dtype), into)
    return out


def _widened_there(rows: Tensor, how: Narrow, dtype: torch.dtype) -> Tensor:
    """On a device, which rounds after each of torch's operations, as the kernel of the CPU does; nobody waits."""
    wide = rows.to(dtype)
    if how.dtype == "int8":
        scales, there = _scales(how, dtype, rows.shape[1:]), rows.new_empty((2, *rows.shape[1:]), dtype=dtype)
        of_row = (one.copy_(value, non_blocking=True) for one, value in zip(there, scales, strict=True))
        wide.add_(128).mul_(next(of_row)).add_(next(of_row))
    return wide


def _scales(how: Narrow, dtype: torch.dtype, shape: torch.Size) -> tuple[Tensor, ...]:
    return tuple(torch.tensor(values, dtype=dtype).view(shape) for values in (how.scale, how.low))


@lru_cache(maxsize=256)
def _steps(how: Narrow, dtype: np.dtype[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    return np.array(how.scale, dtype), np.array(how.low, dtype)


@lru_cache(maxsize=8)
def _values(stored: torch.dtype, dtype: torch.dtype) -> NDArray[Any]:
    """What each of the 65,536 codes of a dtype of two bytes stands for."""
    codes = torch.from_numpy(np.arange(1 << 16, dtype=np.uint16).view(np.int16))
    values: NDArray[Any] = codes.view(stored).to(dtype).numpy()
    return values
