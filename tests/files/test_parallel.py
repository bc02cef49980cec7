"""Work in threads: all of it is done, the first failure comes, and nothing waits for a thread that hangs."""

import threading
import time

import pytest

from halohop.errors import DeadlineExceededError, WriteError
from halohop.files import parallel
from halohop.files.parallel import Report, in_threads
from tests.support.deadlines import within


def test_all_tasks_are_done_by_some_threads() -> None:
    names, done = set(), []
    together = threading.Barrier(3, timeout=30)

    def do(task: int, report: Report) -> None:
        names.add(threading.current_thread().name)
        if task < 3:
            together.wait()  # three are under way at a time
        report(task)

    in_threads(do, range(50), threads=3, deadline=30, name="count", on_done=done.append)
    assert sorted(done) == list(range(50))
    assert names == {f"halohop-count-{number}" for number in range(3)}


def test_without_tasks_nothing_starts() -> None:
    in_threads(lambda task, report: None, [], threads=3, deadline=1, name="none", on_done=print)


def test_the_first_failure_comes_and_the_others_stop() -> None:
    failed, done = threading.Event(), []

    def do(task: int, report: Report) -> None:
        if task == 0:
            failed.set()
            raise WriteError("full")
        failed.wait(30)
        while True:
            report(1)

    with pytest.raises(WriteError, match="full"):
        in_threads(do, range(8), threads=2, deadline=30, name="fail", on_done=done.append)


def test_one_that_hangs_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_LEAVE_S", 0.01)
    go_on, begin = threading.Event(), time.monotonic()
    with pytest.raises(DeadlineExceededError, match=r"hang: nothing has come for 0\.05 s; see whether the network"):
        in_threads(lambda task, report: go_on.wait(30), [0], threads=1, deadline=0.05, name="hang", on_done=print)
    assert time.monotonic() - begin < within(5)
    go_on.set()


def test_an_interruption_of_the_caller_ends_the_threads() -> None:
    def on_done(count: int) -> None:
        raise KeyboardInterrupt

    def do(task: int, report: Report) -> None:
        while True:
            report(1)

    with pytest.raises(KeyboardInterrupt):
        in_threads(do, range(4), threads=4, deadline=30, name="stop", on_done=on_done)
