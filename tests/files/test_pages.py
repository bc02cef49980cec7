"""Memory of files: found, and given back without losing what was written to a private mapping."""

import mmap
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from halohop.files.pages import give_back, is_mapped
from halohop.partitioning.building import columns
from halohop.partitioning.building.columns import Given

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="mappings are listed in /proc")
PAGE = mmap.PAGESIZE


def test_files_are_told_from_heaps(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(10 * PAGE))
    mapped = np.load(tmp_path / "a.npy", mmap_mode="c", allow_pickle=False)
    assert is_mapped(mapped.ctypes.data)
    assert is_mapped(mapped[5 * PAGE :].ctypes.data)
    assert not is_mapped(np.arange(10 * PAGE).ctypes.data)
    assert not is_mapped(0)


def test_what_is_given_back_is_still_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "_SMALL", 0)
    np.save(tmp_path / "a.npy", np.arange(10 * PAGE))
    mapped = np.load(tmp_path / "a.npy", mmap_mode="c", allow_pickle=False)
    mapped[3 * PAGE] = -1
    column = Given.of(torch.from_numpy(mapped))
    assert column.mapped
    assert mapped.sum() != 0  # reads it all
    before = resident(mapped)
    column.release(0, len(mapped))
    assert resident(mapped) < before
    expected = np.arange(10 * PAGE)
    expected[3 * PAGE] = -1
    assert (mapped == expected).all()
    give_back(mapped.ctypes.data + 1, 3)  # less than a page is left alone


def resident(array: np.ndarray) -> int:
    """Kilobytes of the mapping of an array that are in memory."""
    lines = Path("/proc/self/smaps").read_text().splitlines()
    for number, line in enumerate(lines):
        bounds = line.split()[0].split("-")
        if len(bounds) == 2 and int(bounds[0], 16) <= array.ctypes.data < int(bounds[1], 16):
            return next(int(later.split()[1]) for later in lines[number:] if later.startswith("Rss:"))
    raise AssertionError("no such mapping")
