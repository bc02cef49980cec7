"""Files and folders appear whole or not at all; what killed writers leave goes, and what living ones write stays."""

import errno
import gc
import json
import os
import random
import re
import signal
import subprocess
import sys
import textwrap
import threading
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from halohop.errors import CorruptDatasetError, DatasetError, IncompleteDatasetError, InputError, WriteError
from halohop.files import aside, whole
from halohop.files.reading import decode_json, open_regular
from halohop.files.whole import (
    check_sealed,
    publish,
    read_sealed,
    sealed_file,
    set_aside,
    whole_file,
    whole_folder,
    write_file,
    written_stream,
)
from halohop.store.npy import ArrayFile, write_array


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def fill(folder: Path, *, overwrite: bool = False, text: str = "new") -> None:
    with whole_folder(folder, lambda: None, overwrite=overwrite) as partial:
        (partial / "file").write_text(text)


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "file"
    write_file(file, b"old")

    def fails() -> None:
        with whole_file(file) as stream:
            stream.write(b"half")
            stream.flush()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fails()
    assert file.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def save_with_torch(stream: Any) -> None:
    torch.save({"x": torch.zeros(1_000_000)}, stream)  # more than the buffer holds, so that torch meets the failure


def save_with_numpy(stream: Any) -> None:
    np.savez(stream, x=np.zeros(1_000_000))


@pytest.mark.filterwarnings("ignore:.*ZipFile.__del__")  # NumPy 1.26 leaves its archive open
@pytest.mark.parametrize("save", [save_with_torch, save_with_numpy, lambda stream: stream.write(bytes(400_000))])
def test_a_full_disk_is_one_error_that_names_the_file(tmp_path: Path, no_more_than: Any, save: Any) -> None:
    """torch and zipfile raise errors of their own when their stream fails; the reason must not be lost."""
    file = tmp_path / "state.pt"
    write_file(file, b"old")

    def written() -> None:
        with whole_file(file) as stream:
            save(stream)

    with (
        no_more_than(10_000),
        pytest.raises(WriteError, match=rf"^cannot write {re.escape(str(file))}: File too large; make room"),
    ):
        written()
    gc.collect()
    assert file.read_bytes() == b"old"
    assert names(tmp_path) == ["state.pt"]


def test_a_disk_that_fills_up_at_the_end_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some file systems find room only when a file is synced."""

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WriteError, match=r"cannot write .*file: No space left on device; make room there"):
        write_file(tmp_path / "file", b"new")
    assert names(tmp_path) == []


def test_room_for_an_array_is_taken_at_once(tmp_path: Path, no_more_than: Any) -> None:
    file = tmp_path / "x.npy"

    def reserved() -> None:
        with set_aside([file]) as (partial,):
            ArrayFile.reserve(partial, torch.float32, (100_000,))

    with no_more_than(10_000), pytest.raises(WriteError, match=r"x\.npy.*make room"):
        reserved()
    assert names(tmp_path) == []
    with set_aside([file]) as (partial,):
        ArrayFile.reserve(partial, torch.float32, (100_000,))
        assert partial.stat().st_blocks * 512 >= 400_000


def test_rows_are_written_anywhere(tmp_path: Path) -> None:
    file = tmp_path / "x.npy"
    file.touch()
    ArrayFile.reserve(file, torch.int16, (10, 2))
    rows = torch.arange(12, dtype=torch.int16).view(6, 2)
    with ArrayFile(file, torch.int16, (10, 2)) as array:
        array.scatter(torch.tensor([7, 8, 2, 0, 1, 5]), rows)
        array.scatter(torch.empty(0, dtype=torch.int64), rows[:0])
        array.sync()
    expected = torch.zeros(10, 2, dtype=torch.int16)
    expected[torch.tensor([7, 8, 2, 0, 1, 5])] = rows
    assert np.array_equal(np.load(file, allow_pickle=False), expected.numpy())


def test_a_set_of_files_is_published_together_and_replaces_another(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        write_file(tmp_path / name, b"old")
    with set_aside([tmp_path / "a", tmp_path / "b"]) as paths:
        for path in paths:
            path.write_bytes(b"new")
        assert {(tmp_path / name).read_bytes() for name in ("a", "b", "c")} == {b"old"}
        publish(dict(zip(paths, (tmp_path / "a", tmp_path / "b"), strict=True)), instead_of=[tmp_path / "c", tmp_path / "absent"])
    assert names(tmp_path) == ["a", "b"]
    assert (tmp_path / "b").read_bytes() == b"new"


class Killed(BaseException):
    """What no handler of errors catches."""


@pytest.mark.parametrize("old", [(), ("a", "b", "c")], ids=["first", "again"])
def test_a_kill_while_a_set_gets_its_names_is_on_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: tuple[str, ...]
) -> None:
    """At every step: without the record the files are one set, the old one or the new one."""
    kills, done = 0, False
    while not done:
        kills, steps, out = kills + 1, 0, tmp_path / str(kills)
        out.mkdir()
        for name in old:
            write_file(out / name, b"old")

        def dying(call: Any, path: Any, *others: Any, last: int = kills, **options: Any) -> None:
            nonlocal steps
            call(path, *others, **options)
            steps += 1
            if steps == last:
                raise Killed

        new, record = [out / "a", out / "b"], out / "record"
        with monkeypatch.context() as patch, set_aside(new) as paths:
            for path in paths:
                path.write_bytes(b"new")
            for call in (os.unlink, os.replace):
                patch.setattr(os, call.__name__, partial(dying, call))
            try:
                publish(dict(zip(paths, new, strict=True)), instead_of=[out / name for name in "abc"], record=record)
                done = True
            except Killed:
                pass
        left = {path.name: path.read_bytes() for path in out.iterdir()}
        assert record.exists() or left in (dict.fromkeys(old, b"old"), {"a": b"new", "b": b"new"})
    assert not record.exists()
    assert kills > 4


def test_links_stay_links(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "file").symlink_to(tmp_path / "disk" / "file")
    (tmp_path / "folder").symlink_to(tmp_path / "disk" / "folder")
    write_file(tmp_path / "file", b"new")
    fill(tmp_path / "folder")
    fill(tmp_path / "folder", overwrite=True, text="newer")
    assert (tmp_path / "file").is_symlink()
    assert (tmp_path / "folder").is_symlink()
    assert (tmp_path / "disk" / "file").read_bytes() == b"new"
    assert (tmp_path / "disk" / "folder" / "file").read_text() == "newer"
    assert names(tmp_path / "disk") == ["file", "folder"]


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteError, match=r"cannot write .*file/below/x"):
        write_file(tmp_path / "file" / "below" / "x", b"")
    (tmp_path / "folder").mkdir()
    with pytest.raises(WriteError, match=r"cannot write .*folder: Is a directory"):
        write_file(tmp_path / "folder", b"")
    with pytest.raises(WriteError, match=r"cannot write .*file"):
        fill(tmp_path / "file" / "below")
    assert names(tmp_path) == ["file", "folder"]


@pytest.mark.parametrize("exchanges", [True, False])
def test_a_folder_takes_the_place_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchanges: bool) -> None:
    if not exchanges:
        monkeypatch.setattr(whole, "exchange", lambda one, other: False)
    fill(tmp_path / "out", text="old")
    fill(tmp_path / "out", overwrite=True, text="new")
    assert (tmp_path / "out" / "file").read_text() == "new"
    assert names(tmp_path) == ["out"]


def test_all_of_a_folder_is_on_the_disk_before_it_gets_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files as they were written last, and every folder; after that the folder that has the name."""
    synced: dict[int, tuple[int, int]] = {}
    renamed: list[dict[int, tuple[int, int]]] = []
    fsync, rename = os.fsync, Path.rename

    def noting(descriptor: int) -> None:
        fsync(descriptor)
        found = os.fstat(descriptor)
        synced[found.st_ino] = (found.st_size, found.st_mtime_ns)

    def naming(path: Path, target: Path) -> Path:
        renamed.append(dict(synced))
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", noting)
    monkeypatch.setattr(Path, "rename", naming)
    with whole_folder(tmp_path / "out", lambda: None, overwrite=False) as partial:
        for number in range(40):
            (partial / f"{number % 5}" / "below").mkdir(parents=True, exist_ok=True)
            (partial / f"{number % 5}" / "below" / f"{number}").write_bytes(bytes(number))
        write_file(partial / "0" / "file", b"first")
        (partial / "0" / "file").write_bytes(b"longer than the first")
    (before,) = renamed
    found = [path.stat() for path in [tmp_path / "out", *(tmp_path / "out").rglob("*")]]
    assert len(found) == 1 + 10 + 40 + 1
    assert [before.get(status.st_ino) for status in found] == [(status.st_size, status.st_mtime_ns) for status in found]
    assert tmp_path.stat().st_ino in synced.keys() - before.keys()


def test_a_file_of_a_folder_that_cannot_be_synced_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsync = os.fsync

    def full(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").readlink().name == "file":
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WriteError, match=r"cannot write .*out.*/file: No space left on device; make room there"):
        fill(tmp_path / "out")
    assert names(tmp_path) == []


def test_the_name_exists_at_every_moment(tmp_path: Path) -> None:
    """Where the file system can exchange two names."""
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    if not whole.exchange(one, other):
        pytest.skip("this file system cannot exchange two names")
    fill(tmp_path / "out")
    missing, done = [], threading.Event()

    def watch() -> None:
        while not done.is_set():
            if not (tmp_path / "out").exists():
                missing.append(1)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        for _ in range(50):
            fill(tmp_path / "out", overwrite=True)
    finally:
        done.set()
        thread.join()
    assert missing == []


def test_of_two_writers_without_overwrite_the_first_wins(tmp_path: Path) -> None:
    def late() -> None:
        with whole_folder(tmp_path / "out", lambda: None, overwrite=False):
            fill(tmp_path / "out", text="first")

    with pytest.raises(InputError, match=r"out exists: another process was quicker"):
        late()
    assert (tmp_path / "out" / "file").read_text() == "first"
    assert names(tmp_path) == ["out"]


KILLED = """
    import os, signal, sys
    from pathlib import Path
    from halohop.files import aside, whole
    out = Path(sys.argv[1])
    def die(*args): os.kill(os.getpid(), signal.SIGKILL)
    if sys.argv[2] == "file":
        with whole.whole_file(out) as stream:
            stream.write(b"half")
            stream.flush()
            print("written", flush=True)
            sys.stdin.read()
            die()
    whole.exchange = lambda one, other: False
    aside.remove = die
    with whole.whole_folder(out, lambda: None, overwrite=True) as partial:
        (partial / "file").write_text("new")
        if sys.argv[2] == "between":
            rename = Path.rename
            Path.rename = lambda self, target: rename(self, target) if out.exists() or self.name == "out" else die()
"""


def killed(out: Path, moment: str) -> None:
    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(out), moment]
    ended = subprocess.run(command, input="", capture_output=True, timeout=60, text=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr


def test_what_a_killed_writer_left_is_removed_and_what_it_moved_comes_back(tmp_path: Path) -> None:
    """After a kill between the two renames there is no folder `out`; the old one is beside it."""
    fill(tmp_path / "out", text="old")
    killed(tmp_path / "out", "between")
    assert [re.sub(r"-[0-9a-f]{8}", "", name) for name in names(tmp_path)] == ["out.partial", "out.replaced"]
    with whole_folder(tmp_path / "out", lambda: None, overwrite=True):
        assert (tmp_path / "out" / "file").read_text() == "old"
    assert names(tmp_path) == ["out"]


def test_what_a_living_writer_writes_stays(tmp_path: Path) -> None:
    """Also that of another host, of an earlier version, of another name, and of the user."""
    others = ["file.partial-00000000-01234567", "file.partial-01234567", "other.partial-x", "file.partial-notes", "file.new"]
    for name in others:
        (tmp_path / name).write_text("")
    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path / "file"), "file"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        assert writer.stdout.readline() == "written\n"
        write_file(tmp_path / "file", b"mine")
        (living,) = set(names(tmp_path)) - {*others, "file"}
        assert (tmp_path / living).read_bytes() == b"half"
        writer.stdin.close()
        assert writer.wait(60) == -signal.SIGKILL
    write_file(tmp_path / "file", b"mine again")
    assert names(tmp_path) == sorted([*others, "file"])


def test_writers_of_one_name_do_not_disturb_each_other(tmp_path: Path) -> None:
    failures: list[BaseException] = []

    def write(number: int) -> None:
        try:
            for _ in range(20):
                write_file(tmp_path / "file", bytes([number]) * 1000)
                fill(tmp_path / "folder", overwrite=True, text=str(number) * 1000)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(set((tmp_path / "file").read_bytes())) == 1
    assert len(set((tmp_path / "folder" / "file").read_text())) == 1
    assert names(tmp_path) == ["file", "folder"]


def test_a_folder_that_is_discarded_is_gone_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed meanwhile, it leaves what the next writer of the name removes."""
    fill(tmp_path / "out")

    def dying(path: Path) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(aside, "remove", dying)
        with pytest.raises(Killed):
            aside.discard(tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert len(names(tmp_path)) == 1
    fill(tmp_path / "out")
    assert names(tmp_path) == ["out"]
    aside.discard(tmp_path / "out")
    aside.discard(tmp_path / "out")
    assert names(tmp_path) == []


def test_a_file_system_without_locks_is_written_and_not_cleared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = aside._beside(tmp_path / "file", "partial")
    left.write_text("of somebody else")

    def unsupported(descriptor: int, kind: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(aside.fcntl, "flock", unsupported)
    write_file(tmp_path / "file", b"new")
    assert names(tmp_path) == ["file", left.name]


def test_a_sealed_file_tells_every_damage(tmp_path: Path) -> None:
    file = tmp_path / "sealed"
    with pytest.raises(IncompleteDatasetError, match="there is no file"):
        read_sealed(file)
    data = random.Random(0).randbytes(300)
    with sealed_file(file) as stream:
        stream.write(data[:100])
        stream.write(data[100:])
    assert read_sealed(file) == data
    sealed = file.read_bytes()
    for position in range(len(sealed)):
        file.write_bytes(sealed[:position] + bytes([sealed[position] ^ 0x20]) + sealed[position + 1 :])
        with pytest.raises(CorruptDatasetError, match="sealed"):
            read_sealed(file)
    for size in range(len(sealed)):
        file.write_bytes(sealed[:size])
        with pytest.raises(CorruptDatasetError, match="cut short"):
            read_sealed(file)


def test_a_sealed_file_is_checked_a_piece_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole, "_PIECE", 16)
    file, data = tmp_path / "rows.npy", bytes(range(100))
    with sealed_file(file) as stream:
        stream.write(data)
    check_sealed(file)
    sealed = file.read_bytes()
    for position in range(len(sealed)):
        file.write_bytes(sealed[:position] + bytes([sealed[position] ^ 0x20]) + sealed[position + 1 :])
        with pytest.raises(CorruptDatasetError, match=r"rows\.npy"):
            check_sealed(file)
    for size in range(len(sealed)):
        file.write_bytes(sealed[:size])
        with pytest.raises(CorruptDatasetError, match="cut short"):
            check_sealed(file)
    file.unlink()
    with pytest.raises(IncompleteDatasetError, match="there is no file"):
        check_sealed(file)


def test_torch_reads_what_is_sealed(tmp_path: Path) -> None:
    """So a checkpoint can be looked at without halohop."""
    with sealed_file(tmp_path / "model.pt") as stream:
        torch.save({"x": torch.arange(3)}, stream)
    assert torch.load(tmp_path / "model.pt", weights_only=True)["x"].tolist() == [0, 1, 2]


def test_pipes_folders_and_devices_are_no_files(tmp_path: Path) -> None:
    """The opening of a pipe would last until somebody writes to it."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "pipe", tmp_path / "folder", Path("/dev/null")):
        with pytest.raises(CorruptDatasetError, match=f"{path} is no regular file"):
            open_regular(path)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(DatasetError, match="loop cannot be read"):
        open_regular(tmp_path / "loop")


@pytest.mark.parametrize("data", [b"[" * 200_000, b'{"a":' * 200_000, b"\xff", b"", b'{"a": 1', b'{"a": 1}'])
def test_json_that_is_none(data: bytes) -> None:
    with pytest.raises(CorruptDatasetError, match=r"^run\.json cannot be read as JSON"):
        decode_json(data, "run.json", dict[str, str])
    assert decode_json(json.dumps({"a": "b"}).encode(), "run.json", dict[str, str]) == {"a": "b"}


def test_an_error_names_the_target_and_not_what_is_unfinished(tmp_path: Path, no_more_than: Any) -> None:
    def fill(file: Path) -> None:
        with written_stream(file) as stream:
            stream.write(b"x" * 100_000)

    with whole_folder(tmp_path / "parts", lambda: None, overwrite=False) as partial, no_more_than(20_000):
        for write in (lambda: fill(partial / "x.npy"), lambda: write_array(partial / "z.npy", torch.zeros(100_000))):
            with pytest.raises(WriteError, match=rf"cannot write {tmp_path}/parts/[xz]\.npy: File too large"):
                write()
    message = rf"cannot write {tmp_path}/y\.npy: File too large"
    with set_aside([tmp_path / "y.npy"]) as (new,), no_more_than(20_000), pytest.raises(WriteError, match=message):
        ArrayFile.reserve(new, torch.int64, (100_000,))
