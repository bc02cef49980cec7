"""Rows of arrays that do not fit into memory: the same rows, whose pages are asked for first."""

import ctypes
import mmap
import os
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from halohop import ops
from halohop.errors import IdError
from halohop.files.mapping import map_privately, read_by_rows
from halohop.ops import Pieces, cpu_paging, paging, reference
from tests.support.deadlines import within

PAGE = mmap.PAGESIZE


def resident_pages(address: int, size: int) -> list[int]:
    """The pages of a mapping that are in memory."""
    found = (ctypes.c_ubyte * -(-size // PAGE))()
    assert ctypes.CDLL(None).mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), found) == 0
    return [page for page, state in enumerate(found) if state & 1]


def wait_for_pages(array: torch.Tensor, count: int) -> set[int]:
    """The pages of a mapped array that are in memory, as soon as there are so many."""
    end = time.monotonic() + within(5.0)
    while len(found := resident_pages(array.data_ptr(), array.nbytes)) < count and time.monotonic() < end:
        os.sched_yield()
    return set(found)


def forget(file: Path) -> None:
    """Drops the pages of a file from memory, if it is on a disk."""
    with file.open("rb") as stream:
        os.fsync(stream.fileno())
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@pytest.fixture
def mapped(tmp_path: Path) -> torch.Tensor:
    """A file of 256 pages of which none is in memory, as numbers."""
    file = tmp_path / "numbers"
    file.write_bytes(np.arange(256 * PAGE // 8).tobytes())
    forget(file)
    with file.open("rb") as stream:
        memory = map_privately(stream.fileno(), 256 * PAGE, file)
    read_by_rows(memory.ctypes.data, memory.nbytes)
    if resident_pages(memory.ctypes.data, memory.nbytes):
        pytest.skip(f"the file system of {tmp_path} keeps files in memory")
    return torch.from_numpy(memory).view(torch.int64)


def on_disk(tensors: list[torch.Tensor | None], bounds: list[int], *, extra: int = 0) -> Pieces:
    addresses = {tensor.data_ptr() for tensor in tensors if tensor is not None}
    return Pieces(tensors, bounds, extra=extra, disk_arrays=addresses)


def test_only_the_pages_of_the_rows_are_read(mapped):
    rows = mapped[: 1300 * 96].view(-1, 96)  # one in five crosses the end of a page
    pieces = on_disk([rows], [0, len(rows)])
    wanted = torch.tensor([0, 5, 300, 90, 5, 89])
    expected = {place * 8 // PAGE for row in wanted.tolist() for place in (row * 96, row * 96 + 95)}
    asked = iter(paging.windows(pieces, wanted.numpy()))
    next(asked)
    assert wait_for_pages(mapped, len(expected)) == expected
    assert torch.equal(ops.gather_rows(pieces, wanted), torch.arange(1300 * 96).view(-1, 96)[wanted])
    assert wait_for_pages(mapped, len(expected)) == expected


def test_a_part_and_the_next_are_asked_for_before_it_is_read(mapped, monkeypatch):
    monkeypatch.setattr(paging, "_WINDOW", 10 * PAGE)
    pieces = on_disk([mapped.view(256, -1)], [0, 256])
    rows = np.arange(0, 200, 2)
    seen = []
    for part in paging.windows(pieces, rows):
        seen.append((part.start, part.stop, len(wait_for_pages(mapped, min(part.stop + 10, 100)))))
    assert seen == [(begin, begin + 10, min(begin + 20, 100)) for begin in range(0, 100, 10)]


@given(
    st.lists(st.integers(0, 300), min_size=1, max_size=9),
    st.sampled_from([(), (3,), (0,), (1500,)]),
    st.integers(0, 500),
    st.sampled_from([1, 7000, 32 << 20]),
)
def test_the_rows_are_the_same_however_few_are_asked_for_at_once(sizes, shape, count, window):
    bounds = np.cumsum([0, *sizes]).tolist()
    whole = torch.rand(bounds[-1], *shape)
    pieces = on_disk([whole[low:high].clone() for low, high in pairwise(bounds)], bounds)
    rows = torch.randint(max(len(whole), 1), (count if len(whole) else 0,))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paging, "_WINDOW", window)
        got = ops.gather_rows(pieces, rows)
    assert torch.equal(got, reference.gather_rows(whole, rows))


def test_rows_that_are_not_here_are_refused_with_their_position(monkeypatch):
    monkeypatch.setattr(paging, "_WINDOW", 1)
    pieces = on_disk([torch.arange(3), None, torch.arange(2)], [0, 3, 5, 7])
    assert ops.gather_rows(pieces, torch.tensor([0, 6, 2])).tolist() == [0, 1, 2]
    with pytest.raises(IdError, match="row 4 at position 2 is in a piece that is not here"):
        ops.gather_rows(pieces, torch.tensor([0, 1, 4]))
    with pytest.raises(IdError, match="row -1 at position 1 is out of range"):
        ops.gather_rows(pieces, torch.tensor([0, -1]))


@pytest.mark.parametrize("fanout", [-1, 2])
def test_lists_on_disk(monkeypatch, fanout):
    monkeypatch.setattr(paging, "_WINDOW", 1)
    degrees = torch.arange(40) % 7
    indptr = torch.cat([torch.zeros(1, dtype=torch.int64), degrees.cumsum(0)])
    bounds = [0, 11, 11, 40]
    pieces = on_disk([indptr[low : high + 1] - indptr[low] for low, high in pairwise(bounds)], bounds, extra=1)
    rows = torch.randint(40, (300,))
    whole = ops.sample_neighbors(indptr, rows, rows, fanout, 5)
    got = ops.sample_neighbors(pieces, rows, rows, fanout, 5, edge_bounds=indptr[bounds].tolist())
    assert torch.equal(got[0], whole[0])
    assert torch.equal(got[1], whole[1])
    with pytest.raises(IdError, match="rows holds 40, which is out of range"):
        ops.sample_neighbors(pieces, torch.tensor([3, 40]), torch.tensor([3, 40]), fanout, 5, edge_bounds=indptr[bounds].tolist())


@given(st.lists(st.integers(0, 40 * PAGE)), st.integers(1, 3 * PAGE))
def test_pages_side_by_side_are_asked_for_at_once(places, size):
    memory = torch.empty(64 * PAGE, dtype=torch.uint8)
    addresses = np.sort(np.array(places, np.uint64)) + np.uint64(memory.data_ptr())
    pages = sorted({page for at in addresses.tolist() for page in range(at // PAGE, (at + size - 1) // PAGE + 1)})
    runs = sum(1 for before, page in pairwise([-2, *pages]) if page > before + 1)
    assert cpu_paging.will_need(addresses, np.uint64(size)) == runs
