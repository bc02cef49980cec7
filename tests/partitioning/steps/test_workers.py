"""Who owns a piece of work: one worker at a time, until it is gone."""

import errno
import threading
from pathlib import Path
from typing import Any

import pytest

from halohop.errors import ClusterError
from halohop.partitioning.steps import workers
from halohop.partitioning.steps.workers import Worker, last_claims
from tests.support.deadlines import within


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in ("workers", "work"):
        (tmp_path / name).mkdir()
    return tmp_path


def claim(worker: Worker, place: Path, name: str = "7") -> bool:
    claims = last_claims(path.name for path in (place / "work").iterdir())
    return worker.claim(place / "work" / name, claims.get(name, -1))


def test_work_is_claimed_once_and_free_when_its_owner_has_ended(place: Path) -> None:
    with Worker(place / "workers") as one:
        assert claim(one, place)
        with Worker(place / "workers") as other:
            assert not claim(other, place)
            assert not claim(one, place)
            assert claim(other, place, "8")
            assert one.others() == [other.name]
        assert claim(one, place, "8")
        assert one.owns(place / "work" / "8")
    with Worker(place / "workers") as third:
        assert claim(third, place)
        assert third.others() == []
    assert list((place / "workers").iterdir()) == []


def test_of_workers_who_claim_at_once_one_wins(place: Path) -> None:
    """Also where the owner before them is gone: each has seen the same last claim."""
    with Worker(place / "workers") as gone:
        for name in range(50):
            assert claim(gone, place, str(name))
    gate, won = threading.Barrier(4), []

    def race() -> None:
        with Worker(place / "workers") as worker:
            gate.wait(60)
            for name in map(str, range(100)):
                if worker.claim(place / "work" / name, 0 if int(name) < 50 else -1):
                    won.append(name)
            gate.wait(60)

    threads = [threading.Thread(target=race) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won, key=int) == [str(name) for name in range(100)]


@pytest.mark.parametrize("why", ["other host", "no locks"])
def test_where_locks_are_not_seen_the_heartbeat_counts(place: Path, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    monkeypatch.setattr(workers, "BEAT_S", 0.02)
    silent = within(0.2)
    monkeypatch.setattr(workers, "SILENT_S", silent)
    if why == "other host":
        boots = iter(["00000001", "00000002"])
        monkeypatch.setattr(workers, "boot", lambda: "00000003")
    else:

        def unsupported(descriptor: int, kind: int) -> None:
            raise OSError(errno.ENOLCK, "No locks available")

        monkeypatch.setattr(workers.fcntl, "flock", unsupported)
    with Worker(place / "workers") as one, Worker(place / "workers") as other:
        if why == "other host":
            for worker in (one, other):  # as if each were on a host of its own
                named = f"{next(boots)}-{worker.name.split('-')[1]}"
                (place / "workers" / worker.name).rename(place / "workers" / named)
                worker.name = named
        assert claim(one, place)
        for _ in range(10):
            assert not claim(other, place)
            threading.Event().wait(silent / 5)
        one._stopping.set()
        one._beating.join()
        assert not claim(other, place)  # it was seen alive just now
        threading.Event().wait(silent * 1.5)
        assert claim(other, place)
        assert not one.owns(place / "work" / "7")
        assert other.owns(place / "work" / "7")


def test_a_heartbeat_that_fails_is_an_error(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "BEAT_S", 0.01)

    def broken(*arguments: Any) -> None:
        raise OSError(errno.ESTALE, "Stale file handle")

    with Worker(place / "workers") as worker:
        worker.check()
        with monkeypatch.context() as patch:
            patch.setattr(workers.os, "utime", broken)
            worker._beating.join(60)
        with pytest.raises(ClusterError, match=r"cannot be touched any more.*Stale"):
            worker.check()


def test_a_file_system_without_links_is_named(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*arguments: Any) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "symlink_to", unsupported)
    with Worker(place / "workers") as worker, pytest.raises(ClusterError, match=r"takes no symbolic links.*another file system"):
        claim(worker, place)


def test_a_request_that_nfs_repeats_is_this_workers(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The link was made, the answer was lost, and the second request finds what the first has made."""
    made = Path.symlink_to

    def repeated(link: Path, target: str) -> None:
        made(link, target)
        made(link, target)

    monkeypatch.setattr(Path, "symlink_to", repeated)
    with Worker(place / "workers") as worker:
        assert claim(worker, place)
        assert worker.owns(place / "work" / "7")
        assert not claim(worker, place)
