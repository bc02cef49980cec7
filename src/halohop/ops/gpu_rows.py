"""Rows of any dtype and width, copied by a GPU: to the kernels a row is a number of machine words."""

from typing import Any

import torch
import triton.language as tl
from torch import Tensor

from halohop.ops.device import DevicePool, Fault
from halohop.ops.device_pieces import DevicePieces
from halohop.ops.gpu_launch import kernel, launch, load_word
from halohop.ops.pool import Pool

_WORDS = {8: (torch.int64, tl.int64), 4: (torch.int32, tl.int32), 2: (torch.int16, tl.int16), 1: (torch.uint8, tl.uint8)}


@kernel
def gather_words(
    addresses: tl.tensor,
    bounds: tl.tensor,
    num_pieces: tl.tensor,
    rows: tl.tensor,
    out: tl.tensor,
    faults: tl.tensor,
    count: tl.tensor,
    width: tl.tensor,
    padded: tl.constexpr,
    word: tl.constexpr,
    block: tl.constexpr,
) -> None:
    """Word w of the result is word ``w % width`` of row ``rows[w // width]``; a row that is not there is zeros, and a fault,
    unless it is -1 and rows are padded."""
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = at < count
    row = tl.load(rows + at // width, mask=inside, other=0).to(tl.int64)
    live = inside & (row >= tl.load(bounds)) & (row < tl.load(bounds + num_pieces))
    wrong = inside & ~live
    if padded:
        wrong = wrong & (row != -1)
    tl.atomic_max(faults + tl.zeros_like(at), row, mask=wrong)
    tl.store(out + at, load_word(addresses, bounds, num_pieces, row, at % width, width, live, word), mask=inside)


def gather_rows(source: Any, rows: Tensor, out: Tensor | None, pool: Pool | None) -> Tensor:
    """`halohop.ops.gather_rows` of a tensor on the device, or of `DevicePieces`. Rows that are not there are zeros, and a fault
    of the pool's."""
    if not isinstance(source, DevicePieces):
        assert source.is_cuda
        selected: Tensor = source.detach().index_select(0, rows)
        return selected if out is None else out.copy_(selected)
    if out is None:
        out = rows.new_empty((len(rows), *source.row_shape), dtype=source.dtype)
    faults = pool.faults[Fault.ROW :] if isinstance(pool, DevicePool) else rows.new_empty(1, dtype=torch.int64)
    return _gather(source, rows, out, faults, padded=False)


def gather_known(source: Any, rows: Tensor, pool: Pool | None) -> Tensor:
    """`halohop.ops.gather_known`: rows -1 are zeros."""
    if not isinstance(source, DevicePieces):
        found = source.index_select(0, rows.clamp(min=0)) if len(source) else source.new_zeros(len(rows), *source.shape[1:])
        return found.masked_fill_((rows < 0).view(-1, *[1] * (found.dim() - 1)), 0)  # type: ignore[no-any-return]
    out = rows.new_empty((len(rows), *source.row_shape), dtype=source.dtype)
    assert isinstance(pool, DevicePool)
    return _gather(source, rows, out, pool.faults[Fault.ROW :], padded=True)


def scatter_rows(values: Tensor, positions: Tensor, out: Tensor) -> None:
    """`halohop.ops.scatter_rows`, of positions that differ from each other."""
    out.index_copy_(0, positions.long(), values)


def places(wanted: Tensor, pool: Pool | None) -> Tensor:
    """Where a mask ``[n]`` is true: int64, ascending. The host waits for their number."""
    assert isinstance(pool, DevicePool)
    ends = wanted.cumsum(0)
    (count,) = pool.numbers(ends[-1:]) if len(ends) else (0,)
    found = pool.empty((count + 1,), torch.int64)  # the last one is for what is not wanted
    target = torch.where(wanted, ends - 1, count)
    return found.scatter_(0, target, pool.arange(len(wanted)))[:count]


def _gather(source: DevicePieces, rows: Tensor, out: Tensor, faults: Tensor, *, padded: bool) -> Tensor:
    size, (words, word) = _word_of(source, out)
    width = source.row_bytes // size
    pieces = source.places, source.ends, source.num_pieces
    count = len(rows) * width
    launch(gather_words, count, *pieces, rows, _as(out, words), faults, count, width, padded=padded, word=word)
    return out


def _word_of(source: DevicePieces, out: Tensor) -> tuple[int, tuple[torch.dtype, Any]]:
    """The widest word that rows consist of, and that all of them are aligned to."""
    bits = source.row_bytes | out.data_ptr()
    for tensor in source.tensors:
        bits |= tensor.data_ptr()
    size = min(bits & -bits, 8) or 8
    return size, _WORDS[size]


def _as(out: Tensor, words: torch.dtype) -> Tensor:
    return out.view(-1).view(torch.uint8).view(words) if out.numel() else out
