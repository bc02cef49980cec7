"""Ids, counts and masks cross the network packed: numbers in as few bits as they take, bools in one. They arrive as they were."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from halohop import ops
from halohop.errors import InputError, ProtocolError

FEW = 512
"""Numbers that are sent as they are: a look at them costs more than their bytes."""
PACKED = (torch.int32, torch.int64, torch.bool)
"""Dtypes whose numbers are sent packed."""


def packed(values: Tensor, pool: ops.Pool) -> ops.PackedIntegers | None:
    """The numbers in few bits; None where they are sent as they are.

    Args:
        values: contiguous, on the CPU.
        pool: where the memory of the result comes from.

    Example:
        >>> [packed(values, ops.Pool()).data.nbytes for values in (torch.arange(10**6, 10**6 + 1024), torch.ones(1024) > 0)]
        [136, 128]
    """
    if values.dtype not in PACKED or values.numel() < FEW:
        return None
    if values.dtype is torch.bool:
        return ops.PackedIntegers(data=torch.from_numpy(np.packbits(values.view(-1).numpy())), way=0, base=0)
    return ops.pack_integers(values.view(-1), pool=pool)


def unpacked(
    buffer: memoryview, shape: Sequence[int], dtype: torch.dtype, how: Sequence[int], pool: ops.Pool, *, most_bytes: int
) -> Tensor:
    """What was packed; `how`: the way and the base of it.

    Raises:
        ProtocolError: no such numbers, or they take more than `most_bytes`.
    """
    if dtype not in PACKED:
        raise ProtocolError(f"{dtype} is not sent packed")
    way, base = how
    if (num_bytes := math.prod(shape) * dtype.itemsize) > most_bytes:
        raise ProtocolError(f"numbers that take {num_bytes} bytes, where {most_bytes} are allowed")
    out = pool.empty(tuple(shape), dtype)
    if dtype is torch.bool:
        if buffer.nbytes != -(-out.numel() // 8) or way or base:
            raise ProtocolError(f"{buffer.nbytes} bytes are no {out.numel()} packed bools")
        bits = np.unpackbits(np.frombuffer(buffer, np.uint8), count=out.numel())
        out.view(-1).numpy()[:] = bits.view(np.bool_)
        return out
    try:
        packed = ops.PackedIntegers(data=torch.frombuffer(buffer, dtype=torch.uint8), way=way, base=base)
        ops.unpack_integers(packed, out.view(-1))
    except InputError as error:
        raise ProtocolError(str(error)) from None
    return out
