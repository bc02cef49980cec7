"""A verification that was stopped goes on, and believes nothing of a file that was touched since."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from halohop.errors import CorruptDatasetError, DatasetError
from halohop.store import checksums, npy, verify
from halohop.store.checksums import FileRecord
from halohop.store.verify import verify_files

JOURNAL = "verifying"


class Stopped(BaseException):
    """As Ctrl-C."""


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, FileRecord]:
    """Three files of four chunks, which count as written long ago."""
    monkeypatch.setattr(checksums, "CHUNK", 256)
    monkeypatch.setattr(verify, "_SETTLED_S", -1.0)
    return {f"{name}.npy": npy.write_array(tmp_path / f"{name}.npy", torch.arange(100) + at) for at, name in enumerate("abc")}


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where the chunks that are read begin."""
    found: list[int] = []

    def counted(descriptor: int, begin: int, end: int) -> int:
        found.append(begin)
        return checksums.sum_range(descriptor, begin, end)

    monkeypatch.setattr(verify, "sum_range", counted)
    return found


def stopping(at: int) -> Callable[[int], None]:
    right = 0

    def on_bytes(count: int) -> None:
        nonlocal right
        right += count
        if right >= at:
            raise Stopped

    return on_bytes


def stop_at(folder: Path, records: dict[str, FileRecord], at: int) -> None:
    with pytest.raises(Stopped):
        verify_files(folder, records, journal=folder / JOURNAL, on_bytes=stopping(at))


def test_what_was_read_is_not_read_again(tmp_path: Path, records: dict[str, FileRecord], read: list[int]) -> None:
    stop_at(tmp_path, records, 1000)
    first = len(read)
    assert 0 < first <= 12
    counts: list[int] = []
    verify_files(tmp_path, records, journal=tmp_path / JOURNAL, on_bytes=counts.append)
    assert len(read) == 12
    assert sum(counts) == sum(record.bytes for record in records.values())
    assert not (tmp_path / JOURNAL).exists()
    verify_files(tmp_path, records, journal=tmp_path / JOURNAL)  # one that was finished begins anew: disks forget
    assert len(read) == 24


def in_place(file: Path) -> None:
    before = file.stat()
    with file.open("r+b") as stream:
        stream.seek(200)
        stream.write(b"?")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def another_file(file: Path) -> None:
    before, data = file.stat(), bytearray(file.read_bytes())
    data[200] ^= 1
    other = file.with_suffix(".other")
    other.write_bytes(data)
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(file)


@pytest.mark.parametrize("damage", [in_place, another_file])
def test_files_that_were_changed_meanwhile_are_read_again(
    tmp_path: Path, records: dict[str, FileRecord], damage: Callable[[Path], None]
) -> None:
    """Of the same size and time of change as far as a user can set it."""
    stop_at(tmp_path, records, 3 * 928)
    assert (tmp_path / JOURNAL).exists()
    damage(tmp_path / "a.npy")
    with pytest.raises(CorruptDatasetError, match=r"a\.npy has checksum \w+ in the bytes 0 to 256"):
        verify_files(tmp_path, records, journal=tmp_path / JOURNAL)


def test_another_manifest_is_another_verification(tmp_path: Path, records: dict[str, FileRecord]) -> None:
    stop_at(tmp_path, records, 3 * 928)
    with pytest.raises(CorruptDatasetError, match="the manifest says"):
        verify_files(tmp_path, records | {"a.npy": records["b.npy"]}, journal=tmp_path / JOURNAL)


def test_what_was_written_just_now_is_not_noted(
    tmp_path: Path, records: dict[str, FileRecord], read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may change once more within one tick of the clock that files are stamped by."""
    monkeypatch.setattr(verify, "_SETTLED_S", 60.0)
    stop_at(tmp_path, records, 3 * 928)
    verify_files(tmp_path, records, journal=tmp_path / JOURNAL)
    assert len(read) == 24


def test_a_journal_that_is_damaged_or_cannot_be_written_only_costs_time(
    tmp_path: Path, records: dict[str, FileRecord], read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / JOURNAL).write_bytes(b'{"file": "a\n[[[[\n\xff\n{}')
    verify_files(tmp_path, records, journal=tmp_path / JOURNAL)
    (tmp_path / JOURNAL).mkdir()
    verify_files(tmp_path, records, journal=tmp_path / JOURNAL)
    (tmp_path / JOURNAL).rmdir()

    def refused(*arguments: Any, **options: Any) -> None:
        raise OSError(30, "Read-only file system")

    with monkeypatch.context() as patch:
        patch.setattr(verify.os, "write", refused)
        verify_files(tmp_path, records, journal=tmp_path / JOURNAL)
    verify_files(tmp_path, records, journal=tmp_path / "no folder" / JOURNAL)
    assert len(read) == 48


def test_chunks_are_read_by_several_threads_and_the_first_damage_is_named(
    tmp_path: Path, records: dict[str, FileRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a later one is found earlier."""
    monkeypatch.setattr(verify, "usable_cores", lambda: range(4))
    for name in ("a", "c"):
        in_place(tmp_path / f"{name}.npy")

    def slow(descriptor: int, begin: int, end: int) -> int:
        if str(Path(f"/proc/self/fd/{descriptor}").readlink()).endswith("a.npy"):
            threading.Event().wait(0.05)
        return checksums.sum_range(descriptor, begin, end)

    monkeypatch.setattr(verify, "sum_range", slow)
    for _ in range(3):
        with pytest.raises(CorruptDatasetError, match=r"a\.npy has checksum"):
            verify_files(tmp_path, records)


def test_a_file_that_the_system_cannot_read_is_named(
    tmp_path: Path, records: dict[str, FileRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(descriptor: int, begin: int, end: int) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(verify, "sum_range", broken)
    with pytest.raises(DatasetError, match=r"a\.npy cannot be read: Input/output error"):
        verify_files(tmp_path, records)
