"""Rows with equal ids are added up on a GPU, in the order in which they stand, as the CPU does it.

The host has the ids, and sorts them; so it knows how many sums there are, and nobody waits.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
import triton.language as tl
from numpy.typing import NDArray
from torch import Tensor

from halohop.ops.device import DevicePool
from halohop.ops.gpu_launch import kernel, launch_tiles
from halohop.ops.gpu_numbers import divided
from halohop.ops.pool import Pool


@kernel
def add_runs(
    places: tl.tensor,
    begins: tl.tensor,
    sums: tl.tensor,
    width: tl.tensor,
    count: tl.int64,
    tiles: tl.tensor,
    mean: tl.constexpr,
    columns: tl.constexpr,
    block: tl.constexpr,
) -> None:
    """Adds up runs of rows, run i those at ``places[begins[i] : begins[i + 1]]``, which are addresses."""
    program = tl.program_id(0)
    i = (program // tiles).to(tl.int64) * block + tl.arange(0, block)
    column = (program % tiles) * columns + tl.arange(0, columns)
    live, inside = i < count, column < width
    begin = tl.load(begins + i, mask=live, other=0)
    length = tl.load(begins + i + 1, mask=live, other=1) - begin
    entries = tl.load(places + begin, mask=live, other=0).to(tl.pointer_type(sums.dtype.element_ty))
    total = tl.load(entries[:, None] + column[None, :], mask=live[:, None] & inside[None, :], other=0.0)
    for number in range(1, tl.max(tl.where(live, length, 1), axis=0)):
        more = live & (number < length)
        entries = tl.load(places + begin + number, mask=more, other=0).to(tl.pointer_type(sums.dtype.element_ty))
        added = tl.load(entries[:, None] + column[None, :], mask=more[:, None] & inside[None, :], other=0.0)
        total = tl.where(more[:, None], total + added, total)  # a sum and 0.0 may have another sign
    if mean:
        total = divided(total, tl.where(live, length, 1).to(total.dtype)[:, None])
    tl.store(sums + i[:, None] * width + column[None, :], total, mask=live[:, None] & inside[None, :])


def add_up(
    keys: NDArray[np.uint64], places: NDArray[np.uint64], low: int, rows: Sequence[Tensor], *, mean: bool, pool: Pool | None
) -> tuple[Tensor, Tensor]:
    """`halohop.ops.sum_by_id`: the ids that occur, int64 ``[m]`` on the CPU, and sums ``[m, ...]`` on the device.

    Args:
        keys: what each id exceeds `low` by, ascending.
        places: where the row of each begins, counted in entries from the address 0.
        rows: that they are of; all on the device.
        mean: as of `halohop.ops.sum_by_id`.
        pool: of the device.
    """
    assert isinstance(pool, DevicePool)
    first = np.ones(len(keys) + 1, np.bool_)
    first[1:-1] = keys[1:] != keys[:-1]
    begins = np.flatnonzero(first)
    ids = torch.from_numpy(keys[begins[:-1]].view(np.int64) + np.int64(low))
    addresses = places.view(np.int64) * rows[0].element_size()
    moved = pool.put(torch.from_numpy(np.concatenate([addresses, begins])))
    sums = pool.empty((len(ids), *rows[0].shape[1:]), rows[0].dtype)
    width = math.prod(rows[0].shape[1:])
    launch_tiles(add_runs, len(ids) if width else 0, width, moved, moved[len(keys) :], sums, width, len(ids), mean=mean)
    return ids, sums
