"""Putting rows together: those with equal ids, and the squares of all their entries."""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop.errors import InputError
from halohop.ops import cpu_rules, cpu_sums
from halohop.ops.arguments import integers, require_cpu
from halohop.ops.pool import Pool, empty


def sum_by_id(gid: Tensor, rows: Tensor, *, mean: bool = False, pool: Pool | None = None) -> tuple[Tensor, Tensor]:
    """The ids that occur, ascending, and for each the sum of its rows, in the order in which they stand.

    Args:
        gid: int64 ``[n]``.
        rows: ``[n, ...]``, float32 or float64.
        mean: divides each sum by how many rows it is of.
        pool: where the memory of the result comes from.

    Returns:
        int64 ``[m]`` and ``[m, ...]``; the arguments themselves where each id is greater than the one before it.

    Raises:
        InputError: other dtypes or shapes.

    Example:
        >>> sum_by_id(torch.tensor([7, 3, 7]), torch.tensor([[1.0], [2.0], [4.0]]))
        (tensor([3, 7]), tensor([[2.],
                [5.]]))
    """
    ids = integers(gid, "gid", only_int64=True)
    require_cpu(rows, "rows")
    if rows.dtype not in (torch.float32, torch.float64) or not rows.dim() or len(rows) != len(ids):
        raise InputError(f"rows must be {len(ids)} of float32 or float64, got {rows.dtype} of shape {tuple(rows.shape)}")
    rows = rows.detach().contiguous()
    if cpu_sums.rises(ids):
        return gid, rows
    low, (keys, order) = ids.min(), _sorted(ids)
    unique, counts = np.empty(len(ids), np.int64), np.empty(len(ids), np.int64)
    sums = empty(pool, tuple(rows.shape), rows.dtype)
    width, flat = np.uint64(math.prod(rows.shape[1:])), sums.view(-1).numpy()
    count = int(cpu_sums.add_up(keys, order, low, rows.view(-1).numpy(), width, unique, counts, flat))
    if mean:
        cpu_sums.divide(flat, width, counts[:count])
    return torch.from_numpy(unique[:count]), sums[:count]


def _sorted(ids: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """By how much each exceeds the least one, ascending, and where it stood; equal ones stay in order."""
    low, high = int(ids.min()), int(ids.max())
    here, there = (np.empty((2, len(ids)), np.uint64) for _ in range(2))
    cpu_sums.count_from(ids, np.int64(low), here[0], here[1])
    for shift in range(0, (high - low).bit_length(), cpu_sums.DIGIT_BITS):
        cpu_sums.sort_digit(here[0], here[1], np.uint64(shift), there[0], there[1])
        here, there = there, here
    return here[0], here[1]


def sum_of_squares(rows: Tensor) -> float:
    """Of all entries, in float64: not finite where one of float32 is not.

    Args:
        rows: any shape, float32 or float64.

    Raises:
        InputError: another dtype.

    Example:
        >>> sum_of_squares(torch.tensor([[3.0], [4.0]]))
        25.0
    """
    require_cpu(rows, "rows")
    if rows.dtype not in (torch.float32, torch.float64):
        raise InputError(f"rows must be float32 or float64, got {rows.dtype}")
    return float(cpu_rules.squares(rows.detach().contiguous().view(-1).numpy()))
