"""Arrays that others wrote."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halohop.errors import InputError


def map_foreign(file: Path) -> NDArray[Any]:
    """The array in a `.npy` file that others wrote; pages that are not written to stay the file's.

    Raises:
        InputError: there is no such file, or it does not hold one array of rows that can be read without pickle.
    """
    if not file.is_file():
        raise InputError(f"there is no file {file}; give the path of a .npy file")
    with file.open("rb") as stream:
        archive = stream.read(2) == b"PK"
    if archive:
        raise InputError(f"{file} is an archive of arrays; save the one that you need with numpy.save")
    try:
        with np.errstate(over="ignore"):  # of a shape that no file has
            array: NDArray[Any] = np.load(file, mmap_mode="c", allow_pickle=False)
    except Exception as error:  # whatever NumPy and the modules under it make of a damaged file
        raise InputError(f"{file} cannot be read as one array without pickle: {error}") from error
    if array.ndim == 0:
        raise InputError(f"{file} holds a single number, expected a row for each node or edge")
    return array
