"""Rows of any dtype and width, copied by a GPU: to the kernels a row is a number of machine words."""

from typing import Any

import torch
import triton.language as tl
from torch import Tensor

from halohop.ops.device import DevicePool, Fault
from halohop.ops.device_pieces import DevicePieces
from halohop.ops.gpu_launch import kernel, launch, load_word

_WORDS = {8: (torch.int64, tl.int64), 4: (torch.int32, tl.int32), 2: (torch.int16, tl.int16), 1: (torch.uint8, tl.uint8)}


@kernel
def gather_words(
    addresses: Any,
    bounds: Any,
    num_pieces: Any,
    rows: Any,
    out: Any,
    faults: Any,
    count: Any,
    width: Any,
    word: tl.constexpr,
    block: tl.constexpr,
) -> None:
    """Word w of the result is word ``w % width`` of row ``rows[w // width]``; a row that is not there is zeros, and a fault."""
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = at < count
    row = tl.load(rows + at // width, mask=inside, other=0).to(tl.int64)
    live = inside & (row >= tl.load(bounds)) & (row < tl.load(bounds + num_pieces))
    tl.atomic_max(faults + tl.zeros_like(at), row, mask=inside & ~live)
    tl.store(out + at, load_word(addresses, bounds, num_pieces, row, at % width, width, live, word), mask=inside)


def gather_rows(source: DevicePieces, rows: Tensor, out: Tensor, pool: DevicePool) -> Tensor:
    """`halohop.ops.gather_rows` into `out`."""
    size, (words, word) = _word_of(source, out)
    width = source.row_bytes // size
    pieces = source.addresses, source.bounds, source.num_pieces
    count = len(rows) * width
    launch(gather_words, count, *pieces, rows, _as(out, words), pool.faults[Fault.ROW :], count, width, word=word)
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
