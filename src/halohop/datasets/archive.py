"""Named arrays of an npz file, read without pickle; absence and damage become errors that name file and array."""

import math
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from halohop.datasets.casting import nearest
from halohop.datasets.staging import Staging
from halohop.errors import IncompleteDatasetError, InputError


class Arrays:
    """Arrays by name.

    Args:
        path: the npz file.
        wanted: which arrays to read, by name; the others may hold what cannot be read without pickle.
        staging: where they are collected; by default in memory.

    Raises:
        IncompleteDatasetError: there is no such file.
        InputError: it is no npz file, or an array cannot be read.

    Example:
        >>> np.savez("some.npz", a=np.arange(3))
        >>> Arrays(Path("some.npz"))["a"]
        array([0, 1, 2])
    """

    def __init__(self, path: Path, wanted: Callable[[str], bool] = lambda name: True, staging: Staging | None = None) -> None:
        if not path.is_file():
            raise IncompleteDatasetError(f"there is no file {path}")
        self.path = path
        self._arrays: dict[str, np.ndarray] = {}
        name = ""
        with path.open("rb") as file:
            try:
                archive = np.load(file, allow_pickle=False)
                if isinstance(archive, np.ndarray):
                    raise InputError(f"{path} holds a single array, not the named arrays of an npz file")
                with archive:
                    for name in filter(wanted, archive.files):
                        staged = _staged(archive, path, name, staging) if staging and staging.folder else None
                        self._arrays[name] = archive[name] if staged is None else staged
            except InputError:
                raise
            except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
                what = f"array {name!r} of {path} cannot be read" if name else f"{path} is not an npz file"
                raise InputError(f"{what}: {error}") from error

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._arrays:
            raise InputError(f"{self.path} has no array {name!r}; it has {sorted(self._arrays)}")
        return self._arrays[name]


def _staged(archive: Any, path: Path, name: str, staging: Staging) -> np.ndarray | None:
    """An array of an archive, mapped; None of one that torch has no dtype for, which is no large one."""
    member = f"{name}.npy" if f"{name}.npy" in archive.zip.namelist() else name
    with archive.zip.open(member) as stream:
        header = _header(stream)
    if header is None:
        return None
    shape, in_columns, dtype = header

    def chunks() -> Iterator[Tensor]:
        with archive.zip.open(member) as stream:
            _header(stream)
            for part in staging.slices(math.prod(shape), dtype.itemsize):
                values = np.frombuffer(stream.read((part.stop - part.start) * dtype.itemsize), dtype)
                if len(values) < part.stop - part.start:
                    raise EOFError(f"it ends before its {math.prod(shape)} entries")
                yield torch.from_numpy(values.copy())

    values = staging.column(f"{path.stem}.{name}", chunks).numpy()
    return values.reshape(shape[::-1]).T if in_columns else values.reshape(shape)


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]] | None:
    """Shape, whether columns are one behind the other, and dtype; None where torch has no such dtype."""
    version = np.lib.format.read_magic(stream)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        return None
    shape, in_columns, dtype = readers[version](stream)
    try:
        return (shape, in_columns, dtype) if nearest(dtype) == dtype else None
    except TypeError:
        return None
