"""The files of a data set while it is built: each is filled by rows, by several steps; its checksums are joined at the end."""

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import torch
from torch import Tensor

from halohop.store.checksums import Extent, ExtentSums, FileRecord, joined
from halohop.store.npy import ArrayFile, head_of, record_of

_MOST_OPEN = 256  # files: processes may open 1,024 by default, and several steps run at once

Extents = dict[str, list[Extent]]
"""What of some files was written, by path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArraySpec:
    """An array of a data set.

    Args:
        path: inside the folder.
        dtype, shape: of the whole.
        zeros: so many rows at the beginning are zeros that are not written.
    """

    path: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    zeros: int = 0

    def record(self, extents: Iterable[Extent]) -> FileRecord:
        """Its record, when all other rows were written."""
        head = ExtentSums()
        head.add(0, head_of(self.dtype, self.shape) + bytes(torch.empty((self.zeros, *self.shape[1:]), dtype=self.dtype).nbytes))
        size = record_of(self.dtype, self.shape, ()).bytes
        return record_of(self.dtype, self.shape, joined((*head.extents, *extents), size))


class Filler:
    """Writes rows of arrays; a context manager, of one thread.

    Args:
        folder: of the data set.
        dirty_bytes: how much may wait in memory for the disk; None leaves that to the kernel, and syncs nothing.

    Raises:
        WriteError: a file cannot be written, at any time; names it.
    """

    def __init__(self, folder: Path, dirty_bytes: int | None = None) -> None:
        self._folder, self._dirty_bytes, self._dirty = folder, dirty_bytes, 0
        self._files: dict[str, ArrayFile] = {}
        self._sums: dict[str, ExtentSums] = {}

    def provide(self, array: ArraySpec) -> None:
        """Makes the array's file, if it is not there."""
        if array.path not in self._files:
            if len(self._files) == _MOST_OPEN:
                self._close()
            self._files[array.path] = ArrayFile.provided(self._folder / array.path, array.dtype, array.shape)
            self._sums.setdefault(array.path, ExtentSums())

    def write(self, array: ArraySpec, first: int, rows: Tensor) -> None:
        """Writes consecutive rows; `first` is where they begin."""
        self.provide(array)
        begin, data = self._files[array.path].write(first, rows)
        self._sums[array.path].add(begin, data)
        self._dirty += len(data)
        if self._dirty_bytes is not None and self._dirty > self._dirty_bytes:
            self._dirty = 0
            for file in self._files.values():
                file.drop()

    @property
    def extents(self) -> Extents:
        """What was written."""
        return {path: sums.extents for path, sums in self._sums.items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._close(sync=kind is None)

    def _close(self, *, sync: bool = True) -> None:
        files, self._files = list(self._files.values()), {}
        with ExitStack() as stack:
            for file in files:
                stack.enter_context(file)
            for file in files if sync and self._dirty_bytes is not None else ():
                file.drop()
                file.sync()
