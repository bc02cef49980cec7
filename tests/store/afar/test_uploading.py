"""What is sent to a URL is there as a whole or not at all, and goes on after it was stopped."""

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import halohop
from halohop.errors import DeadlineExceededError, IncompleteDatasetError, InputError, WriteError
from halohop.files import parallel
from halohop.files.url_folder import UrlFolder
from halohop.store.afar.fetching import fetch
from halohop.store.afar.uploading import UPLOADING, upload
from halohop.store.disk import read_manifest
from halohop.store.manifest import encode
from halohop.store.names import MANIFEST

URL = "memory://bucket/parts"


@pytest.fixture(autouse=True)
def bucket(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """The objects in memory, none at first."""
    monkeypatch.setattr(MemoryFileSystem, "store", {})
    monkeypatch.setattr(MemoryFileSystem, "pseudo_dirs", [""])
    return MemoryFileSystem.store


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def there(url: str = URL) -> dict[str, bytes]:
    folder = UrlFolder(url)
    return {name: folder.read(name) for name in folder.files()}


def other_set(far_parts: Path, folder: Path) -> Path:
    shutil.copytree(far_parts, folder)
    manifest = read_manifest(folder)
    manifest.partitioned["seed"] = 99
    (folder / MANIFEST).write_bytes(encode(manifest))
    return folder


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of files that are sent."""
    found: list[str] = []
    plain = UrlFolder.send

    def send(self: UrlFolder, file: Path, name: str) -> None:
        found.append(name)
        plain(self, file, name)

    monkeypatch.setattr(UrlFolder, "send", send)
    return found


def test_it_is_equal_file_by_file(far_parts: Path, tmp_path: Path, sent: list[str]) -> None:
    told: list[tuple[str, int, int]] = []
    halohop.upload(far_parts, URL, progress=lambda *report: told.append(report))
    assert there() == contents(far_parts)
    assert told[-1][1] == told[-1][2] > 0
    assert sent[0] == UPLOADING
    assert sent[-1] == MANIFEST
    assert contents(fetch(URL, tmp_path / "here")) == contents(far_parts)
    sent.clear()
    upload(far_parts, URL)
    assert sent == [], "the same data set is there already"


def test_to_a_folder(far_parts: Path, tmp_path: Path) -> None:
    upload(far_parts, f"file://{tmp_path}/there")
    assert contents(tmp_path / "there") == contents(far_parts)


class Cut(BaseException):
    """As Ctrl-C, or the end of the process."""


def cut_at(share: float) -> Callable[[str, int, int], None]:
    def progress(stage: str, done: int, total: int) -> None:
        if done > share * total:
            raise Cut

    return progress


def test_what_was_cut_goes_on_and_is_no_data_set_before(far_parts: Path, tmp_path: Path, sent: list[str]) -> None:
    with pytest.raises(Cut):
        upload(far_parts, URL, progress=cut_at(0.5))
    assert MANIFEST not in there()
    with pytest.raises(IncompleteDatasetError, match=r"has no manifest.json: .* was not uploaded to its end"):
        fetch(URL, tmp_path / "here")
    before = set(sent)
    sent.clear()
    upload(far_parts, URL)
    assert there() == contents(far_parts)
    assert UPLOADING not in sent
    assert len(before & set(sent)) <= 8, "only what was under way is sent again"


def test_a_cut_before_the_manifest(far_parts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = UrlFolder.send

    def send(self: UrlFolder, file: Path, name: str) -> None:
        if name == MANIFEST:
            raise Cut
        plain(self, file, name)

    with monkeypatch.context() as patch:
        patch.setattr(UrlFolder, "send", send)
        with pytest.raises(Cut):
            upload(far_parts, URL)
    upload(far_parts, URL)
    assert there() == contents(far_parts)


def test_a_cut_between_the_last_two_steps(far_parts: Path, tmp_path: Path) -> None:
    upload(far_parts, URL)
    UrlFolder(URL).send(far_parts / MANIFEST, UPLOADING)
    upload(far_parts, URL)
    assert there() == contents(far_parts)


def test_another_data_set_is_replaced_only_on_request(far_parts: Path, tmp_path: Path) -> None:
    other = other_set(far_parts, tmp_path / "other")
    upload(other, URL)
    with pytest.raises(InputError, match=r"memory://bucket/parts holds a data set; choose another URL, or pass overwrite=True"):
        upload(far_parts, URL)
    assert there() == contents(other)
    with pytest.raises(Cut):
        upload(far_parts, URL, overwrite=True, progress=cut_at(0.5))
    with pytest.raises(InputError, match="holds an unfinished upload of another data set"):
        upload(other, URL)
    upload(far_parts, URL)
    assert there() == contents(far_parts)
    upload(other, URL, overwrite=True)
    assert there() == contents(other)


def test_files_of_an_earlier_set_do_not_stay(far_parts: Path, tmp_path: Path) -> None:
    upload(far_parts, URL)
    small = tmp_path / "small"
    halohop.partition(halohop.load_source("synthetic:tiny"), small, num_parts=1, method="random")
    upload(small, URL, overwrite=True)
    assert there() == contents(small)


def test_what_is_not_ours_stays(far_parts: Path) -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe("/bucket/parts/notes.txt", b"mine")
    for overwrite in (False, True):
        with pytest.raises(InputError, match=r"memory://bucket/parts/notes.txt is there, and is not halohop's; choose another"):
            upload(far_parts, URL, overwrite=overwrite)
    memory.mv("/bucket/parts/notes.txt", "/bucket/parts/manifest.json")
    with pytest.raises(InputError, match=r"manifest.json is there, and is not halohop's"):
        upload(far_parts, URL, overwrite=True)
    assert there() == {"manifest.json": b"mine"}


def test_a_folder_that_is_not_whole_is_not_sent(far_parts: Path, tmp_path: Path, sent: list[str]) -> None:
    here = fetch(far_parts, tmp_path / "here", partitions=[0])
    with pytest.raises(IncompleteDatasetError, match=r"here lacks the partitions \[1, 2\]; upload a folder that has all"):
        upload(here, URL)
    next((here / "part-0000").rglob("x.npy")).unlink()
    with pytest.raises(IncompleteDatasetError):
        upload(here, URL)
    assert sent == []


def test_a_target_that_is_only_read(far_parts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*arguments: object, **options: object) -> None:
        raise PermissionError("AccessDenied")

    monkeypatch.setattr(MemoryFileSystem, "put_file", refused)
    with pytest.raises(WriteError, match=r"manifest.uploading cannot be written \(PermissionError: Acc.*credentials"):
        upload(far_parts, URL)


def test_an_object_that_did_not_come_whole(far_parts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = MemoryFileSystem.put_file

    def cut(self: MemoryFileSystem, lpath: str, rpath: str, **options: object) -> None:
        plain(self, lpath, rpath, **options)
        if rpath.endswith("x.npy"):
            self.pipe_file(rpath, b"half")

    monkeypatch.setattr(MemoryFileSystem, "put_file", cut)
    with pytest.raises(WriteError, match=r"x\.npy has 4 bytes after it was sent, instead of"):
        upload(far_parts, URL)
    assert MANIFEST not in there()


def test_another_that_writes_there_meanwhile(far_parts: Path) -> None:
    def progress(stage: str, done: int, total: int) -> None:
        fsspec.filesystem("memory").pipe_file("/bucket/parts/manifest.uploading", b"another's")

    with pytest.raises(WriteError, match="was written to by another process meanwhile"):
        upload(far_parts, URL, progress=progress)
    assert MANIFEST not in there()


def test_a_store_that_hangs_is_given_up(far_parts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_LEAVE_S", 0.01)
    hangs = threading.Event()
    plain = MemoryFileSystem.put_file

    def slow(self: MemoryFileSystem, lpath: str, rpath: str, **options: object) -> None:
        if rpath.endswith("x.npy"):
            hangs.wait(30)
        plain(self, lpath, rpath, **options)

    monkeypatch.setattr(MemoryFileSystem, "put_file", slow)
    try:  # the deadline of the whole upload or of one file, whichever is seen first
        with pytest.raises(DeadlineExceededError, match=r"(upload|x\.npy): nothing has come for 0\.2"):
            upload(far_parts, URL, deadline=0.2)
    finally:
        hangs.set()
