"""Builds that several processes share, that are killed, or that others have finished: always the same bytes."""

import os
import random
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from halohop.errors import ClusterError, InputError, WriteError
from halohop.files import aside
from halohop.partitioning.building import dataset
from halohop.partitioning.building.layout import Memory
from halohop.partitioning.steps.steps import Steps
from tests.partitioning.building.test_passes import GOLDEN, build, digest
from tests.support.forked import Forked

SEED = 31


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[int], Forked]]:
    """Starts one more process of the build, that may take so many bytes for a step."""
    started: list[Forked] = []

    def begin(room: int) -> Forked:
        arguments = [str(tmp_path / "out"), str(SEED), str(room)]
        started.append(Forked("tests.partitioning.shared_build", arguments, os.environ | {"PYTHONPATH": str(Path.cwd())}))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        with suppress(AssertionError):
            process.wait(200)
        process.close()


def test_processes_of_different_memory_share_a_build(tmp_path: Path, start: Callable[[int], Forked]) -> None:
    """How tables are cut is what the first one found, so all count the same steps."""
    processes = [start(room) for room in (600, 20_000, 3_000)]
    for process in processes:
        code = process.wait(200)
        assert code == 0 or "give this one as much memory" in process.stderr.read()
    assert digest(tmp_path / "out") == GOLDEN[SEED]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_kills_at_random_moments_end_with_the_same_bytes(tmp_path: Path, start: Callable[[int], Forked]) -> None:
    chance, kills = random.Random(5), 0
    while kills < 10 and not (tmp_path / "out").exists():
        process = start(3_000)
        threading.Event().wait(chance.uniform(0.05, 0.6))
        process.kill()
        kills += process.wait(200) == -signal.SIGKILL
        if not kills:  # it was quicker
            shutil.rmtree(tmp_path / "out")
    last = start(3_000)
    assert last.wait(200) == 0, last.stderr.read()
    assert digest(tmp_path / "out") == GOLDEN[SEED]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_worker_that_comes_late_finds_the_result(tmp_path: Path) -> None:
    report = build(SEED, tmp_path / "out", worker=True)
    manifest = tmp_path / "out" / "manifest.json"
    before = manifest.stat()
    assert build(SEED, tmp_path / "out", worker=True) == report
    after = manifest.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    with pytest.raises(InputError, match="exists"):
        build(SEED, tmp_path / "out")
    with pytest.raises(InputError, match=r"cannot replace .*out; delete it first"):
        build(SEED, tmp_path / "out", worker=True, overwrite=True)


def test_a_worker_that_comes_late_removes_what_one_that_was_killed_at_its_end_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(aside, "remove", lambda path: None)  # killed before the folder of the build is removed
        report = build(SEED, tmp_path / "out", worker=True)
    assert len(list(tmp_path.glob("out.build.partial-*"))) == 1
    (tmp_path / f"out.build.partial-{aside.host()}-{aside.boot()}-{0:08x}").touch()
    for other in ("out.build.partial-00000000-00000000", "out.buildings", "in.build.partial-00000000"):  # not ours
        (tmp_path / other).touch()
    assert build(SEED, tmp_path / "out", worker=True) == report
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "in.build.partial-00000000",
        "out",
        "out.build.partial-00000000-00000000",
        "out.buildings",
    ]


def test_a_name_that_was_taken_meanwhile_costs_no_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish = dataset.publish_dataset

    def late(data: Path, folder: Path, *, overwrite: bool) -> None:
        (folder / "of others").mkdir(parents=True)
        publish(data, folder, overwrite=overwrite)

    with monkeypatch.context() as patch:
        patch.setattr(dataset, "publish_dataset", late)
        with pytest.raises(WriteError, match=r"out exists.*complete, and get their name when the same command runs again"):
            build(SEED, tmp_path / "out", worker=True)
    (tmp_path / "out" / "of others").rmdir()
    monkeypatch.setattr(dataset.Passes, "_assign", None)  # nothing is done again
    build(SEED, tmp_path / "out", worker=True)
    assert digest(tmp_path / "out") == GOLDEN[SEED]


def test_a_worker_with_too_little_memory_is_refused_and_removes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*given: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(dataset, "plan_memory", lambda *given, **more: Memory(threads=1, room=8000))
    with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr(dataset.Passes, "_numbered", interrupted)
        build(SEED, tmp_path / "out", worker=True)
    monkeypatch.setattr(dataset, "plan_memory", lambda *given, **more: Memory(threads=2, room=3000))
    with pytest.raises(
        ClusterError, match=r"a step of this build takes .*, and this one may take .*; give this one as much memory"
    ):
        build(SEED, tmp_path / "out", worker=True)
    assert (tmp_path / "out.build" / "plan.json").exists()
    monkeypatch.setattr(dataset, "plan_memory", lambda *given, **more: Memory(threads=2, room=7500))
    build(SEED, tmp_path / "out", worker=True)
    assert digest(tmp_path / "out") == GOLDEN[SEED]


def test_a_finished_partition_is_on_the_disk_when_its_step_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All files, those too in which nothing was written, and all folders."""
    synced: set[int] = set()
    fsync, run = os.fsync, Steps.run

    def noting(descriptor: int) -> None:
        fsync(descriptor)
        synced.add(os.fstat(descriptor).st_ino)

    missing: list[Path] = []

    def checked(steps: Steps, stage: str, given: object) -> list[object]:
        found = run(steps, stage, given)  # type: ignore[arg-type]
        if stage == "finish":
            missing.extend(path for path in (steps.folder / "data").glob("*/**/*") if path.stat().st_ino not in synced)
        return found

    monkeypatch.setattr(os, "fsync", noting)
    monkeypatch.setattr(Steps, "run", checked)
    build(SEED, tmp_path / "out", worker=True)
    assert missing == []
