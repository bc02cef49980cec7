"""Named arrays of an npz file, read without pickle; absence and damage become errors that name file and array."""

import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from halohop.errors import IncompleteDatasetError, InputError


class Arrays:
    """Arrays by name.

    Args:
        path: the npz file.
        wanted: which arrays to read, by name; the others may hold what cannot be read without pickle.

    Raises:
        IncompleteDatasetError: there is no such file.
        InputError: it is no npz file, or an array cannot be read.

    Example:
        >>> np.savez("some.npz", a=np.arange(3))
        >>> Arrays(Path("some.npz"))["a"]
        array([0, 1, 2])
    """

    def __init__(self, path: Path, wanted: Callable[[str], bool] = lambda name: True) -> None:
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
                        self._arrays[name] = archive[name]
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
