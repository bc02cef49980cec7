"""Folders that come piece by piece, without processes."""

import os
import threading
import zlib
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from halohop.datasets import synthetic
from halohop.errors import CorruptDatasetError, DeadlineExceededError, ProtocolError, WriteError
from halohop.launch.jobs.host import copying
from halohop.launch.jobs.host.messages import Copied, Piece
from halohop.launch.jobs.plan import Data
from halohop.launch.jobs.ssh.sending import copied
from halohop.partitioning.building.build import partition
from halohop.store import checksums
from halohop.store.checksums import FileRecord
from halohop.store.disk import map_part, read_manifest
from halohop.store.share import shares


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("copying") / "parts"
    partition(synthetic("tiny"), path, num_parts=3, method="random")
    return path


@pytest.fixture
def folder(source: Path, tmp_path: Path) -> Copied:
    """Partition 1 of 3, and where it is to be."""
    data = Data(source=str(source), folder=str(tmp_path / "cache" / "parts"), shares=shares("1/3"), copied=True)
    return copied(data, read_manifest(source))


def test_storage_that_hangs_is_not_waited_for_and_one_that_drips_is(source: Path, folder: Copied, monkeypatch) -> None:
    write(folder, source)
    let_go, pause, pread = threading.Event(), [0.0], os.pread

    def slow(*arguments: int) -> bytes:
        let_go.wait(pause[0])
        return pread(*arguments)

    monkeypatch.setattr(checksums.os, "pread", slow)
    pause[0] = 0.05
    assert copying.wanted(folder, ignore, 1.0) == ()
    pause[0] = 20.0
    with pytest.raises(DeadlineExceededError, match=r"compare .*parts: nothing has come for 1 s"):
        copying.wanted(folder, ignore, 1.0)
    let_go.set()


def pieces(source: Path, paths: tuple[str, ...]) -> Iterator[Piece]:
    for path in paths:
        data = (source / path).read_bytes()
        half = len(data) // 2
        yield Piece(path=path, data=data[:half], last=False)
        yield Piece(path=path, data=data[half:], last=True)


def ignore(work: int) -> None:
    pass


def write(folder: Copied, source: Path) -> tuple[str, ...]:
    missing = copying.wanted(folder, ignore)
    copying.write(folder, missing, pieces(source, missing).__next__, ignore)
    return missing


class Stuck:
    """A file whose storage does not answer."""

    def __init__(self, let_go: threading.Event) -> None:
        self._let_go = let_go

    def write(self, data: bytes) -> None:
        self._let_go.wait(60)


def test_a_write_that_hangs_is_named_and_not_waited_for(source: Path, folder: Copied, monkeypatch) -> None:
    let_go, missing = threading.Event(), copying.wanted(folder, ignore)
    with monkeypatch.context() as patch:
        patch.setattr(copying, "whole_file", lambda file: nullcontext(Stuck(let_go)))
        with pytest.raises(DeadlineExceededError, match=rf"write .*{missing[0]}: nothing has come for 0\.[23]"):
            copying.write(folder, missing, pieces(source, missing).__next__, ignore, 0.2)
        let_go.set()
    assert write(folder, source) == missing


def names(folder: str) -> set[str]:
    return {str(path.relative_to(folder)) for path in Path(folder).rglob("*") if path.is_file()}


def test_only_the_files_of_a_share_are_copied_and_make_a_data_set(folder: Copied, source: Path) -> None:
    assert write(folder, source) == tuple(folder.files)
    assert names(folder.folder) == {"manifest.json", "part-0001/stamp", *folder.files}
    assert all(path.startswith("part-0001/") for path in folder.files)
    map_part(folder.folder, read_manifest(folder.folder), 1, verify=True)


def test_what_is_there_and_whole_is_not_copied_again(folder: Copied, source: Path) -> None:
    write(folder, source)
    assert write(folder, source) == ()
    path = next(iter(folder.files))
    data = bytearray((Path(folder.folder) / path).read_bytes())
    data[-1] ^= 1
    (Path(folder.folder) / path).write_bytes(data)  # the same size
    assert write(folder, source) == (path,)
    assert (Path(folder.folder) / path).read_bytes() == (source / path).read_bytes()


def test_until_the_last_file_is_there_the_folder_is_no_data_set(folder: Copied, source: Path) -> None:
    write(folder, source)
    first, second, *_ = folder.files
    for path in (first, second):
        (Path(folder.folder) / path).unlink()
    missing = copying.wanted(folder, ignore)
    given = list(pieces(source, missing))

    def take() -> Piece:
        if not given:
            raise ProtocolError("the launcher is gone")
        return given.pop(0)

    del given[3:]  # the launcher is gone in the middle of the second file
    with pytest.raises(ProtocolError, match="gone"):
        copying.write(folder, missing, take, ignore)
    left = names(folder.folder)
    assert "manifest.json" not in left
    assert first in left
    assert second not in left
    assert not [name for name in left if "partial" in name]
    assert write(folder, source) == (second,)
    assert "manifest.json" in names(folder.folder)


def test_a_source_that_is_not_what_its_manifest_says_is_refused(folder: Copied, source: Path) -> None:
    path, record = next(iter(folder.files.items()))
    wrong = replace(folder, files={**folder.files, path: replace(record, checksums=("00000000",))})
    with pytest.raises(CorruptDatasetError, match=f"{path} is not what the manifest says"):
        write(wrong, source)
    assert names(folder.folder) == set()


@pytest.mark.parametrize("chunked", [True, False], ids=["chunks", "version 1"])
def test_files_of_several_chunks_have_several_checksums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunked: bool) -> None:
    monkeypatch.setattr(checksums, "CHUNK", 1000)
    data = bytes(range(256)) * 10
    sums = [data[begin : begin + 1000] for begin in range(0, len(data), 1000)] if chunked else [data]
    record = FileRecord(dtype="u1", shape=(2560,), bytes=2560, checksums=tuple(f"{zlib.crc32(each):08x}" for each in sums))
    folder = Copied(folder=str(tmp_path / "to"), files={"a.npy": record}, small={}, manifest=b"{}")
    (tmp_path / "a.npy").write_bytes(data)
    assert write(folder, tmp_path) == ("a.npy",)
    assert write(folder, tmp_path) == ()


def test_a_full_disk_leaves_no_half_file(folder: Copied, source: Path, no_more_than) -> None:
    largest = max(folder.files, key=lambda path: folder.files[path].bytes)
    with no_more_than(folder.files[largest].bytes - 1), pytest.raises(WriteError, match="make room there"):
        write(folder, source)
    assert largest not in names(folder.folder)
    assert "manifest.json" not in names(folder.folder)


def test_files_that_come_back_stay_in_their_folder(tmp_path: Path) -> None:
    sent: list[Piece | None] = [Piece(path="../outside", data=b"x", last=True), None]
    with pytest.raises(ProtocolError, match="outside of"):
        copying.write_brought(tmp_path / "run", lambda: sent.pop(0))
    assert not (tmp_path / "outside").exists()
