"""One long array that lies in several places, such as the partitions that a host maps."""

from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from halohop.errors import InputError

ABSENT = np.uint64(2**63)
"""Origin of a piece that is not here; no address is as far from another."""


class Pieces:
    """Rows bounds[p] to bounds[p + 1] - 1 are those of tensors[p]. Nothing is copied; kernels jump between the pieces.

    To a kernel it looks like one array of machine words, from the lowest address of any piece on. Most of that range is not ours
    and never touched: word c of row r is number ``origins[p] + r * width + c``, p being the piece that r lies in.

    Args:
        tensors: ``[bounds[p + 1] - bounds[p], ...]`` each, contiguous, of one dtype and row shape; None for a piece that is not
            here. `extra` more rows than that are allowed at the end of each.
        bounds: one more than tensors, never falling.
        extra: rows that every tensor has beyond its bounds (1 for the indptr of CSC).
        disk_arrays: addresses of arrays, these pieces or others, that are mapped from files and do not fit into memory. Rows of
            such a piece are asked for before they are read (see `halohop.ops.paging`).

    Attributes:
        on_disk: whether a piece is.
        tensors: the pieces themselves, whose memory it keeps.

    Raises:
        InputError: the tensors do not fit together, or none is here.

    Example:
        >>> import torch
        >>> pieces = Pieces([torch.tensor([1, 2]), None, torch.tensor([9])], [0, 2, 5, 6])
        >>> len(pieces), pieces.row_shape
        (6, ())
    """

    def __init__(
        self, tensors: Sequence[Tensor | None], bounds: Sequence[int], *, extra: int = 0, disk_arrays: Collection[int] = ()
    ) -> None:
        here = [tensor for tensor in tensors if tensor is not None]
        if not here or len(bounds) != len(tensors) + 1 or any(low > high for low, high in pairwise(bounds)):
            raise InputError(f"{len(tensors)} pieces, {len(here)} of them here, do not fit the bounds {list(bounds)}")
        self.dtype, self.row_shape = here[0].dtype, tuple(here[0].shape[1:])
        for tensor, (low, high) in zip(tensors, pairwise(bounds), strict=True):
            if tensor is not None and (
                tensor.dtype != self.dtype
                or tuple(tensor.shape) != (high - low + extra, *self.row_shape)
                or not tensor.is_contiguous()
                or tensor.device.type != "cpu"
            ):
                raise InputError(f"a piece for the rows {low} to {high - 1} is {tensor.dtype} of shape {tuple(tensor.shape)}")
        self.row_bytes = here[0][:0].element_size() * int(np.prod(self.row_shape, dtype=np.int64))
        self.extra = extra
        self._disk_arrays = disk_arrays
        self._is_on_disk = np.array([tensor is not None and tensor.data_ptr() in disk_arrays for tensor in tensors], np.bool_)
        self.on_disk = bool(self._is_on_disk.any())
        self.bounds = np.array(bounds, np.int64)
        self.tensors = tuple(tensors)
        self.word = widest_word(self.row_bytes, here)
        self.width = np.uint64(self.row_bytes // self.word.itemsize)  # words of a row
        self.words, self.origins = self._words(bounds)

    def __len__(self) -> int:
        return int(self.bounds[-1])

    def in_one(self) -> NDArray[Any] | None:
        """All rows as one array of words, in memory; None where they lie in several, or are no numbers of 4 or 8 bytes each."""
        is_id = self.width == 1 and self.word.itemsize >= 4
        whole = len(self.tensors) == 1 and not self.on_disk and self.bounds[0] == 0
        return self.words if is_id and whole else None

    def within(self, arrays: Collection[int]) -> bool:
        """Whether all that have rows are among some arrays, which are given by their addresses."""
        return all(tensor.data_ptr() in arrays for tensor in self.tensors if tensor is not None and tensor.numel())

    def find(self, row: int) -> tuple[Tensor | None, int]:
        """The piece that holds a row, and the row's number there; None where there is no such piece."""
        p = int(np.searchsorted(self.bounds, row, side="right")) - 1
        if not 0 <= p < len(self.tensors):
            return None, 0
        return self.tensors[p], row - int(self.bounds[p])

    def addresses(self, rows: NDArray[Any]) -> NDArray[np.uint64]:
        """Where rows lie in memory, those left out that are in no piece on disk."""
        rows = rows[(rows >= self.bounds[0]) & (rows < self.bounds[-1])]
        pieces = np.searchsorted(self.bounds, rows, side="right") - 1
        on_disk = self._is_on_disk[pieces]
        addresses: NDArray[np.uint64] = self.origins[pieces[on_disk]] + rows[on_disk].astype(np.uint64) * self.width
        addresses *= np.uint64(self.word.itemsize)
        addresses += np.uint64(self.words.ctypes.data)
        return addresses

    def followed_by(self, rows: Tensor) -> "Pieces":
        """The same pieces, and one more behind them, which is in memory: ``[n, ...]``, contiguous."""
        bounds = [*self.bounds.tolist(), len(self) + len(rows)]
        return Pieces([*self.tensors, rows], bounds, extra=self.extra, disk_arrays=self._disk_arrays)

    def explain(self, row: int) -> str:
        """Why a row cannot be read."""
        if self.bounds[0] <= row < self.bounds[-1]:
            return "in a piece that is not here"
        return f"out of range: there are {len(self)} rows"

    def _words(self, bounds: Sequence[int]) -> tuple[NDArray[Any], NDArray[np.uint64]]:
        filled = [tensor for tensor in self.tensors if tensor is not None and tensor.numel()]
        first = min((tensor.data_ptr() for tensor in filled), default=0)
        last = max((tensor.data_ptr() + tensor.numel() * tensor.element_size() for tensor in filled), default=0)
        origins = np.zeros(len(self.tensors), np.uint64)
        for p, tensor in enumerate(self.tensors):
            if tensor is None:
                origins[p] = ABSENT
            elif tensor.numel():
                begin = (tensor.data_ptr() - first) // self.word.itemsize - bounds[p] * int(self.width)
                origins[p] = np.uint64(begin % 2**64)
        return words_at(first, (last - first) // self.word.itemsize, self.word, self.tensors), origins


def words_at(address: int, length: int, word: np.dtype[Any], owner: object) -> NDArray[Any]:
    """The memory at an address, as an array of words that keeps the owner of the memory."""
    return np.asarray(_Memory(address, length, word, owner)) if length else np.empty(0, word)


class _Memory:
    """Lets NumPy look at a range of addresses."""

    def __init__(self, address: int, length: int, word: np.dtype[Any], owner: object) -> None:
        self.owner = owner
        self.__array_interface__ = {"data": (address, False), "shape": (length,), "typestr": word.str, "version": 3}


_WORDS = tuple(np.dtype(f"u{width}") for width in (8, 4, 1))


def widest_word(row_bytes: int, tensors: list[Tensor]) -> np.dtype[Any]:
    """The widest word that rows are made of, and that all addresses are multiples of."""
    bits = row_bytes
    for tensor in tensors:
        if tensor.numel():
            bits |= tensor.data_ptr()
    return _WORDS[0 if bits & 7 == 0 else 1 if bits & 3 == 0 else 2]
