"""Arrays that others wrote are refused by the file's name, however they are damaged."""

from pathlib import Path

import numpy as np
import pytest

from halohop.errors import InputError
from halohop.store.foreign import map_foreign


def npy(header: str) -> bytes:
    """A `.npy` file without data."""
    text = header.encode()
    text += b" " * (-(11 + len(text)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x93NUMPY",
        b"\x80\x04K\x01.",
        npy("{'descr': '<f4',, "),
        npy("(" * 5000),
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,)}"),
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999999,)}"),
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2000000000000,)}"),
    ],
)
def test_what_is_not_an_array_is_refused_by_name(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.npy").write_bytes(data)
    with pytest.raises(InputError, match=r"a\.npy cannot be read as one array without pickle"):
        map_foreign(tmp_path / "a.npy")


def test_an_array_of_no_rows_is_one(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.empty((0, 3), np.float32))
    assert map_foreign(tmp_path / "a.npy").shape == (0, 3)


def test_archives_and_single_numbers_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros(3))
    for cut in (None, 30):  # whole, and what is left of one
        (tmp_path / "a.npz").write_bytes((tmp_path / "a.npz").read_bytes()[:cut])
        with pytest.raises(InputError, match=r"a\.npz is an archive of arrays"):
            map_foreign(tmp_path / "a.npz")
    np.save(tmp_path / "b.npy", np.float32(3))
    with pytest.raises(InputError, match=r"b\.npy holds a single number"):
        map_foreign(tmp_path / "b.npy")
