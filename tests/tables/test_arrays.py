"""A partition's arrays of a table: what others map, what a full disk leaves, and that nothing stays behind."""

import mmap
import multiprocessing
import os
import resource
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from halohop.errors import InputError, WriteError
from halohop.ops import gather_rows, paging
from halohop.tables import arrays
from halohop.tables.arrays import CLOSED, MappedRows, TableArrays, make_arrays, map_shared
from halohop.tables.spec import Beginning, Storage, TableSpec

pytestmark = pytest.mark.timeout(30)

NORMAL = Beginning(kind="normal", high=1.0)
ROWS = 5000
needs_memory_files = pytest.mark.skipif(
    not hasattr(os, "memfd_create"), reason="this system has no memory files: nothing is shared"
)


def spec_of(
    shape: tuple[int, ...] = (3,), dtype: str = "float32", storage: Storage = "memory", begin: Beginning | None = None
) -> TableSpec:
    return TableSpec(name="e", key=None, num_rows=2 * ROWS, shape=shape, dtype=dtype, begin=begin or Beginning(), storage=storage)


def made(spec: TableSpec, folder: Path, num_rows: int = ROWS) -> TableArrays:
    return make_arrays(spec, num_rows, folder=folder)


def mapped(arrays: TableArrays, spec: TableSpec, num_rows: int = ROWS) -> MappedRows:
    shared = arrays.shared(part=0)
    assert shared is not None
    found = map_shared(shared, spec, num_rows)
    assert found is not None
    return found


@pytest.mark.parametrize("storage", ["memory", "disk"])
def test_a_table_that_the_process_may_not_map_is_named(storage: Storage, tmp_path: Path) -> None:
    before, limits = len([*Path("/proc/self/fd").iterdir()]), resource.getrlimit(resource.RLIMIT_AS)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE
    resource.setrlimit(resource.RLIMIT_AS, (taken + (64 << 20), limits[1]))
    try:
        with pytest.raises(InputError, match=r"cannot map the \d+ bytes of table 'e', 20971520 rows: .*ulimit -v"):
            made(spec_of(storage=storage), tmp_path, num_rows=20 << 20)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
    assert len([*Path("/proc/self/fd").iterdir()]) == before


@pytest.mark.parametrize("storage", ["memory", "disk"])
@pytest.mark.parametrize("begin", [None, NORMAL], ids=["zeros", "normal"])
@pytest.mark.parametrize(
    ("shape", "dtype"), [((3,), "float32"), ((), "int64"), ((2, 5), "bfloat16"), ((7,), "bool"), ((1,), "float64")]
)
@needs_memory_files
def test_others_see_what_the_owner_writes_and_do_not_write_to_it(
    storage: Storage, begin: Beginning | None, shape: tuple[int, ...], dtype: str, tmp_path: Path
) -> None:
    spec = spec_of(shape, dtype, storage, begin)
    owned = made(spec, tmp_path)
    assert owned.rows.shape == (ROWS, *shape)
    assert owned.rows.dtype == spec.torch_dtype
    assert not owned.rows.any()
    assert (owned.touched is None) == (begin is None)
    seen = mapped(owned, spec)
    owned.rows[[0, 77, ROWS - 1]] = torch.ones(shape, dtype=spec.torch_dtype)
    owned.counts[1] = 5
    assert seen.rows.equal(owned.rows)
    assert seen.rows[77].all()
    assert seen.counts.tolist() == [0, 5]
    if begin is not None:
        assert owned.touched is not None
        assert seen.touched is not None
        owned.touched[ROWS - 1] = 1
        assert seen.touched.equal(owned.touched)
        assert int(seen.touched.sum()) == 1
    seen.rows[3] = torch.ones(shape, dtype=spec.torch_dtype)
    assert not owned.rows[3].any()
    owned.close()


@given(num_rows=st.integers(0, 9000), width=st.integers(1, 5), normal=st.booleans())
def test_counts_touched_and_rows_share_no_byte(num_rows: int, width: int, normal: bool) -> None:
    spec = spec_of((width,), begin=NORMAL if normal else None)
    owned = make_arrays(spec, num_rows, folder=None)
    owned.counts.fill_(-1)
    if owned.touched is not None:
        assert not owned.touched.any()
        owned.touched.fill_(255)
    assert not owned.rows.any()
    assert owned.rows.shape == (num_rows, width)
    owned.rows.fill_(0)
    assert owned.counts.tolist() == [-1, -1]
    assert owned.touched is None or owned.touched.eq(255).all()
    owned.close()


@pytest.mark.parametrize("storage", ["memory", "disk"])
def test_a_state_begins_as_it_is_asked_to_and_is_read_like_rows(storage: Storage, tmp_path: Path) -> None:
    owned = made(spec_of(storage=storage), tmp_path)
    zeros = owned.add_state("m", (3,), torch.float32, 0.0)
    filled = owned.add_state("sum", (), torch.float64, 0.1)
    assert zeros.shape == (ROWS, 3)
    assert not zeros.any()
    assert filled.dtype == torch.float64
    assert filled.eq(0.1).all()
    assert owned.states == {"m": zeros, "sum": filled}
    assert owned.num_bytes == ROWS * (12 + 12 + 8)
    owned.rows.copy_(torch.arange(3 * ROWS).view(ROWS, 3))
    lid = torch.tensor([4999, 0, 17, 17])
    assert gather_rows(owned.source(), lid).equal(owned.rows[lid])
    assert gather_rows(owned.source("sum"), lid).tolist() == [0.1] * 4
    owned.close()


@pytest.mark.parametrize("storage", ["memory", "disk"])
def test_rows_and_state_are_changed_a_part_at_a_time_where_they_lie_on_disk(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owned = made(spec_of(storage=storage), tmp_path)
    owned.add_state("m", (3,), torch.float32, 0.0)
    monkeypatch.setattr(paging, "_WINDOW", 6 * mmap.PAGESIZE)  # three rows, and three of the state
    lid = torch.tensor([0, 5, 9, 4999, 17, 4, 3])
    parts = [lid[part].tolist() for part in owned.windows(lid)]
    assert parts == ([[0, 5, 9], [4999, 17, 4], [3]] if storage == "disk" else [lid.tolist()])
    owned.close()


@needs_memory_files
def test_a_table_that_is_gone_says_so_to_those_who_have_mapped_it_and_cannot_be_mapped_any_more(tmp_path: Path) -> None:
    spec = spec_of()
    owned = made(spec, tmp_path)
    seen, shared = mapped(owned, spec), owned.shared(0)
    assert shared is not None
    owned.rows.fill_(2)
    owned.close()
    assert seen.counts[0] == CLOSED
    assert seen.rows.eq(2).all()
    assert owned.shared(0) is None
    assert map_shared(shared, spec, ROWS) is None


@needs_memory_files
def test_a_file_of_the_same_number_that_is_another_is_not_mapped(tmp_path: Path) -> None:
    """Descriptors and process ids are used again."""
    spec = spec_of()
    owned = made(spec, tmp_path)
    shared = owned.shared(0)
    owned.close()
    assert shared is not None
    other = made(spec, tmp_path)
    again = other.shared(0)
    assert again is not None
    assert again.path == shared.path, "the descriptor was to be used again"
    assert map_shared(shared, spec, ROWS) is None
    assert map_shared(again, spec, ROWS) is not None
    assert map_shared(again, spec, ROWS + 1) is None
    other.close()


@needs_memory_files
def test_another_system_or_namespace_of_processes_maps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_of()
    owned = made(spec, tmp_path)
    shared = owned.shared(0)
    assert shared is not None
    monkeypatch.setattr(arrays, "_system", lambda: f"{shared.system} other")
    assert map_shared(shared, spec, ROWS) is None
    owned.close()


def own(storage: Storage, folder: Path, line: Connection) -> None:
    spec = spec_of(storage=storage)
    owned = made(spec, folder)
    owned.rows.fill_(7)
    owned.add_state("sum", (), torch.float32, 1.0)
    line.send(owned.shared(0))
    line.recv()


@pytest.mark.parametrize("storage", ["memory", "disk"])
@needs_memory_files
def test_another_process_maps_the_rows_and_a_killed_owner_leaves_nothing(storage: Storage, tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    process = context.Process(target=own, args=(storage, tmp_path, there))
    process.start()
    there.close()
    shared = here.recv()
    seen = map_shared(shared, spec_of(storage=storage), ROWS)
    assert seen is not None
    assert seen.rows.eq(7).all()
    assert list(tmp_path.iterdir()) == []
    process.kill()
    process.join(10)
    assert process.exitcode == -signal.SIGKILL
    assert seen.rows.eq(7).all(), "what is mapped stays"
    assert map_shared(shared, spec_of(storage=storage), ROWS) is None
    assert list(tmp_path.iterdir()) == []
    here.close()


def room_of(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def test_a_table_larger_than_the_disk_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    spec, num_rows = spec_of(storage="disk"), room_of(tmp_path) // 12 + (1 << 30)
    with pytest.raises(WriteError, match=rf"table 'e', {num_rows} rows, takes .* below {tmp_path}, where .* are free; make room"):
        make_arrays(spec, num_rows, folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_is_full_is_an_error_and_leaves_the_table_as_it_was(
    tmp_path: Path, no_more_than: Callable[[int], AbstractContextManager[None]]
) -> None:
    owned = made(spec_of(storage="disk"), tmp_path)
    owned.rows.fill_(1)
    descriptors = len(list(Path("/dev/fd").iterdir()))
    with no_more_than(20_000):
        with pytest.raises(
            WriteError, match=r"table 'e', state 'm' of 5000 rows, takes 58.6 KiB below .*; make room there, give"
        ):
            owned.add_state("m", (3,), torch.float32, 0.0)
        with pytest.raises(WriteError, match="table 'e', 5000 rows, takes"):
            made(spec_of(storage="disk"), tmp_path)
    assert owned.states == {}
    assert owned.rows.eq(1).all()
    assert len(list(Path("/dev/fd").iterdir())) == descriptors
    owned.close()


def test_a_table_on_disk_has_all_of_its_room(tmp_path: Path) -> None:
    """Else a write to its memory, when the disk is full, ends the process."""
    owned = made(spec_of((1000,), storage="disk"), tmp_path)
    shared = owned.shared(0)
    assert shared is None or Path(shared.path).stat().st_blocks * 512 >= ROWS * 4000
    owned.close()


@needs_memory_files
def test_rows_that_nobody_wrote_take_no_memory(tmp_path: Path) -> None:
    owned = made(spec_of((1000,)), tmp_path)
    shared = owned.shared(0)
    assert shared is not None
    owned.rows[10:20] = 1
    assert Path(shared.path).stat().st_blocks * 512 < 1 << 20
    owned.close()


def test_storage_without_a_folder_and_a_table_larger_than_memory_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="table 'e' is to lie on disk, and its owner has no folder for tables; give it one"):
        make_arrays(spec_of(storage="disk"), ROWS, folder=None)
    with pytest.raises(InputError, match=r"table 'e', .* rows, takes .* of memory; use storage='disk'"):
        make_arrays(spec_of(), 1 << 50, folder=tmp_path)
    (tmp_path / "missing").touch()
    with pytest.raises(WriteError, match="missing"):
        make_arrays(spec_of(storage="disk"), ROWS, folder=tmp_path / "missing")
