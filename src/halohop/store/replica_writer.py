"""Writes what a partition has copied of others: piece by piece into a folder that appears when it is complete."""

from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor

from halohop.files.aside import writing
from halohop.store.checksums import FileRecord
from halohop.store.manifest import part_folder
from halohop.store.npy import ArrayFile, record_of, sum_array
from halohop.store.replica import replica_file


class ReplicaWriter:
    """Takes the arrays of one partition's copies.

    Args:
        folder: of this partition's copies, still unfinished.
        part: the partition's number.
        name: of the copies.

    Attributes:
        files: what was written, by its path in the data set.
    """

    def __init__(self, folder: Path, part: int, name: str) -> None:
        self._folder, self._part, self._name = folder, part, name
        self.files: dict[str, FileRecord] = {}

    def add(self, original: str, dtype: torch.dtype, shape: tuple[int, ...], pieces: Iterable[Tensor]) -> None:
        """Writes an array.

        Args:
            original: the file that has this of the partition's own nodes.
            dtype, shape: of the whole array.
            pieces: its rows from the first to the last, some at a time.

        Raises:
            WriteError: it cannot be written; names it.
        """
        file = self._folder / original.removeprefix(f"{part_folder(self._part)}/")
        with writing(file):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
        ArrayFile.reserve(file, dtype, shape)
        written = 0
        with ArrayFile(file, dtype, shape) as array:
            for piece in pieces:
                array.write(written, piece)
                written += len(piece)
            array.sync()
        assert written == shape[0], f"{written} rows of {shape[0]} were given for {file}"
        self.files[replica_file(self._name, original)] = record_of(dtype, shape, sum_array(file))

    def add_whole(self, original: str, array: Tensor) -> None:
        """Writes an array that is in memory."""
        self.add(original, array.dtype, tuple(array.shape), [array])

    @property
    def num_bytes(self) -> int:
        """Of all files."""
        return sum(record.bytes for record in self.files.values())
