"""Keeps several batches in flight and hands them over in order."""

import atexit
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from halohop.errors import BatchError, DeadlineExceededError, HalohopError, InputError
from halohop.telemetry import Counters

Task = TypeVar("Task")
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flight:
    """How many batches are made at a time, and how long to wait for one.

    Args:
        threads: makers; 0 makes each batch in the caller, when it is asked for.
        prefetch: batches in flight per thread; the bound on finished batches that wait.
        deadline: seconds that the consumer waits for the next batch before it raises.

    Raises:
        InputError: a number that cannot work.
    """

    threads: int = 2
    prefetch: int = 2
    deadline: float = 300.0

    def __post_init__(self) -> None:
        if self.threads < 0 or self.prefetch < 1 or self.deadline <= 0:
            raise InputError(f"need threads >= 0, prefetch >= 1 and deadline > 0, got {self}")


def in_order(
    tasks: Iterable[Task], make: Callable[[Task], Item], flight: Flight, counters: Counters | None = None
) -> Iterator[Item]:
    """Yields ``make(task)`` for every task, in order; threads work ahead by a bounded number of items.

    A failure is raised where its item would have come, after the good ones before it. Ending the iteration early stops the
    threads.

    Raises:
        BatchError: `make` raised; its error is the cause (errors of halohop itself pass unwrapped).
        DeadlineExceededError: an item took longer than the flight's deadline.

    Example:
        >>> list(in_order(range(4), lambda n: n * n, Flight(threads=2)))
        [0, 1, 4, 9]
    """
    counters = counters or Counters()
    if flight.threads == 0:
        for number, task in enumerate(tasks):
            yield _timed(make, task, number, counters)
        return
    makers: _Makers[tuple[int, Task], Item] = _Makers(lambda job: _timed(make, job[1], job[0], counters), flight.threads)
    waiting: deque[Future[Item]] = deque()
    try:
        for job in enumerate(tasks):
            waiting.append(makers.submit(job))
            if len(waiting) >= flight.threads * flight.prefetch:
                yield _wait(waiting.popleft(), flight, counters)
        while waiting:
            yield _wait(waiting.popleft(), flight, counters)
    finally:
        makers.stop(grace=1.0)


class _Makers(Generic[Task, Item]):
    """Daemon threads that make items. (A ThreadPoolExecutor would join a stuck thread at exit, and hang there.)

    A script may end while it holds an unfinished iterator. The threads are stopped then too, since one that is inside torch when
    the interpreter goes away takes the whole process down with SIGABRT.
    """

    def __init__(self, make: Callable[[Task], Item], count: int) -> None:
        self._make = make
        self._jobs: SimpleQueue[tuple[Future[Item], Task] | None] = SimpleQueue()
        self._threads = [threading.Thread(target=self._work, name=f"halohop-loader-{n}", daemon=True) for n in range(count)]
        for thread in self._threads:
            thread.start()
        atexit.register(self.stop, grace=2.0)

    def submit(self, task: Task) -> "Future[Item]":
        future: Future[Item] = Future()
        self._jobs.put((future, task))
        return future

    def stop(self, *, grace: float) -> None:
        """Drops what is not begun and lets the threads end; waits `grace` seconds at most, so a stuck one holds up nobody."""
        while (job := self._next_job()) is not None:
            job[0].cancel()
        for _ in self._threads:
            self._jobs.put(None)
        until = time.monotonic() + grace
        for thread in self._threads:
            thread.join(timeout=max(0.0, until - time.monotonic()))
        if not any(thread.is_alive() for thread in self._threads):
            atexit.unregister(self.stop)

    def _next_job(self) -> tuple[Future[Item], Task] | None:
        try:
            return self._jobs.get_nowait()
        except Empty:
            return None

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, task = job
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(self._make(task))
            except BaseException as error:
                future.set_exception(error)


def _wait(future: "Future[Item]", flight: Flight, counters: Counters) -> Item:
    start = time.perf_counter()
    try:
        return future.result(timeout=flight.deadline)
    except TimeoutError as error:
        if future.done():  # the batch itself failed with a time-out, or came at the last moment
            return future.result()
        raise DeadlineExceededError(f"no batch within {flight.deadline:g} s; raise `timeout` if batches take longer") from error
    finally:
        counters.add("wait_seconds", time.perf_counter() - start)


def _timed(make: Callable[[Task], Item], task: Task, number: int, counters: Counters) -> Item:
    with counters.span("make"):
        try:
            return make(task)
        except HalohopError:
            raise
        except Exception as error:
            raise BatchError(f"batch {number} could not be made: {type(error).__name__}: {error}") from error
