"""Putting rows together: those with equal ids, and the squares of all their entries."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop.errors import InputError
from halohop.ops import cpu_rules, cpu_sums
from halohop.ops.arguments import integers, require_cpu
from halohop.ops.pieces import words_at
from halohop.ops.pool import Pool, empty

_EXPONENTS = {torch.float32: np.uint32(0x7F800000), torch.float64: np.uint64(0x7FF0000000000000)}
"""All bits of an exponent, which are ones in entries that are not finite, and in no others."""
_HUGE = {torch.float32: np.uint32(0x70000000), torch.float64: np.uint64(0x7000000000000000)}
"""Its highest three, which are ones from 2^97 (of float64: 2^769) on."""


def sum_by_id(
    gid: Tensor | Sequence[Tensor], rows: Tensor | Sequence[Tensor], *, mean: bool = False, pool: Pool | None = None
) -> tuple[Tensor, Tensor]:
    """The ids that occur, ascending, and for each the sum of its rows, in the order in which they stand.

    Args:
        gid: int64 ``[n]``, on the CPU; or several of them, which stand one behind the other and are not joined in memory.
        rows: ``[n, ...]``, float32 or float64; or as many of them, for each `gid` its own. All lie on the CPU, or on one device.
        mean: divides each sum by how many rows it is of.
        pool: where the memory of the result comes from; of rows on a device it is that device's.

    Returns:
        int64 ``[m]`` and ``[m, ...]``, which lies where the rows do; the arguments themselves where each id is greater than the
        one before it, and all stand in one tensor.

    Raises:
        InputError: other dtypes or shapes.

    Example:
        >>> sum_by_id(torch.tensor([7, 3, 7]), torch.tensor([[1.0], [2.0], [4.0]]))
        (tensor([3, 7]), tensor([[2.],
                [5.]]))
        >>> sum_by_id([torch.tensor([7, 9]), torch.tensor([7])], [torch.tensor([[1.0], [2.0]]), torch.tensor([[4.0]])])
        (tensor([7, 9]), tensor([[5.],
                [2.]]))
    """
    pieces = _pieces([gid] if isinstance(gid, Tensor) else gid, [rows] if isinstance(rows, Tensor) else rows)
    first_ids, first_rows = pieces[0]
    if len(pieces) == 1 and cpu_sums.rises(first_ids.numpy()):
        return first_ids, first_rows
    if first_rows.is_cuda:
        from halohop.ops import gpu_sums

        low, (keys, places) = _sorted(pieces, math.prod(first_rows.shape[1:]), 0)
        return gpu_sums.add_up(keys, places, low, [values for _, values in pieces], mean=mean, pool=pool)
    width, entries = np.uint64(math.prod(first_rows.shape[1:])), _entries([values for _, values in pieces])
    low, (keys, places) = _sorted(pieces, int(width), entries.ctypes.data)
    unique, counts = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
    sums = empty(pool, (len(keys), *first_rows.shape[1:]), first_rows.dtype)
    flat = sums.view(-1).numpy()
    count = int(cpu_sums.add_up(keys, places, np.int64(low), entries, width, unique, counts, flat))
    if mean:
        cpu_sums.divide(flat, width, counts[:count])
    return torch.from_numpy(unique[:count]), sums[:count]


@dataclass(frozen=True, slots=True, kw_only=True)
class SummedRows:
    """Sums of rows by id, `unite`. The only row of an id is where it came from, and nothing was copied.

    Args:
        entries: memory in which all of them lie, and others.
        places: uint64 ``[n]``, where in `entries` each begins.
        row_shape: of each.
        dtype: of them.
    """

    entries: NDArray[Any]
    places: NDArray[np.uint64]
    row_shape: tuple[int, ...]
    dtype: torch.dtype

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, rows: slice) -> "SummedRows":
        """Some of them, in order."""
        return replace(self, places=self.places[rows])

    def pick(self, rows: Tensor) -> "SummedRows":
        """Some of them, by number (int64 ``[k]``)."""
        return replace(self, places=self.places[rows.numpy()])

    @property
    def shape(self) -> tuple[int, ...]:
        """Of all of them, as one tensor."""
        return len(self), *self.row_shape

    def tensor(self) -> Tensor:
        """All of them, one behind the other."""
        columns = np.arange(math.prod(self.row_shape), dtype=np.uint64)
        return torch.from_numpy(self.entries[self.places[:, None] + columns]).view(self.shape)

    def sum_of_squares(self) -> float:
        """As `sum_of_squares`, row by row."""
        return float(cpu_rules.squares_of_rows(self.entries, np.uint64(math.prod(self.row_shape)), self.places))


def unite(
    gid: Sequence[Tensor], rows: Sequence[Tensor], *, mean: bool = False, pool: Pool | None = None
) -> tuple[Tensor, SummedRows]:
    """`sum_by_id` of several tensors, of whose rows only those are copied whose id occurs again.

    Args:
        gid, rows, mean, pool: as of `sum_by_id`.

    Returns:
        int64 ``[m]``, ascending, and the sums ``[m, ...]``. They are those of the arguments as these are now.

    Raises:
        InputError: other dtypes or shapes.

    Example:
        >>> ids, sums = unite([torch.tensor([7, 9]), torch.tensor([7])], [torch.tensor([[1.0], [2.0]]), torch.tensor([[4.0]])])
        >>> ids, sums.tensor()
        (tensor([7, 9]), tensor([[5.],
                [2.]]))
    """
    for piece in rows:
        require_cpu(piece, "rows")
    pieces = _pieces(gid, rows)
    first_ids, first_rows = pieces[0]
    row_shape, dtype, width = tuple(first_rows.shape[1:]), first_rows.dtype, np.uint64(math.prod(first_rows.shape[1:]))
    if len(pieces) == 1 and cpu_sums.rises(first_ids.numpy()):
        places = np.arange(len(first_ids), dtype=np.uint64) * width
        return first_ids, SummedRows(entries=_entries([first_rows]), places=places, row_shape=row_shape, dtype=dtype)
    values = [values for _, values in pieces]
    low, (keys, places) = _sorted(pieces, int(width), _entries(values).ctypes.data)
    count, shared = map(int, cpu_sums.count_runs(keys))
    before, room = _entries(values), empty(pool, (shared, *row_shape), dtype)
    entries, free = before, 0
    if room.numel():
        entries = _entries([*values, room])
        places += np.uint64((before.ctypes.data - entries.ctypes.data) // entries.itemsize)
        free = (room.data_ptr() - entries.ctypes.data) // entries.itemsize
    ids, begins = np.empty(count, np.int64), np.empty(count, np.uint64)
    cpu_sums.unite(keys, places, np.int64(low), entries, width, ids, begins, np.uint64(free), mean)
    return torch.from_numpy(ids), SummedRows(entries=entries, places=begins, row_shape=row_shape, dtype=dtype)


def _pieces(gid: Sequence[Tensor], rows: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """Ids and their rows, without gaps; the empty ones are left out, but for one."""
    if not gid or len(gid) != len(rows):
        raise InputError(f"{len(rows)} tensors of rows do not fit {len(gid)} of ids; give as many, at least one")
    pieces = []
    for ids, values in zip(gid, rows, strict=True):
        count = len(integers(ids, "gid", only_int64=True))
        if values.is_cuda != rows[0].is_cuda:
            raise InputError("some rows lie on a device, and some do not; give all on one")
        fits = values.dim() > 0 and len(values) == count and values.shape[1:] == rows[0].shape[1:]
        if values.dtype not in (torch.float32, torch.float64) or values.dtype != rows[0].dtype or not fits:
            raise InputError(f"rows must be {count} of float32 or float64, got {values.dtype} of shape {tuple(values.shape)}")
        values = values.detach().contiguous()
        if values.data_ptr() % values.element_size():  # a user's own memory may begin anywhere
            values = values.clone()
        pieces.append((ids, values))
    return [piece for piece in pieces if len(piece[0])] or pieces[:1]


def _entries(rows: Sequence[Tensor]) -> NDArray[Any]:
    """From the first entry of any tensor to the last one of any: what lies between them is not theirs, and not touched."""
    entries: list[NDArray[Any]] = [piece.view(-1).numpy() for piece in rows if piece.numel()]
    if len(entries) <= 1:
        return entries[0] if entries else rows[0].view(-1).numpy()
    first = min(piece.ctypes.data for piece in entries)
    last = max(piece.ctypes.data + piece.nbytes for piece in entries)
    return words_at(first, (last - first) // entries[0].itemsize, entries[0].dtype, entries)


def _sorted(
    pieces: Sequence[tuple[Tensor, Tensor]], width: int, address: int
) -> tuple[int, tuple[NDArray[np.uint64], NDArray[np.uint64]]]:
    """The least id; by how much each id exceeds it, ascending; and the place of its row, counted from an address. Equal ones stay
    in order."""
    low, high = min(int(ids.numpy().min()) for ids, _ in pieces), max(int(ids.numpy().max()) for ids, _ in pieces)
    here, there = (np.empty((2, sum(len(ids) for ids, _ in pieces)), np.uint64) for _ in range(2))
    begin = 0
    for ids, rows in pieces:
        part = slice(begin, begin := begin + len(ids))
        place = (rows.data_ptr() - address) // rows.element_size() if rows.numel() else 0
        cpu_sums.count_from(ids.numpy(), np.int64(low), np.uint64(place), np.uint64(width), here[0][part], here[1][part])
    for shift in range(0, (high - low).bit_length(), cpu_sums.DIGIT_BITS):
        cpu_sums.sort_digit(here[0], here[1], np.uint64(shift), there[0], there[1])
        here, there = there, here
    return low, (here[0], here[1])


def all_finite(rows: Tensor) -> bool:
    """Whether no entry is infinite or not a number.

    Args:
        rows: any shape, float32 or float64.

    Raises:
        InputError: another dtype.

    Example:
        >>> all_finite(torch.tensor([1.0, 3e38])), all_finite(torch.tensor([1.0, float("nan")]))
        (True, False)
    """
    return not _any(rows, _EXPONENTS)


def any_huge(rows: Tensor) -> bool:
    """Whether an entry is not finite, or so large that a sum of 2^30 such entries need not be: 2^97, or 2^769 of float64.

    Args, Raises: as of `all_finite`, which takes as long.

    Example:
        >>> any_huge(torch.tensor([1.0, 1e29])), any_huge(torch.tensor([1.0, -1e30]))
        (False, True)
    """
    return _any(rows, _HUGE)


def _any(rows: Tensor, masks: Mapping[torch.dtype, Any]) -> bool:
    """Whether an entry has all bits of its dtype's mask."""
    require_cpu(rows, "rows")
    if rows.dtype not in masks:
        raise InputError(f"rows must be float32 or float64, got {rows.dtype}")
    mask = masks[rows.dtype]
    return bool(cpu_sums.count_equal(rows.detach().contiguous().view(-1).numpy().view(mask.dtype), mask))


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
