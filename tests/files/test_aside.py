"""What stopped writers left: that of this host goes, also after a restart; that of others is named, with a command that works."""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from halohop.files import aside, write_file
from halohop.files.whole import whole_folder

BOOT, HOST, RANDOM = "00000001", "00000002", "0123abcd"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def fill(folder: Path, size: int = 1000) -> Path:
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "x.npy").write_bytes(bytes(size))
    return folder


@pytest.fixture
def restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is written is older than this system."""
    monkeypatch.setattr(aside.time, "clock_gettime", lambda clock: -60.0)


@pytest.fixture(autouse=True)
def unmentioned() -> None:
    aside._mention.cache_clear()


def test_the_host_is_in_the_name(tmp_path: Path) -> None:
    with whole_folder(tmp_path / "out", lambda: None, overwrite=False) as partial:
        assert partial.name.startswith(f"out.partial-{aside.host()}-{aside.boot()}-")
        assert aside.UNFINISHED.search(partial.name)
        assert aside.target_of(partial / "x") == tmp_path / "out" / "x"
    assert aside.host() != aside.boot()


def test_what_this_host_left_before_it_was_started_again_is_removed(
    tmp_path: Path, restarted: None, caplog: pytest.LogCaptureFixture
) -> None:
    for left in (f"out.partial-{aside.host()}-{BOOT}-{RANDOM}", f"out.replaced-{aside.host()}-{BOOT}-{RANDOM}"):
        fill(tmp_path / left)
    (tmp_path / f"file.partial-{aside.host()}-{BOOT}-{RANDOM}").write_text("half")
    (tmp_path / "out").mkdir()
    with whole_folder(tmp_path / "out", lambda: None, overwrite=True):
        pass
    write_file(tmp_path / "file", b"whole")
    assert names(tmp_path) == ["file", "out"]
    assert caplog.messages == []


def test_what_it_had_moved_away_comes_back(tmp_path: Path, restarted: None) -> None:
    fill(tmp_path / f"out.replaced-{aside.host()}-{BOOT}-{RANDOM}")
    aside.clear_abandoned(tmp_path / "out")
    assert names(tmp_path) == ["out"]
    assert (tmp_path / "out" / "deep" / "x.npy").exists()


def test_what_was_changed_since_the_start_is_of_another_system_with_this_name(tmp_path: Path) -> None:
    """Containers may share a name; their locks may not be seen here."""
    left = fill(tmp_path / f"out.partial-{aside.host()}-{BOOT}-{RANDOM}")
    aside.clear_abandoned(tmp_path / "out")
    assert left.exists()


@pytest.mark.parametrize("middle", [f"{HOST}-{BOOT}-", f"{BOOT}-", "BOOT-", ""])
def test_what_others_left_is_named_and_stays(
    tmp_path: Path, restarted: None, caplog: pytest.LogCaptureFixture, middle: str
) -> None:
    """That of other hosts, and of an older halohop, whose names have no host; in a folder with spaces, as a shell reads it."""
    folder = tmp_path / "my; disk"
    left = fill(folder / f"out.partial-{middle.replace('BOOT', aside.boot())}{RANDOM}", 4096)
    (folder / "out").mkdir()
    aside.clear_abandoned(folder / "out")
    assert len(caplog.messages) == 1
    aside.mention_leftovers(folder / "out")  # it is named once
    (message,) = caplog.messages
    size = sum(path.lstat().st_size for path in (left, *left.rglob("*")))
    assert message.startswith(f"{left} takes {aside.format_size(size)}: a writer that was stopped left it there.")
    assert left.exists()
    subprocess.run(message.rpartition("remove it: ")[2], shell=True, check=True)
    assert names(folder) == ["out"]


def test_the_only_copy_and_what_is_being_written_are_not_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fill(tmp_path / f"out.replaced-{HOST}-{BOOT}-{RANDOM}")
    descriptors = []
    for where in (f"{HOST}-{BOOT}", f"{aside.host()}-{aside.boot()}"):
        living = tmp_path / f"out.partial-{where}-{RANDOM}"
        living.mkdir()
        descriptors.append(os.open(living, os.O_RDONLY))
        fcntl.flock(descriptors[-1], fcntl.LOCK_EX)
    aside.clear_abandoned(tmp_path / "out")
    assert caplog.messages == []
    assert len(names(tmp_path)) == 3
    for descriptor in descriptors:
        os.close(descriptor)


def test_leftovers_are_listed_beside_a_folder_and_in_it(tmp_path: Path) -> None:
    out = tmp_path / "out"
    fill(out)
    beside = fill(tmp_path / f"out.partial-{HOST}-{BOOT}-{RANDOM}")
    shutil.copy(out / "deep/x.npy", beside / f"x.npy.partial-{RANDOM}")  # it goes with its folder
    inside = out / "deep" / f"y.npy.partial-{aside.host()}-{aside.boot()}-{RANDOM}"
    inside.write_bytes(bytes(77))
    (tmp_path / f"other.partial-{RANDOM}").touch()
    (out / "deep" / "notes.partial-mine").touch()
    folder = fill(out / "deep" / f"z.partial-{HOST}-{BOOT}-{RANDOM}")
    (folder / f"x.npy.partial-{RANDOM}").touch()  # it goes with its folder
    found = aside.leftovers(out)
    assert [*found] == sorted([beside, inside, folder])
    assert found[inside] == 77
    assert found[beside] > 2000


def test_a_folder_that_may_not_be_listed_is_not_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(folder: Path) -> None:
        raise PermissionError(folder)

    monkeypatch.setattr(Path, "iterdir", refused)
    aside.mention_leftovers(tmp_path / "out")
    assert aside.leftovers(tmp_path / "out") == {}
