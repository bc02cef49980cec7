import subprocess
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from halohop.errors import BatchError, DeadlineExceededError, IdError, InputError
from halohop.loading.pipeline import Backlog, Job, Made, PrefetchConfig, in_order
from halohop.loading.threads import Inline, Threads
from halohop.telemetry import Counters


def run(
    tasks: Iterable[Any], make: Callable[[Any], Any], config: PrefetchConfig, counters: Counters | None = None
) -> Iterator[Any]:
    """What `make` returns for each task, by the number of threads."""
    makers = Threads(lambda task: Made(item=make(task)), config.workers, counters) if config.workers else None
    return in_order(tasks, makers or Inline(lambda task: Made(item=make(task)), counters), config, counters=counters)


@pytest.mark.parametrize("threads", [0, 1, 4])
def test_items_come_in_order_whatever_finishes_first(threads):
    gates = [threading.Event() for _ in range(4)]

    def make(n: int) -> int:
        if threads == 4 and n < 4:  # the first four run together; let them finish backwards
            if n < 3:
                assert gates[n + 1].wait(60)
            gates[n].set()
        return n * n

    assert list(run(range(20), make, PrefetchConfig(workers=threads))) == [n * n for n in range(20)]


def test_a_failure_arrives_in_its_place_with_its_traceback():
    def make(n: int) -> int:
        if n == 2:
            raise ZeroDivisionError("in the user's transform")
        return n

    for threads in (0, 3):
        items = run(range(9), make, PrefetchConfig(workers=threads))
        assert [next(items), next(items)] == [0, 1]
        with pytest.raises(BatchError, match="batch 2 could not be made: ZeroDivisionError: in the user's transform") as caught:
            next(items)
        assert "raise ZeroDivisionError" in "".join(traceback.format_exception(caught.value))
        assert list(items) == []


def test_our_own_errors_are_not_wrapped():
    def make(n: int) -> int:
        raise IdError("id 7")

    with pytest.raises(IdError, match="id 7"):
        list(run([0], make, PrefetchConfig(workers=1)))


def test_an_item_that_never_comes_is_an_error_at_the_deadline():
    stuck = threading.Event()
    try:
        with pytest.raises(DeadlineExceededError, match=r"0\.2 s"):
            list(run(range(3), lambda n: stuck.wait(30), PrefetchConfig(workers=1, deadline=0.2)))
    finally:
        stuck.set()


def test_work_ahead_is_bounded():
    started = []
    lock = threading.Lock()

    def make(n: int) -> int:
        with lock:
            started.append(n)
        return n

    items = run(range(1000), make, PrefetchConfig(workers=2, prefetch=3))
    assert next(items) == 0
    items.close()
    assert len(started) <= 2 * 3 + 1


class Late(Future[Made[int]]):
    """Not made before somebody waits for it."""

    def __init__(self, item: int) -> None:
        super().__init__()
        self._item = item

    def result(self, timeout: float | None = None) -> Made[int]:
        if not self.done():
            self.set_result(Made(item=self._item, num_bytes=100))
        return super().result(timeout)


class LateMakers:
    begun = 0

    def submit(self, job: Job[int]) -> Late:
        self.begun += 1
        return Late(job.spec)

    def stop(self) -> None:
        self.stopped = True


@pytest.mark.parametrize(("limit", "ahead"), [(0, 1), (100, 1), (250, 2), (399, 3), (400, 4), (10**9, 8)])
def test_the_backlog_is_bounded_by_bytes(limit, ahead):
    config = PrefetchConfig(workers=4, prefetch=2, backlog_bytes=limit)
    makers, backlog = LateMakers(), Backlog(config)
    items = in_order(range(50), makers, config, backlog=backlog)
    assert next(items) == 0
    assert makers.begun == 4  # nothing was known about sizes: one for each worker
    for number in range(1, 30):
        assert next(items) == number
        in_flight = makers.begun - number - 1
        assert in_flight == max(ahead - 1, 3 - number)
        assert backlog.statistics()["backlog_bytes"] == 100 * in_flight
    items.close()
    assert makers.stopped
    empty = {"backlog_batches": 0, "backlog_ready": 0, "backlog_bytes": 0}
    assert backlog.statistics() == {**empty, "backlog_peak_bytes": max(400, 100 * ahead), "heaviest_batch_bytes": 100}


def test_a_backlog_of_real_threads_stays_under_its_limit():
    config = PrefetchConfig(workers=3, prefetch=4, backlog_bytes=500)
    backlog = Backlog(config)
    makers = Threads(lambda n: Made(item=n, num_bytes=100), config.workers)
    assert list(in_order(range(200), makers, config, backlog=backlog)) == list(range(200))
    assert 300 <= backlog.statistics()["backlog_peak_bytes"] <= 500


def test_what_was_handed_over_is_held_by_nobody():
    class Item:
        pass

    config = PrefetchConfig(workers=1, prefetch=1)  # the thread that made it has nothing else to do then
    items = in_order(range(9), Threads(lambda n: Made(item=Item()), 1), config)
    item = next(items)
    gone = threading.Event()
    weakref.finalize(item, gone.set)
    del item
    assert gone.wait(60)  # a thread may need a moment to come back from making it
    items.close()


def test_stopping_early_ends_the_threads():
    before = threading.enumerate()
    for item in run(range(1000), lambda n: n, PrefetchConfig(workers=4)):
        if item == 3:
            break
    del item
    assert [thread for thread in threading.enumerate() if thread not in before] == []


HOLDS_AN_ITERATOR = """
import torch
from halohop.loading.pipeline import PrefetchConfig, Made, in_order
from halohop.loading.threads import Threads
rows = torch.zeros(50_000, 64)
threads = Threads(lambda n: Made(item=rows[torch.arange(20_000)]), 4)
held = in_order(range(10**6), threads, PrefetchConfig(workers=4, prefetch=3))
next(held)
raise SystemExit(3)
"""


@pytest.mark.parametrize("times", [1, pytest.param(3, marks=pytest.mark.full)])
def test_a_script_may_end_with_an_unfinished_iterator(times):
    for _ in range(times):
        done = subprocess.run([sys.executable, "-c", HOLDS_AN_ITERATOR], capture_output=True, text=True, timeout=100)
        assert (done.returncode, done.stderr) == (3, "")  # a thread inside torch at the end is SIGABRT


def test_waiting_and_making_are_counted():
    counters = Counters()
    list(run(range(5), lambda n: n, PrefetchConfig(workers=2), counters))
    snapshot = counters.snapshot()
    assert snapshot["make_calls"] == 5
    assert snapshot["wait_seconds"] >= 0


def test_making_without_threads_is_waiting():
    counters = Counters()
    pause = threading.Event()
    list(in_order(range(4), Inline(lambda n: Made(item=pause.wait(0.05))), PrefetchConfig(workers=0), counters=counters))
    assert counters.snapshot()["wait_seconds"] >= 0.2


@pytest.mark.parametrize("bad", [{"workers": -1}, {"prefetch": 0}, {"deadline": 0.0}, {"backlog_bytes": -1}])
def test_impossible_flights(bad):
    with pytest.raises(InputError, match="need workers"):
        PrefetchConfig(**bad)
