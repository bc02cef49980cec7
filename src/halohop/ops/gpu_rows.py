"""Rows of any dtype and width, copied by a GPU: to the kernels a row is a number of machine words."""

from dataclasses import dataclass
from typing import Any

import torch
import triton.language as tl
from torch import Tensor

from halohop.errors import InputError
from halohop.ops.device import DevicePool, Fault
from halohop.ops.device_pieces import DevicePieces
from halohop.ops.gpu_launch import kernel, launch_tiles, piece_of
from halohop.ops.pool import Pool

_WORDS = {8: (torch.int64, tl.int64), 4: (torch.int32, tl.int32), 2: (torch.int16, tl.int16), 1: (torch.uint8, tl.uint8)}


@kernel
def rows_in_pieces(
    addresses: tl.tensor,
    bounds: tl.tensor,
    num_pieces: tl.tensor,
    rows: tl.tensor,
    width: tl.tensor,
    live: tl.tensor,
    word: tl.constexpr,
) -> tl.tensor:
    """Pointers to the rows of an array in pieces; those that are not live point anywhere."""
    piece = piece_of(rows, bounds, num_pieces)
    base = tl.load(addresses + piece, mask=live, other=0).to(tl.pointer_type(word))
    return base + (rows - tl.load(bounds + piece, mask=live, other=0)) * width


@kernel
def words_of(begins: tl.tensor, column: tl.tensor, width: tl.tensor, live: tl.tensor, aligned: tl.constexpr) -> tl.tensor:
    """Words of rows, ``[rows, columns]``; zeros for rows that are not live. Neighbouring lanes read neighbouring words, several
    at once where all rows begin at multiples of `aligned` bytes."""
    pointers = tl.multiple_of(begins[:, None] + column[None, :], [1, aligned])
    return tl.load(pointers, mask=live[:, None] & (column < width)[None, :], other=0)


@kernel
def copy_words(
    source: tl.tensor,
    bounds: tl.tensor,
    size: tl.tensor,
    rows: tl.tensor,
    positions: tl.tensor,
    out: tl.tensor,
    faults: tl.tensor,
    count: tl.int64,
    num_out: tl.int64,
    units: tl.tensor,
    tiles: tl.tensor,
    in_pieces: tl.constexpr,
    listed: tl.constexpr,
    placed: tl.constexpr,
    padded: tl.constexpr,
    word: tl.constexpr,
    unit: tl.constexpr,
    aligned: tl.constexpr,
    columns: tl.constexpr,
    block: tl.constexpr,
) -> None:
    """Copies row ``rows[i]`` (i unless listed) to row ``positions[i]`` (i unless placed). A row that is not there is zeros, and a
    fault, unless it is -1 and rows are padded; what has no place is left out, and a fault.

    `source` holds the addresses of `size` pieces, or is one tensor of `size` rows. Rows have `units` times `unit` words.
    """
    program = tl.program_id(0)
    i = (program // tiles).to(tl.int64) * block + tl.arange(0, block)
    column = (program % tiles) * columns + tl.arange(0, columns)
    width = units * unit
    inside = i < count
    target = i
    if placed:
        target = tl.load(positions + i, mask=inside, other=0).to(tl.int64)
        there = (target >= 0) & (target < num_out)
        tl.atomic_max(faults + tl.zeros_like(i), target, mask=inside & ~there, sem="relaxed")
        inside = inside & there
    row = i
    if listed:
        row = tl.load(rows + i, mask=inside, other=0).to(tl.int64)
    if in_pieces:
        live = inside & (row >= tl.load(bounds)) & (row < tl.load(bounds + size))
        begins = rows_in_pieces(source, bounds, size, row, width, live, word)
    else:
        live = inside & (row >= 0) & (row < size)
        begins = source + row * width
    wrong = inside & ~live
    if padded:
        wrong = wrong & (row != -1)
    tl.atomic_max(faults + tl.zeros_like(i), row, mask=wrong, sem="relaxed")
    words = words_of(begins, column, width, live, aligned)
    tl.store(out + target[:, None] * width + column[None, :], words, mask=inside[:, None] & (column < width)[None, :])


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """How rows are cut into words.

    Args:
        torch_word, word: the dtype of a word.
        width: words of a row.
        aligned: bytes that all rows begin at multiples of.
    """

    torch_word: torch.dtype
    word: Any
    width: int
    aligned: int

    @classmethod
    def of(cls, row_bytes: int, tensors: tuple[Tensor, ...]) -> "Words":
        """The widest that rows consist of, and that all addresses are multiples of."""
        bits = row_bytes | 16
        for tensor in tensors:
            bits |= tensor.data_ptr()
        aligned = bits & -bits
        size = min(aligned, 8)
        torch_word, word = _WORDS[size]
        return cls(torch_word=torch_word, word=word, width=row_bytes // size, aligned=aligned)

    def view(self, tensor: Tensor) -> Tensor:
        """The memory of a contiguous tensor as words."""
        if not tensor.numel():
            return tensor.new_empty(0, dtype=self.torch_word)
        return tensor.view(-1).view(torch.uint8).view(self.torch_word)

    def launch(self, run: Any, count: int, *arguments: Any, **constants: Any) -> None:
        """Runs a kernel on `count` rows. It gets `units` and `tiles` behind the arguments."""
        unit = max(self.aligned // 8, 1)
        shape = {"word": self.word, "unit": unit, "aligned": self.aligned}
        launch_tiles(run, count, self.width, *arguments, self.width // unit, least=unit, **shape, **constants)


def gather_rows(source: Any, rows: Tensor, out: Tensor | None, pool: Pool | None, *, padded: bool = False) -> Tensor:
    """`halohop.ops.gather_rows` of a tensor on the device, or of `DevicePieces`. Rows that are not there are zeros, and a fault
    of the pool's."""
    shape = (len(rows), *_row_shape(source))
    if out is None:
        out = rows.new_empty(shape, dtype=source.dtype)
    _check_out(out, shape, source.dtype)
    _copy(source, rows, None, out, pool, padded=padded)
    return out


def gather_known(source: Any, rows: Tensor, pool: Pool | None) -> Tensor:
    """`halohop.ops.gather_known`: rows -1 are zeros."""
    return gather_rows(source, rows, None, pool, padded=True)


def gather_rows_to(source: Any, rows: Tensor, positions: Tensor, out: Tensor, pool: Pool | None) -> None:
    """`halohop.ops.gather_rows_to`, of positions that differ from each other."""
    _check_out(out, (len(out), *_row_shape(source)), source.dtype)
    _copy(source, rows, positions, out, pool)


def scatter_rows(values: Tensor, positions: Tensor, out: Tensor, pool: Pool | None) -> None:
    """`halohop.ops.scatter_rows`, of positions that differ from each other."""
    _check_out(out, (len(out), *values.shape[1:]), values.dtype)
    _copy(values, None, positions, out, pool)


def places(wanted: Tensor, pool: Pool | None, count: int | None = None) -> Tensor:
    """Where a mask ``[n]`` is true: int64, ascending. The host waits for their number, unless it knows the `count`."""
    assert isinstance(pool, DevicePool)
    ends = wanted.cumsum(0)
    if count is None:
        (count,) = pool.numbers(ends[-1:]) if len(ends) else (0,)
    found = pool.empty((count + 1,), torch.int64)  # the last one is for what is not wanted
    target = torch.where(wanted, ends - 1, count)
    return found.scatter_(0, target, pool.arange(len(wanted)))[:count]


def faults_of(pool: Pool | None, like: Tensor) -> Tensor:
    """Where rows that are not there are said; without a pool nobody hears of it."""
    return pool.faults[Fault.ROW :] if isinstance(pool, DevicePool) else like.new_empty(1, dtype=torch.int64)


def _copy(
    source: Any, rows: Tensor | None, positions: Tensor | None, out: Tensor, pool: Pool | None, *, padded: bool = False
) -> None:
    rows, positions = (None if index is None else _index(index) for index in (rows, positions))
    known = positions if rows is None else rows
    assert known is not None
    if positions is not None and len(positions) != (len(source) if rows is None else len(rows)):
        raise InputError(f"{len(positions)} positions for {len(source) if rows is None else len(rows)} rows")
    in_pieces = isinstance(source, DevicePieces)
    if not in_pieces:
        source = source.detach().resolve_conj().resolve_neg().contiguous()
    tensors = source.tensors if in_pieces else (source,)
    words = Words.of(out.element_size() * out.shape[1:].numel(), (*tensors, out))
    held = (source.places, source.ends, source.num_pieces) if in_pieces else (words.view(source), known, len(source))
    words.launch(
        copy_words,
        len(known),
        *held,
        known,
        known if positions is None else positions,
        words.view(out),
        faults_of(pool, known),
        len(known),
        len(out),
        in_pieces=in_pieces,
        listed=rows is not None,
        placed=positions is not None,
        padded=padded,
    )


def _index(index: Tensor) -> Tensor:
    if index.dtype not in (torch.int64, torch.int32) or index.dim() != 1:
        raise InputError(f"rows are {index.dtype} of shape {tuple(index.shape)}; give int64 or int32 of one dimension")
    return index.contiguous()


def _row_shape(source: Any) -> tuple[int, ...]:
    if isinstance(source, DevicePieces):
        return source.row_shape
    if not (isinstance(source, Tensor) and source.is_cuda):
        raise InputError("rows are on a device, but their source is not; give both on one")
    return tuple(source.shape[1:])


def _check_out(out: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    if not out.is_cuda or tuple(out.shape) != shape or out.dtype != dtype or not out.is_contiguous():
        raise InputError(
            f"out is {out.dtype} of shape {tuple(out.shape)}, expected {dtype} of shape {shape}, contiguous and on the device"
        )
