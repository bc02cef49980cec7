"""Lists of weights on a GPU, and their running sums, as `halohop.ops.cpu_weighted` forms them.

Additions are made in the order of the CPU: the weights of a block of 8 one after the other, and blocks one after the other.
"""

from dataclasses import dataclass
from typing import NoReturn

import torch
import triton.language as tl
from torch import Tensor

from halohop.ops.device import DevicePool
from halohop.ops.device_pieces import DevicePieces
from halohop.ops.gpu_launch import kernel, launch
from halohop.ops.rows import gather_rows
from halohop.ops.weighted import refuse_weights

_LEAST = 2.0**-900  # of a total: below it the sums of a list may have lost digits


@kernel
def sum_lists(
    weights: tl.tensor,
    begins: tl.tensor,
    lengths: tl.tensor,
    sums: tl.tensor,
    sum_begins: tl.tensor,
    count: tl.int64,
    block: tl.constexpr,
) -> None:
    """The running sums of lists at the end of each block of 8. The last one of a list with a weight that is none is no number."""
    i = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    live = i < count
    length = tl.load(lengths + i, mask=live, other=0)
    begin = tl.load(begins + i, mask=live, other=0)
    sum_begin = tl.load(sum_begins + i, mask=live, other=0)
    total = tl.zeros((block,), tl.float64)
    wrong = tl.zeros((block,), tl.int1)
    for first in range(0, tl.max(length, axis=0), 8):
        part = tl.zeros((block,), tl.float64)
        for c in tl.static_range(8):
            weight = tl.load(weights + begin + first + c, mask=first + c < length, other=0.0)
            wrong = wrong | ~((weight >= 0.0) & (weight < float("inf")))
            part += weight
        total += part
        known = tl.where(wrong & (first + 8 >= length), float("nan"), total)
        tl.store(sums + sum_begin + first // 8, known, mask=first < length)


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightLists:
    """Lists of weights, and their running sums.

    Args:
        places, sums: where each begins, addresses, int64 ``[n]``.
        lengths: int64 ``[n]``.
        dtype: of the weights.
        memory: what they lie in, as far as nobody else keeps it.
    """

    places: Tensor
    sums: Tensor
    lengths: Tensor
    dtype: torch.dtype
    memory: tuple[Tensor, ...] = ()


def stored(
    indptr: DevicePieces, rows: Tensor, starts: Tensor, lengths: Tensor, weights: DevicePieces, sums: DevicePieces
) -> WeightLists:
    """The lists of rows where they lie, with what `halohop.ops.sum_weights` made of each piece."""
    assert len(indptr.bounds) == len(weights.bounds) == len(sums.bounds)
    piece = (torch.searchsorted(indptr.ends, rows, right=True) - 1).clamp_(0, indptr.num_pieces - 1)
    begins = starts - weights.ends.index_select(0, piece)
    sum_begins = (begins >> 3) + rows - indptr.ends.index_select(0, piece)
    return WeightLists(
        places=weights.places.index_select(0, piece) + begins * weights.row_bytes,
        sums=sums.places.index_select(0, piece) + sum_begins * sums.row_bytes,
        lengths=lengths,
        dtype=weights.dtype,
    )


def weights_of(weights: DevicePieces, positions: Tensor, pool: DevicePool) -> Tensor:
    """Weights of entries, float64."""
    return gather_rows(weights, positions, pool=pool).to(torch.float64)


def summed(weights: Tensor, lengths: Tensor, pool: DevicePool) -> WeightLists:
    """Lists of float64 that lie one behind the other, with their sums."""
    num_blocks = (lengths + 7) >> 3
    begins, sum_begins = (each.cumsum(0) - each for each in (lengths, num_blocks))
    sums = pool.empty((len(weights) // 8 + len(lengths),), torch.float64)
    launch(sum_lists, len(lengths), weights, begins, lengths, sums, sum_begins, len(lengths), block=32, num_warps=1)
    return WeightLists(
        places=begins * 8 + weights.data_ptr(),
        sums=sum_begins * 8 + sums.data_ptr(),
        lengths=lengths,
        dtype=torch.float64,
        memory=(weights, sums),
    )


def summed_in_range(weights: Tensor, row_of: Tensor, lengths: Tensor, pool: DevicePool) -> WeightLists:
    """`summed`; where totals leave the range in which float64 is exact, of weights times the power of two that brings the
    greatest between 1/2 and 1."""
    lists = summed(weights, lengths, pool)
    num_blocks = (lengths + 7) >> 3
    totals = lists.memory[1].index_select(0, num_blocks.cumsum(0) - 1)
    greatest = pool.zeros((len(lengths),), torch.float64).scatter_reduce_(0, row_of, weights, "amax")
    exponent = torch.where((totals >= _LEAST) & (totals < torch.inf), 0, -torch.frexp(greatest).exponent).long()
    some = exponent.clamp(-1000, 1000)  # two powers, as one may exceed float64
    first, second = (_power_of_two(one).index_select(0, row_of) for one in (some, exponent - some))
    return summed(weights * first * second, lengths, pool)  # what may be rounded twice is too small for any draw


def _power_of_two(exponent: Tensor) -> Tensor:
    return ((exponent + 1023) << 52).view(torch.float64)


def refuse(positions: Tensor, weights: DevicePieces, pool: DevicePool) -> NoReturn:
    """
    Raises:
        WeightError: always; one of the weights at some positions is negative or not finite.
    """
    refuse_weights(pool.bring(weights_of(weights, positions, pool)).numpy(), pool.bring(positions).numpy())
