"""Random numbers that rows begin with: a pure function of a key, the row's id and the place of the entry in the row."""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop.errors import InputError
from halohop.ops import cpu_beginnings
from halohop.ops.arguments import integers, require_cpu
from halohop.ops.rules import FLOATS

_CHUNK = 1 << 16  # entries of two bytes that are first made as float32


def fill_uniform(out: Tensor, key: int, raw: Tensor, low: float, high: float) -> None:
    """Fills rows with numbers that are equally likely anywhere from `low` to `high`, computed in float64 and rounded.

    Args:
        out: ``[n, ...]``, float32, float64, float16 or bfloat16, contiguous.
        key: of the stream, see `name_key`.
        raw: int64 ``[n]``; equal ids get equal rows.
        low, high: between which numbers lie.

    Raises:
        InputError: other dtypes or shapes.

    Example:
        >>> rows = torch.empty(3, 2)
        >>> fill_uniform(rows, 7, torch.tensor([3, 4, 3]), -1.0, 1.0)
        >>> torch.equal(rows[0], rows[2]), torch.equal(rows[0], rows[1]), bool((rows.abs() <= 1).all())
        (True, False, True)
    """
    _fill(cpu_beginnings.uniform, out, key, raw, low, high - low)


def fill_normal(out: Tensor, key: int, raw: Tensor, mean: float, deviation: float) -> None:
    """Fills rows with numbers of the normal distribution, computed in float64 and rounded.

    Args:
        out, key, raw: as of `fill_uniform`.
        mean, deviation: of the distribution.

    Raises:
        InputError: other dtypes or shapes.

    Example:
        >>> rows = torch.empty(1, 10_000)
        >>> fill_normal(rows, 7, torch.tensor([3]), 5.0, 2.0)
        >>> 4.9 < rows.mean() < 5.1, 1.9 < rows.std() < 2.1
        (tensor(True), tensor(True))
    """
    _fill(cpu_beginnings.normal, out, key, raw, mean, deviation)


def _fill(kernel: Any, out: Tensor, key: int, raw: Tensor, first: float, second: float) -> None:
    require_cpu(out, "out")
    if out.dtype not in FLOATS or not out.dim() or not out.is_contiguous():
        raise InputError(f"out must be rows of floats, contiguous, got {out.dtype} of shape {tuple(out.shape)}")
    ids = integers(raw, "raw", len(out), only_int64=True)
    if not out.numel():
        return
    width = math.prod(out.shape[1:])

    def fill(rows: Tensor, some: NDArray[Any]) -> None:
        kernel(np.uint64(key), some, np.uint64(width), first, second, rows.view(-1).numpy())

    if out.dtype.itemsize > 2:
        return fill(out, ids)
    step = max(_CHUNK // width, 1)
    wide = torch.empty((min(step, len(ids)), *out.shape[1:]), dtype=torch.float32)
    for begin in range(0, len(ids), step):
        some = ids[begin : begin + step]
        fill(wide[: len(some)], some)
        out[begin : begin + step] = wide[: len(some)]
    return None
