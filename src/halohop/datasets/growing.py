"""A `.npy` file that grows by rows, for columns whose length is known when they have been read."""

import io
import math
import os
from pathlib import Path
from typing import IO

import numpy as np
import torch
from torch import Tensor

from halohop.files.mapping import map_privately
from halohop.files.reading import open_regular
from halohop.linux import forget_pages
from halohop.store.npy import bytes_of, numpy_name

_BEHIND = 64 << 20  # bytes after which what was written goes to the disk, so that it does not fill the page cache


class WiderError(Exception):
    """A chunk does not fit the dtype of the rows before it; `dtype` holds both."""

    def __init__(self, name: str, dtype: torch.dtype) -> None:
        super().__init__(f"{name}: {dtype}")
        self.name, self.dtype = name, dtype


class GrowingArray:
    """An array that is written chunk by chunk.

    Args:
        stream: a new file, written by nothing else.
        name: of the column.
        dtype: of the array; None takes that of the first rows.
    """

    def __init__(self, stream: IO[bytes], name: str, dtype: torch.dtype | None = None) -> None:
        self._stream, self._name = stream, name
        self._given = dtype
        self._first: Tensor | None = None
        self._num_rows = 0
        self._behind = 0

    @property
    def dtype(self) -> torch.dtype:
        assert self._first is not None, "a source yields at least one chunk"
        return self._given or self._first.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        assert self._first is not None, "a source yields at least one chunk"
        return self._num_rows, *self._first.shape[1:]

    def append(self, rows: Tensor) -> int:
        """Writes the next rows, and returns their bytes. Chunks without rows do not count, where there are others.

        Raises:
            WiderError: they do not fit the dtype of the rows before them.
        """
        if self._first is None or (len(rows) and not self._num_rows):
            self._first = rows[:0]
            if len(rows):
                self._stream.write(_header(self.dtype, self.shape))
        if not len(rows):
            return 0
        assert rows.shape[1:] == self.shape[1:], f"{self._name}: rows of {tuple(rows.shape[1:])}, not {self.shape[1:]}"
        wide = torch.promote_types(self.dtype, rows.dtype)
        if wide != self.dtype:
            raise WiderError(self._name, wide)
        self._stream.write(bytes_of(rows.detach().to(wide).contiguous()))
        num_bytes = rows.numel() * wide.itemsize
        self._num_rows += len(rows)
        self._behind += num_bytes
        if self._behind >= _BEHIND:
            self._stream.flush()
            _release(self._stream.fileno())
            self._behind = 0
        return num_bytes

    def finish(self) -> None:
        """Writes how many rows there are, into the beginning of the file."""
        if self._num_rows:
            self._stream.seek(0)
        self._stream.write(_header(self.dtype, self.shape))
        self._stream.seek(0, io.SEEK_END)
        self._stream.flush()
        _release(self._stream.fileno())


def map_grown(file: Path, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor | None:
    """The array of a finished file as a tensor over the file's pages; None if it is not there in full."""
    header = _header(dtype, shape)
    size = len(header) + dtype.itemsize * math.prod(shape)
    try:
        stream = open_regular(file)
    except FileNotFoundError:
        return None
    with stream:
        if os.fstat(stream.fileno()).st_size != size or stream.read(len(header)) != header:
            return None
        data = map_privately(stream.fileno(), size, file)[len(header) :]
    return torch.from_numpy(data).view(dtype).view(shape)


def _header(dtype: torch.dtype, shape: tuple[int, ...]) -> bytes:
    """The beginning of a `.npy` file; NumPy makes it as long for any number of rows."""
    text = io.BytesIO()
    descr = np.lib.format.dtype_to_descr(np.dtype(numpy_name(dtype)))
    np.lib.format.write_array_header_1_0(text, {"descr": descr, "fortran_order": False, "shape": shape})
    return text.getvalue()


def _release(descriptor: int) -> None:
    """Has what was written on the disk, and out of the page cache, which counts as memory in a control group."""
    os.fsync(descriptor)
    forget_pages(descriptor)
