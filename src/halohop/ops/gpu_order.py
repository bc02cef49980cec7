"""Edges of a device in order: torch's sorts, which are stable where that is asked for."""

import torch
from torch import Tensor

from halohop.ops import gpu_rows
from halohop.ops.pool import Pool


def distinct_pairs(src: Tensor, dst: Tensor, num_src: int, pool: Pool | None) -> Tensor:
    """`halohop.ops.distinct_pairs`. The host waits for the number of pairs."""
    keys, order = torch.sort(dst.long() * num_src + src, stable=True)
    first = torch.ones_like(keys, dtype=torch.bool)
    first[1:] = keys[1:] != keys[:-1]
    return order.index_select(0, gpu_rows.places(first, pool))
