"""Whole numbers in as few bytes as their range takes: ids and counts cross the network narrow, and arrive as they were.

The work is NumPy's, which has a loop for every pair of dtypes; torch would wake its intra-op threads, which are the trainer's.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from halohop.errors import ProtocolError
from halohop.ops.pool import Pool

WIDE: dict[torch.dtype, np.dtype[Any]] = {torch.int32: np.dtype(np.int32), torch.int64: np.dtype(np.int64)}
"""Dtypes whose numbers are sent in fewer bytes."""
NARROW: dict[str, np.dtype[Any]] = {name: np.dtype(name) for name in ("uint8", "uint16", "uint32")}
FEW = 512
"""Numbers that are sent as they are: a look at them costs more than their bytes."""


def narrowed(values: Tensor, pool: Pool) -> tuple[Tensor, str, int] | None:
    """The numbers less `base` in a narrower dtype, the name of that, and `base`; None where they are sent as they are.

    Args:
        values: contiguous, on the CPU.
        pool: where the memory of the result comes from.

    Example:
        >>> less, name, base = narrowed(torch.arange(70_000, 71_000), Pool())
        >>> less[:3].tolist(), name, base
        ([0, 1, 2], 'uint16', 70000)
    """
    wide = WIDE.get(values.dtype)
    if wide is None or values.numel() < FEW:
        return None
    numbers = values.reshape(-1).numpy()
    low, high = int(numbers.min()), int(numbers.max())
    name = _narrowest(high - low)
    base = 0 if low >= 0 and name == _narrowest(high) else low  # a sum less, where it saves nothing
    if name is None or NARROW[name].itemsize >= wide.itemsize or base + np.iinfo(NARROW[name]).max > np.iinfo(wide).max:
        return None
    out = pool.empty((values.numel() * NARROW[name].itemsize,), torch.uint8)
    less = out.numpy().view(NARROW[name])
    if base:
        np.subtract(numbers, base, out=less, casting="unsafe")
    else:
        np.copyto(less, numbers, casting="unsafe")
    return torch.from_numpy(less), name, base


def widened(buffer: memoryview, shape: Sequence[int], dtype: torch.dtype, name: str, base: int, pool: Pool) -> Tensor:
    """What `narrowed` was given.

    Raises:
        ProtocolError: no such dtypes, or numbers beyond what `dtype` holds.
    """
    wide, narrow = WIDE.get(dtype), NARROW.get(name)
    if wide is None or narrow is None or narrow.itemsize >= wide.itemsize:
        raise ProtocolError(f"{dtype} is not sent as {name[:100]}")
    least, greatest = np.iinfo(wide).min, np.iinfo(wide).max
    if not least <= base <= greatest - np.iinfo(narrow).max:
        raise ProtocolError(f"numbers from {base} on as {name} are beyond {dtype}")
    out = pool.empty(tuple(shape), dtype)
    numbers = out.view(-1).numpy()
    np.copyto(numbers, np.frombuffer(buffer, narrow))
    if base:
        np.add(numbers, base, out=numbers)
    return out


def _narrowest(most: int) -> str | None:
    """The dtype for numbers from 0 to `most`."""
    return next((name for name, dtype in NARROW.items() if most <= np.iinfo(dtype).max), None)
