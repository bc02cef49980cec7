"""Steps: each is run once by one worker, a killed one again, and whatever happens the result has the same bytes."""

import json
import os
import random
import shutil
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from halohop.errors import ClusterError, InputError, RemoteError, WriteError
from halohop.files import write_file
from halohop.partitioning.steps.steps import Step, StepProgress, Steps
from halohop.partitioning.steps.workers import Worker
from tests.partitioning import toy_build
from tests.support.forked import Forked

SUMS = str([sum(number**2 for number in range(toy_build.NUMBERS)[group::3]) for group in range(3)])


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], Forked]]:
    """Starts one more process of the toy build."""
    started: list[Forked] = []

    def begin() -> Forked:
        started.append(Forked("tests.partitioning.toy_build", [str(tmp_path), "2"], os.environ | {"PYTHONPATH": str(Path.cwd())}))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        with suppress(AssertionError):
            process.wait(200)
        process.close()


def runs(folder: Path) -> dict[str, list[tuple[float, float, int]]]:
    """When each step began and ended, and in which process; in the order of their beginnings."""
    found = defaultdict(list)
    for line in (folder / "log").read_text().splitlines():
        what, step, pid, moment = line.split()
        if what == "begin":
            found[step].append((float(moment), float("inf"), int(pid)))
        else:
            (place,) = [at for at, (_, end, of) in enumerate(found[step]) if (of, end) == (int(pid), float("inf"))]
            found[step][place] = (found[step][place][0], float(moment), int(pid))
    return found


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_processes_share_the_steps(tmp_path: Path, start: Callable[[], Forked], processes: int) -> None:
    with Steps(tmp_path / "sums.build", toy_build.PLAN):  # so that nothing is removed before the last one has begun
        started = [start() for _ in range(processes)]
        for process in started:
            code = process.wait(200)
            assert code == 0, process.stderr.read()
    assert (tmp_path / "sums").read_text() == SUMS
    found = runs(tmp_path)
    assert len(found) == toy_build.NUMBERS + 3 + 1
    assert [len(times) for times in found.values()] == [1] * len(found)
    assert not (tmp_path / "sums.build").exists()


def test_kills_at_random_moments_change_nothing(tmp_path: Path, start: Callable[[], Forked]) -> None:
    """Two processes at work, of which one or the other is killed again and again; no step is run by two at a time."""
    chance, kills = random.Random(3), {}
    (tmp_path / "hold").touch()
    workers = [start(), start()]
    while len(kills) < 10:
        threading.Event().wait(chance.uniform(0.002, 0.03))
        at = chance.randrange(2)
        kills[workers[at].pid] = time.monotonic()
        workers[at].kill()
        assert workers[at].wait(60) == -signal.SIGKILL
        workers[at] = start()
    (tmp_path / "hold").unlink()
    toy_build.build(tmp_path, 2)
    assert (tmp_path / "sums").read_text() == SUMS
    for times in runs(tmp_path).values():
        for (begin, end, pid), (later, _, _) in pairwise(times):
            assert later >= min(end, kills.get(pid, end)), f"begun at {begin} and again at {later}"


def no_step(number: int, progress: StepProgress) -> int:
    raise AssertionError(f"step {number} is run again")


def steps_of(run: Callable[[int, StepProgress], Any], count: int = 6) -> list[Step]:
    return [Step(name=f"step {number}", run=lambda progress, number=number: run(number, progress)) for number in range(count)]


def test_results_come_back_and_are_not_computed_again(tmp_path: Path) -> None:
    def squared(number: int, progress: StepProgress) -> dict[str, Any]:
        return {"square": number**2, "names": ["a", "b"]}

    results = [{"square": number**2, "names": ["a", "b"]} for number in range(6)]
    with suppress(KeyError), Steps(tmp_path / "w", {}, threads=2) as steps:
        assert steps.run("one", steps_of(squared)) == results
        raise KeyError("stopped")
    with Steps(tmp_path / "w", {}, threads=3) as steps:
        assert steps.run("one", steps_of(no_step)) == results
        assert steps.run("two", []) == []
    assert list(tmp_path.iterdir()) == []


def test_another_plan_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KeyError), Steps(tmp_path / "w", {"source": "a.csv", "parts": 4, "seed": 0}):
        raise KeyError
    with pytest.raises(
        InputError, match=r"w holds an unfinished build of something else \(parts 4, now 8\); .* delete the folder"
    ):
        Steps(tmp_path / "w", {"parts": 8, "source": "a.csv", "seed": 0}).__enter__()
    with Steps(tmp_path / "w", {"seed": 0, "parts": 4, "source": "a.csv"}):
        pass
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "notes").touch()
    with pytest.raises(InputError, match="is no unfinished build; move it away"):
        Steps(tmp_path / "w", {}).__enter__()
    assert (tmp_path / "w" / "notes").exists()


def test_the_first_of_several_plans_is_kept(tmp_path: Path) -> None:
    """Workers that begin at once agree on one plan, and the others are refused."""
    gate, refused, entered = threading.Barrier(4), [], []
    leaving = threading.Barrier(5)

    def begin(number: int) -> None:
        gate.wait(60)
        try:
            with Steps(tmp_path / "w", {"number": number % 2}):
                entered.append(number % 2)
                leaving.wait(60)
        except InputError as error:
            refused.append(str(error))
            leaving.wait(60)

    threads = [threading.Thread(target=begin, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    leaving.wait(60)
    for thread in threads:
        thread.join()
    assert len(set(entered)) == 1
    assert len(entered) == len(refused) == 2
    assert list(tmp_path.iterdir()) == []


def test_a_failure_reaches_the_other_workers_and_the_step_may_be_tried_again(tmp_path: Path) -> None:
    """Here with its own class, elsewhere with its traceback."""
    waiting = threading.Event()

    def failing(number: int, progress: StepProgress) -> int:
        if number == 3:
            assert waiting.wait(60)
            raise WriteError("no room at all")
        return number

    def other() -> None:
        with Steps(tmp_path / "w", {}) as steps:
            waiting.set()
            steps.run("one", steps_of(lambda number, progress: number))

    remote: list[BaseException] = []

    def watched() -> None:
        try:
            other()
        except BaseException as error:
            remote.append(error)

    thread = threading.Thread(target=watched)

    def begun(number: int, progress: StepProgress) -> int:
        if number == 3:
            thread.start()
        return failing(number, progress)

    with pytest.raises(WriteError, match="no room"), Steps(tmp_path / "w", {}, threads=2) as steps:
        steps.run("one", steps_of(begun))
    thread.join()
    # The other one either saw the failure, or came so late that it began anew and ended well.
    (error,) = remote or [None]
    assert error is None or (isinstance(error, RemoteError) and "WriteError: no room at all" in str(error))
    assert error is None or 'raise WriteError("no room at all")' in error.remote_traceback
    with Steps(tmp_path / "w", {}) as steps:
        assert steps.run("one", steps_of(lambda number, progress: number)) == [0, 1, 2, 3, 4, 5]


def test_a_full_disk_is_an_error_and_the_build_goes_on_when_there_is_room(tmp_path: Path, no_more_than: Any) -> None:
    def write(number: int, progress: StepProgress) -> None:
        write_file(tmp_path / f"out-{number}", bytes(10 if number < 4 else 10_000))

    with no_more_than(5_000), pytest.raises(WriteError, match=r"out-4.*make room"), Steps(tmp_path / "w", {}) as steps:
        steps.run("write", steps_of(write))
    assert not (tmp_path / "out-4").exists()

    def rest(number: int, progress: StepProgress) -> None:
        assert number >= 4
        write(number, progress)

    with Steps(tmp_path / "w", {}) as steps:
        steps.run("write", steps_of(rest))
    assert [(tmp_path / f"out-{number}").stat().st_size for number in range(6)] == [10] * 4 + [10_000] * 2
    assert not (tmp_path / "w").exists()


def test_bad_input_leaves_no_folder(tmp_path: Path) -> None:
    def bad(number: int, progress: StepProgress) -> None:
        raise InputError("row 7 is no number")

    with pytest.raises(InputError, match="row 7"), Steps(tmp_path / "w", {}, threads=2) as steps:
        steps.run("read", steps_of(bad))
    assert list(tmp_path.iterdir()) == []


def test_progress_counts_sizes_and_stops_what_is_interrupted(tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    half, rest = threading.Event(), threading.Event()

    def interrupting(stage: str, done: int, total: int) -> None:
        seen.append((stage, done, total))
        if done == 15:
            raise KeyboardInterrupt

    def slow(number: int, progress: StepProgress) -> int:
        if number == 1:
            progress(5)
            half.set()
            while not rest.wait(0.01):
                progress(5)
        return number

    sizes = [Step(name=step.name, run=step.run, size=10 * (number + 1)) for number, step in enumerate(steps_of(slow, 2))]
    with pytest.raises(KeyboardInterrupt), Steps(tmp_path / "w", {}, threads=2, progress=interrupting) as steps:
        steps.run("one", sizes)
    assert half.is_set()
    assert seen[-1] == ("one", 15, 30)
    rest.set()
    with Steps(tmp_path / "w", {}, progress=lambda *report: seen.append(report)) as steps:
        assert steps.run("one", sizes) == [0, 1]
    assert ("one", 10, 30) in seen  # what the first run had done counts
    assert seen[-1] == ("one", 30, 30)


def done_elsewhere(folder: Path, number: int, result: object) -> None:
    """As another worker writes it."""
    file = folder / "steps" / "00-one" / f"{number:05d}"
    write_file(file, json.dumps({"name": f"step {number}", "result": result}).encode())


def test_a_step_that_was_done_before_it_could_be_claimed_is_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner has done it and is gone since this worker last looked; what it read may have been removed by then."""
    claim = Worker.claim

    def late(worker: Worker, work: Path, last: int) -> bool:
        done_elsewhere(tmp_path / "w", int(work.name), "theirs")
        return claim(worker, work, last)

    with Steps(tmp_path / "w", {}) as steps:
        monkeypatch.setattr(Worker, "claim", late)
        assert steps.run("one", steps_of(no_step, 2)) == ["theirs", "theirs"]


def test_a_worker_that_was_taken_for_gone_leaves_the_step_to_the_other(tmp_path: Path) -> None:
    with Steps(tmp_path / "w", {}) as steps, Worker(tmp_path / "w" / "workers") as other:

        def slow(number: int, progress: StepProgress) -> str:
            (tmp_path / "w" / "steps" / "00-one" / "00000.claim-1").symlink_to(f"../../workers/{other.name}")
            return "ours"

        timer = threading.Timer(0.1, done_elsewhere, (tmp_path / "w", 0, "theirs"))
        timer.start()
        assert steps.run("one", steps_of(slow, 1)) == ["theirs"]
        timer.join()


def test_a_folder_that_is_deleted_is_an_error(tmp_path: Path) -> None:
    def deleting(number: int, progress: StepProgress) -> None:
        shutil.rmtree(tmp_path / "w")

    with pytest.raises(ClusterError, match="is gone"), Steps(tmp_path / "w", {}) as steps:
        steps.run("one", steps_of(deleting))
