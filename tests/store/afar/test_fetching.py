"""A fetched data set is the same, file by file, or it is not there: whatever the store does, and whenever the fetch ends."""

import errno
import fcntl
import os
import shutil
import signal
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import fsspec
import pytest

import halohop
from halohop.errors import (
    CorruptDatasetError,
    DatasetError,
    DeadlineExceededError,
    IncompleteDatasetError,
    InputError,
    WriteError,
)
from halohop.files import parallel
from halohop.store import checksums
from halohop.store.afar import chunks
from halohop.store.afar.fetching import FETCHING, fetch
from halohop.store.disk import map_part, read_manifest, verify_parts
from halohop.store.manifest import encode, part_folder
from halohop.store.names import MANIFEST
from tests.store.afar.conftest import CHUNK, Store
from tests.support.archives import unpack


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def url_of(folder: Path) -> str:
    return f"file://{folder}"


def test_it_is_equal_file_by_file_and_can_be_opened(far_parts: Path, store: Store, tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    here = halohop.fetch(url_of(far_parts), tmp_path / "a" / "here", progress=lambda *report: told.append(report))
    assert here == tmp_path / "a" / "here"
    assert contents(here) == contents(far_parts)
    verify_parts(here)
    with halohop.open(here) as graph:
        assert graph.book.num_parts == 3
    total = sum(record.bytes for record in read_manifest(here).files.values())
    assert told[0] == ("fetch", 0, total)
    assert told[-1] == ("fetch", total, total)


def test_some_partitions_then_the_others(far_parts: Path, store: Store, tmp_path: Path) -> None:
    here = fetch(url_of(far_parts), tmp_path / "here", partitions=[2])
    assert sorted(path.name for path in here.iterdir()) == [MANIFEST, "part-0002"]
    store.asked.clear()
    fetch(far_parts, here, partitions=[2])  # a path is the same as file://
    assert store.files == {MANIFEST}
    fetch(far_parts, here)
    assert contents(here) == contents(far_parts)


def test_an_object_store_in_memory(far_parts: Path, tmp_path: Path) -> None:
    memory = fsspec.filesystem("memory")
    memory.put(str(far_parts), "/bucket/parts", recursive=True)
    try:
        assert contents(fetch("memory://bucket/parts/", tmp_path / "here")) == contents(far_parts)
    finally:
        memory.rm("/bucket", recursive=True)


def test_version_1_has_one_checksum_for_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unpack(Path(__file__).parents[1] / "version1.tar.xz", tmp_path / "there")
    (old,) = (path.parent for path in (tmp_path / "there").rglob(MANIFEST))
    monkeypatch.setattr(chunks, "_PIECE", 64)
    here = fetch(old, tmp_path / "here")
    assert contents(here) == contents(old)
    verify_parts(here)


class Cut(BaseException):
    """As Ctrl-C, or the end of the process."""


def cut_after(count: int) -> Callable[[str, int, int], None]:
    left = iter(range(count))

    def progress(stage: str, done: int, total: int) -> None:
        if next(left, None) is None:
            raise Cut

    return progress


def test_what_was_cut_goes_on_and_is_no_data_set_before(
    far_parts: Path, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "THREADS", 1)
    here = tmp_path / "here"
    fetch(far_parts, tmp_path / "counted")
    total = len(store.asked)
    store.asked.clear()
    with pytest.raises(Cut):
        fetch(far_parts, here, progress=cut_after(40))
    before = len(store.asked)
    with pytest.raises(IncompleteDatasetError, match="no halohop data set, or was not copied"):
        halohop.open(here)
    fetch(far_parts, here)
    assert contents(here) == contents(far_parts)
    again = len(store.asked) - before - 1  # the manifest
    assert again <= total - 10, "what had come, even ahead of the cut, is not fetched again"


def test_what_lies_there_damaged_is_fetched_again_and_nothing_else(far_parts: Path, store: Store, tmp_path: Path) -> None:
    here = fetch(far_parts, tmp_path / "here")
    file = max((here / "part-0001").rglob("*.npy"), key=lambda path: path.stat().st_size)
    assert file.stat().st_size > 2 * CHUNK
    with file.open("r+b") as stream:
        stream.seek(CHUNK + 7)
        stream.write(b"?")
    store.asked.clear()
    fetch(far_parts, here)
    assert store.files == {MANIFEST}, "sizes are right, and nothing else was asked for"
    fetch(far_parts, here, verify=True)
    assert store.asked[2:] == [(str(file.relative_to(here)), CHUNK)]
    assert contents(here) == contents(far_parts)
    file.unlink()
    fetch(far_parts, here)
    assert contents(here) == contents(far_parts)


def test_a_flipped_byte_on_the_way_is_asked_again(far_parts: Path, store: Store, tmp_path: Path) -> None:
    wrong = iter([True])

    def change(name: str, begin: int, data: bytes) -> bytes:
        return bytes([data[0] ^ 1]) + data[1:] if begin == CHUNK and next(wrong, False) else data

    store.change = change
    assert contents(fetch(far_parts, tmp_path / "here")) == contents(far_parts)
    assert next(wrong, None) is None


def flipped(name: str, begin: int, data: bytes) -> bytes:
    return bytes([data[0] ^ 1]) + data[1:] if begin == CHUNK else data


def cut_short(name: str, begin: int, data: bytes) -> bytes:
    return b"" if begin == CHUNK else data


def missing(name: str, begin: int, data: bytes) -> bytes:
    if begin == CHUNK:
        raise FileNotFoundError(name)
    return data


def forbidden(name: str, begin: int, data: bytes) -> bytes:
    if name.endswith(MANIFEST):
        raise PermissionError("AccessDenied: s3://ann:secret@host?sig=secret")
    return data


def disconnected(name: str, begin: int, data: bytes) -> bytes:
    if begin == CHUNK:
        raise ConnectionError("reset by peer")
    return data


def broken(name: str, begin: int, data: bytes) -> bytes:
    raise OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize(
    ("change", "error", "complaint"),
    [
        (flipped, CorruptDatasetError, r"\.npy has checksum .* in the bytes 4096 to .* upload the data set again"),
        (cut_short, CorruptDatasetError, r"\.npy ends, or goes on, at byte 4096, where the manifest says"),
        (missing, IncompleteDatasetError, r"\.npy is missing, which the manifest beside it lists"),
        (forbidden, DatasetError, r"manifest.json cannot be read \(PermissionError: .*\*\*\*.*credentials"),
        (disconnected, DatasetError, r"\.npy cannot be read \(ConnectionError: reset by peer\); see whether the store works"),
        (broken, DatasetError, "Input/output error"),
    ],
)
def test_what_a_store_may_do_is_named_and_leaves_no_data_set(
    far_parts: Path, store: Store, tmp_path: Path, change: object, error: type[Exception], complaint: str
) -> None:
    store.change = change  # type: ignore[assignment]
    with pytest.raises(error, match=complaint) as raised:
        fetch(far_parts, tmp_path / "here")
    assert "secret" not in str(raised.value)
    assert not (tmp_path / "here" / MANIFEST).exists()
    assert not list((tmp_path / "here").glob("part-*"))
    store.change = lambda name, begin, data: data
    assert contents(fetch(far_parts, tmp_path / "here")) == contents(far_parts)


def test_short_answers_are_asked_for_the_rest(far_parts: Path, store: Store, tmp_path: Path) -> None:
    store.change = lambda name, begin, data: data[:1000] if name.endswith(".npy") else data
    assert contents(fetch(far_parts, tmp_path / "here")) == contents(far_parts)


def test_a_network_that_fails_now_and_then(far_parts: Path, store: Store, tmp_path: Path) -> None:
    failures: Counter[str] = Counter()

    def change(name: str, begin: int, data: bytes) -> bytes:
        if begin == CHUNK and failures[name] < 2:  # the third attempt is the last
            failures[name] += 1
            raise TimeoutError("no answer")
        return data

    store.change = change
    assert contents(fetch(far_parts, tmp_path / "here")) == contents(far_parts)
    assert failures


def test_a_store_that_hangs_is_given_up(far_parts: Path, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()

    def change(name: str, begin: int, data: bytes) -> bytes:
        if begin == CHUNK:
            go_on.wait(30)
        return data

    monkeypatch.setattr(parallel, "_LEAVE_S", 0.01)
    store.change = change
    with pytest.raises(DeadlineExceededError, match=r"nothing has come for 0\.2 s"):
        fetch(far_parts, tmp_path / "here", deadline=0.2)
    go_on.set()


def test_a_full_disk_is_named_and_the_fetch_goes_on(
    far_parts: Path, store: Store, tmp_path: Path, no_more_than: Callable[[int], AbstractContextManager[None]]
) -> None:
    with no_more_than(20_000), pytest.raises(WriteError, match=r"cannot write .*\.npy: File too large; make room"):
        fetch(far_parts, tmp_path / "here")
    assert contents(fetch(far_parts, tmp_path / "here")) == contents(far_parts)


def test_room_is_looked_for_before_anything_is_fetched(
    far_parts: Path, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.statvfs(tmp_path)
    scarce = os.statvfs_result([*real[:4], 1, *real[5:]])
    monkeypatch.setattr(chunks.os, "statvfs", lambda path: scarce)
    with pytest.raises(WriteError, match=r"here/fetching needs .* more, and its disk has .* left; make room there"):
        fetch(far_parts, tmp_path / "here")
    assert store.files == {MANIFEST}


@pytest.mark.parametrize(
    ("url", "error", "complaint"),
    [
        ("nosuch://a/b", InputError, "has the scheme 'nosuch', which fsspec does not know; write s3://"),
        ("smb://ann:secret@host/share", InputError, r"smb://ann:\*\*\*@host/share needs a package that is not installed: "),
        (
            "memory://nothing/here",
            IncompleteDatasetError,
            "memory://nothing/here has no manifest.json: it is no halohop data set",
        ),
        ("memory://nothing/here?sig=secret", IncompleteDatasetError, r"memory://nothing/here\?\*\*\* has no manifest.json"),
    ],
)
def test_a_url_that_cannot_work(url: str, error: type[Exception], complaint: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=complaint) as raised:
        fetch(url, tmp_path / "here")
    assert "secret" not in str(raised.value)
    assert not (tmp_path / "here").exists()


def test_partitions_that_there_are_not(far_parts: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"partitions=\[3, 7\] are not in .*, which has the partitions 0 to 2"):
        fetch(far_parts, tmp_path / "here", partitions=[0, 3, 7])


def test_a_share_of_the_partitions(far_parts: Path, tmp_path: Path) -> None:
    fetch(far_parts, tmp_path / "here", share="1/2")
    assert sorted(path.name for path in (tmp_path / "here").iterdir()) == [MANIFEST, "part-0001"]
    fetch(far_parts, tmp_path / "here", share="1/2,0/2")
    assert contents(tmp_path / "here") == contents(far_parts)
    with pytest.raises(InputError, match="share 3/4 has no partition"):
        fetch(far_parts, tmp_path / "there", share="3/4")
    with pytest.raises(InputError, match=r"partitions=\[0\] and share='0/3' both say what to fetch; leave one out"):
        fetch(far_parts, tmp_path / "there", partitions=[0], share="0/3")
    assert not (tmp_path / "there").exists()


def test_another_data_set_is_not_mixed_in(far_parts: Path, store: Store, tmp_path: Path) -> None:
    other = shutil.copytree(far_parts, tmp_path / "other")
    manifest = read_manifest(other)
    manifest.partitioned["seed"] = 99
    (other / MANIFEST).write_bytes(encode(manifest))
    here = fetch(far_parts, tmp_path / "here", partitions=[0])
    with pytest.raises(InputError, match=r"here holds another data set than .*other; choose another folder, or delete"):
        fetch(other, here)
    assert sorted(path.name for path in here.iterdir()) == [MANIFEST, "part-0000"]
    with pytest.raises(Cut):
        fetch(far_parts, tmp_path / "begun", progress=cut_after(3))
    with pytest.raises(InputError, match="begun/fetching holds another data set"):
        fetch(other, tmp_path / "begun")


def test_a_folder_with_other_files_is_left_alone(far_parts: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"holds 'notes.txt' and no data set; choose a new folder"):
        fetch(far_parts, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_manifest_that_names_files_elsewhere_is_refused(far_parts: Path, tmp_path: Path) -> None:
    evil = shutil.copytree(far_parts, tmp_path / "evil")
    manifest = read_manifest(evil)
    name, record = next(iter(manifest.files.items()))
    for place in ("part-0000/../../escaped.npy", "/part-0000/x.npy", "part-0000//x.npy"):
        files = {place: record} | {other: one for other, one in manifest.files.items() if other != name}
        data = encode(type(manifest)(**{field: getattr(manifest, field) for field in manifest.__slots__} | {"files": files}))
        (evil / MANIFEST).write_bytes(data)
        with pytest.raises(CorruptDatasetError, match="which no data set has"):
            fetch(evil, tmp_path / "here")
    assert not (tmp_path / "escaped.npy").exists()


def test_of_two_fetches_into_one_folder_one_works_and_the_other_waits(far_parts: Path, store: Store, tmp_path: Path) -> None:
    first, second, failures = threading.Event(), threading.Event(), []

    def change(name: str, begin: int, data: bytes) -> bytes:
        if name.endswith(".npy"):
            first.set()
            second.wait(30)
        return data

    def run() -> None:
        try:
            fetch(far_parts, tmp_path / "here", deadline=30)
        except BaseException as error:
            failures.append(error)

    store.change = change
    threads = [threading.Thread(target=run) for _ in range(2)]
    threads[0].start()
    assert first.wait(30)
    threads[1].start()
    threading.Timer(0.2, second.set).start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert contents(tmp_path / "here") == contents(far_parts)
    asked = [one for one in store.asked if one[0] != MANIFEST]
    assert len(asked) == len(set(asked)), "each chunk is fetched once"


def test_one_that_waits_gives_up_when_the_other_does_nothing(far_parts: Path, tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    descriptor = os.open(here, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with pytest.raises(DeadlineExceededError, match=r"another process fetches into .*here, and has done nothing for 0\.2 s"):
            fetch(far_parts, here, deadline=0.2)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(
    ("name", "at"), [("pwrite", 3), ("mkdir", 4), ("fsync", 5), ("rename", 0), ("rename", 1), ("replace", 1), ("unlink", 0)]
)
def test_killed_at_any_moment_it_goes_on_and_nothing_half_looks_whole(
    far_parts: Path, store: Store, tmp_path: Path, name: str, at: int
) -> None:
    """Children begin a data set, and add partitions to one; each is killed at a call of the system."""
    first, here = tmp_path / "first", fetch(far_parts, tmp_path / "here", partitions=[0])
    for folder, part in ((first, 0), (first, 1), (here, 1), (here, 2)):
        child = os.fork()
        if child == 0:
            _killing(name, iter(range(at)))
            try:
                fetch(far_parts, folder, partitions=[part])
            finally:
                os._exit(0)
        assert os.waitpid(child, 0)[1] in (0, signal.SIGKILL)
        if (folder / MANIFEST).exists():
            manifest = read_manifest(folder)
            for found in range(3):
                if (folder / part_folder(found)).exists():
                    map_part(folder, manifest, found, verify=True)
    for folder in (first, here):
        fetch(far_parts, folder)
        assert contents(folder) == contents(far_parts)
        assert not (folder / FETCHING).exists()


def _killing(name: str, calls: object) -> None:
    real = getattr(os, name)

    def called(*arguments: object, **options: object) -> object:
        if next(calls, None) is None:  # type: ignore[call-overload]
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **options)

    setattr(os, name, called)


def test_the_chunks_of_the_tests_are_small(far_parts: Path, store: Store) -> None:
    assert checksums.CHUNK == CHUNK
    assert max(len(record.checksums) for record in read_manifest(far_parts).files.values()) > 3
