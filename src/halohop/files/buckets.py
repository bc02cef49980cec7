"""Records dealt to files, each of which is read back as a whole: how more records than fit into memory are put in order."""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from halohop.files.aside import writing

MOST_BUCKETS = 256
"""About how many files one process should have open for this."""


class BucketFiles:
    """Files of records of one dtype and shape.

    Args:
        folder: where they are made.
        count: how many; all are open while records are dealt.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     buckets = BucketFiles(Path(folder), 2)
        ...     with buckets.writer() as deal:
        ...         deal(np.array([[1, 2], [5, 6], [7, 8]]), [0, 1, 3])
        ...         deal(np.array([[3, 4]]), [0, 1, 1])
        ...     [buckets.take(number, np.dtype(np.int64)).tolist() for number in range(2)]
        [[1, 2, 3, 4], [5, 6, 7, 8]]
    """

    def __init__(self, folder: Path, count: int) -> None:
        self._files = [folder / f"bucket-{number}" for number in range(count)]

    @contextmanager
    def writer(self) -> "Iterator[_Writer]":
        """What appends records: those of bucket k are ``records[starts[k]:starts[k + 1]]``.

        Raises:
            WriteError: a file cannot be written; names it.
        """
        with ExitStack() as undo:
            descriptors = []
            for file in self._files:
                with writing(file):  # not buffered: a full disk is seen where the records are written
                    descriptors.append(undo.enter_context(file.open("wb", buffering=0)).fileno())
            yield _Writer(self._files, descriptors)

    def take(self, number: int, dtype: "np.dtype[np.generic]") -> NDArray[np.generic]:
        """All entries of a bucket, in the order in which they came; its file is removed."""
        entries = np.fromfile(self._files[number], dtype)
        with writing(self._files[number]):
            self._files[number].unlink()
        return entries


class _Writer:
    """Appends records that are grouped by bucket."""

    def __init__(self, files: Sequence[Path], descriptors: Sequence[int]) -> None:
        self._files, self._descriptors = files, descriptors

    def __call__(self, records: NDArray[np.generic], starts: Sequence[int]) -> None:
        for file, descriptor, (begin, end) in zip(self._files, self._descriptors, pairwise(starts), strict=True):
            data = np.ascontiguousarray(records[begin:end]).reshape(-1).view(np.uint8).data
            with writing(file):
                while data:
                    data = data[os.write(descriptor, data) :]
