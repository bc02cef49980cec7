"""Ids by ranges, and the numbers that they get: what building partitions does to every node and edge."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from halohop.errors import IdError, InputError
from halohop.ops import cpu_ranges
from halohop.ops.arguments import integers

_CELLS = 1 << 16  # of the guide: it stays in the processor's cache


class Ranges:
    """Consecutive ranges of ids: range k has the ids ``bounds[k]`` to ``bounds[k + 1] - 1``.

    Raises:
        InputError: bounds that fall, or fewer than two.

    Example:
        >>> Ranges([0, 3, 3, 10]).find(torch.tensor([2, 3, 9])).tolist()
        [0, 2, 2]
    """

    def __init__(self, bounds: Sequence[int]) -> None:
        if len(bounds) < 2 or any(low > high for low, high in pairwise(bounds)):
            raise InputError(f"ranges have two bounds or more that never fall, got {list(bounds)}")
        self._bounds = np.array(bounds, np.int64)
        low, high = int(self._bounds[0]), int(self._bounds[-1])
        self._shift = max((high - low) // _CELLS, 1).bit_length() - 1
        begins = np.arange(low, max(high, low + 1), 1 << self._shift, dtype=np.int64)
        self._guide = (np.searchsorted(self._bounds, begins, side="right") - 1).astype(np.int32)

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def find(self, ids: Tensor) -> Tensor:
        """The range of each id, int32 ``[n]``.

        Args:
            ids: int64 or int32 ``[n]``.

        Raises:
            IdError: an id in none of them.
            InputError: wrong dtypes.
        """
        array = integers(ids, "ids")
        out = torch.empty(len(array), dtype=torch.int32)
        done = cpu_ranges.find_ranges(array, self._bounds, self._guide, self._shift, out.numpy())
        if done < len(array):
            raise IdError(f"id {int(array[done])} is in none of the ranges from {self._bounds[0]} to {self._bounds[-1] - 1}")
        return out


def number(keys: Tensor, cursors: Tensor, dtype: torch.dtype = torch.int64) -> Tensor:
    """Numbers rows by key: those of key k get ``cursors[k]``, ``cursors[k] + 1``, ... in turn.

    Args:
        keys: int64 or int32 ``[n]``.
        cursors: the next number of each key, int64; it goes on counting here.
        dtype: of the result.

    Returns:
        ``[n]``.

    Raises:
        IdError: a key that has no cursor.
        InputError: wrong dtypes.

    Example:
        >>> cursors = torch.tensor([0, 10])
        >>> number(torch.tensor([1, 0, 1]), cursors).tolist(), cursors.tolist()
        ([10, 0, 11], [1, 12])
    """
    array, counters = integers(keys, "keys"), integers(cursors, "cursors")
    out = torch.empty(len(array), dtype=dtype)
    done = cpu_ranges.number(array, counters, out.numpy())
    if done < len(array):
        raise IdError(f"key {int(array[done])} is none of 0 to {len(counters) - 1}")
    return out


def meet(ids: Tensor, low: int, high: int, met: Tensor) -> tuple[int, int]:
    """Remembers ids, except those from `low` to ``high - 1``.

    Args:
        ids: int64 or int32 ``[n]``; all of them have a bit.
        met: a bit for each id, uint8; those of the ids that are met are set here.

    Returns:
        How many ids were not excepted, and how many of them had not been met.

    Raises:
        InputError: wrong dtypes.

    Example:
        >>> meet(torch.tensor([1, 5, 5, 7]), 0, 3, torch.zeros(1, dtype=torch.uint8))
        (3, 2)
    """
    outside, new = cpu_ranges.meet(integers(ids, "ids"), low, high, met.numpy())
    return int(outside), int(new)
