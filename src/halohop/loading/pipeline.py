"""Keeps several batches in flight and hands them over in order, whoever makes them."""

import atexit
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

import torch

from halohop.errors import BatchError, DeadlineExceededError, HalohopError, InputError
from halohop.memory import spare_bytes
from halohop.telemetry import Counters, Gauge

Task = TypeVar("Task")
Item = TypeVar("Item")

_SETTLING = 10.0
"""Seconds that a thread may take to start on a busy machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flight:
    """How many batches are made at a time, and how long to wait for one.

    Args:
        workers: makers; 0 makes each batch in the caller, when it is asked for.
        prefetch: batches in flight per worker.
        backlog_bytes: what the batches in flight may weigh together; one may always be.
        deadline: seconds that the consumer waits for the next batch before it raises.

    Raises:
        InputError: a number that cannot work.
    """

    workers: int = 2
    prefetch: int = 2
    backlog_bytes: int = field(default_factory=spare_bytes)
    deadline: float = 300.0

    def __post_init__(self) -> None:
        if self.workers < 0 or self.prefetch < 1 or self.backlog_bytes < 0 or self.deadline <= 0:
            raise InputError(f"need workers >= 0, prefetch >= 1, backlog_bytes >= 0 and deadline > 0, got {self}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(Generic[Task]):
    """A task and its place in the order."""

    number: int
    task: Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Made(Generic[Item]):
    """An item and the memory that it takes."""

    item: Item
    num_bytes: int = 0


class Makers(Protocol[Task, Item]):
    """Whoever makes items: this thread, other threads, other processes."""

    def submit(self, job: Job[Task]) -> "Future[Made[Item]]":
        """Has the item made, now or later. A failure is the future's."""

    def stop(self) -> None:
        """Ends the makers; what is not made by then will not be."""


class Backlog:
    """The batches in flight, made or in the making, and what they weigh together.

    A batch in the making counts as much as the heaviest so far. Before there is one, each worker begins only one.
    """

    def __init__(self, flight: Flight) -> None:
        self._flight = flight
        self._lock = threading.Lock()
        self._waiting: list[Future[Made[Any]]] = []
        self._heaviest: int | None = None
        self._peak = 0

    def has_room(self) -> bool:
        """Whether another batch may be begun."""
        with self._lock:
            weight = self._weigh()
            if self._heaviest is None:
                return len(self._waiting) < self._flight.workers
            return weight + self._heaviest <= self._flight.backlog_bytes

    def add(self, future: "Future[Made[Any]]") -> None:
        with self._lock:
            self._waiting.append(future)
            self._weigh()

    def remove(self, future: "Future[Made[Any]]") -> None:
        with self._lock:
            self._weigh()
            self._waiting.remove(future)

    def statistics(self) -> dict[str, float]:
        """The batches in flight and those of them that are made; their bytes now, and at most so far; the heaviest one's."""
        with self._lock:
            ready = sum(future.done() for future in self._waiting)
            weight = self._weigh()
            return {
                "backlog_batches": Gauge(len(self._waiting)),
                "backlog_ready": Gauge(ready),
                "backlog_bytes": Gauge(weight),
                "backlog_peak_bytes": Gauge(self._peak),
                "heaviest_batch_bytes": Gauge(self._heaviest or 0),
            }

    def _weigh(self) -> int:
        known = [_weight(future) for future in self._waiting if future.done()]
        if known:
            self._heaviest = max(self._heaviest or 0, *known)
        weight = sum(known) + (self._heaviest or 0) * (len(self._waiting) - len(known))
        self._peak = max(self._peak, weight)
        return weight


def in_order(
    tasks: Iterable[Task],
    makers: Makers[Task, Item],
    flight: Flight,
    *,
    backlog: Backlog | None = None,
    counters: Counters | None = None,
) -> Generator[Item, None, None]:
    """Yields the item of every task, in order; the makers work ahead, by a bounded number of items and of bytes.

    A failure is raised where its item would have come, after the good ones before it. Ending the iteration early stops the
    makers.

    Raises:
        BatchError: making failed; the error is the cause (errors of halohop itself pass unwrapped).
        DeadlineExceededError: an item took longer than the flight's deadline.

    Example:
        >>> list(in_order(range(4), Threads(lambda n: Made(item=n * n), 2), Flight(workers=2)))
        [0, 1, 4, 9]
    """
    backlog, counters = backlog or Backlog(flight), counters or Counters()
    jobs = (Job(number=number, task=task) for number, task in enumerate(tasks))
    waiting: deque[Future[Made[Item]]] = deque()
    try:
        while True:
            while not waiting or (len(waiting) < flight.workers * flight.prefetch and backlog.has_room()):
                job = next(jobs, None)
                if job is None:
                    break
                waiting.append(makers.submit(job))
                backlog.add(waiting[-1])
            if not waiting:
                return
            yield _fetch(waiting, flight, backlog, counters)
    finally:
        for future in waiting:
            future.cancel()
            backlog.remove(future)
        makers.stop()


class Inline(Generic[Task, Item]):
    """Makes each item in the caller, when it is asked for."""

    def __init__(self, make: Callable[[Task], Made[Item]], counters: Counters | None = None) -> None:
        self._make = make
        self._counters = counters or Counters()

    def submit(self, job: Job[Task]) -> "Future[Made[Item]]":
        future: Future[Made[Item]] = Future()
        _fulfil(future, self._make, job, self._counters)
        return future

    def stop(self) -> None:
        """Nothing is left to end."""


class Threads(Generic[Task, Item]):
    """Daemon threads that make items. (A ThreadPoolExecutor would join a stuck thread at exit, and hang there.)

    A script may end while it holds an unfinished iterator. The threads are stopped then too, since one that is inside torch when
    the interpreter goes away takes the whole process down with SIGABRT.
    """

    def __init__(self, make: Callable[[Task], Made[Item]], count: int, counters: Counters | None = None) -> None:
        self._make = make
        self._counters = counters or Counters()
        self._jobs: SimpleQueue[tuple[Future[Made[Item]], Job[Task]] | None] = SimpleQueue()
        self._settled = threading.Semaphore(0)
        self._threads = [threading.Thread(target=self._work, name=f"halohop-loader-{n}", daemon=True) for n in range(count)]
        atexit.register(self.stop, grace=2.0)
        intra_op = torch.get_num_threads()
        for thread in self._threads:
            thread.start()
        for _ in self._threads:
            self._settled.acquire(timeout=_SETTLING)
        torch.set_num_threads(intra_op)  # what makers chose for themselves is torch's default for all new threads until then

    def submit(self, job: Job[Task]) -> "Future[Made[Item]]":
        future: Future[Made[Item]] = Future()
        self._jobs.put((future, job))
        return future

    def stop(self, *, grace: float = 1.0) -> None:
        """Drops what is not begun and lets the threads end; waits `grace` seconds at most, so a stuck one holds up nobody."""
        while (waiting := self._next()) is not None:
            waiting[0].cancel()
        for _ in self._threads:
            self._jobs.put(None)
        until = time.monotonic() + grace
        for thread in self._threads:
            if thread is not threading.current_thread():  # a forgotten iterator is ended wherever it is found
                thread.join(timeout=max(0.0, until - time.monotonic()))
        if not any(thread.is_alive() for thread in self._threads):
            atexit.unregister(self.stop)

    def _next(self) -> "tuple[Future[Made[Item]], Job[Task]] | None":
        try:
            return self._jobs.get_nowait()
        except Empty:
            return None

    def _work(self) -> None:
        torch.get_num_threads()  # a thread takes over the default when it first asks: now, not after what is set here
        torch.set_num_threads(1)  # a core makes a batch; torch's other threads are the trainer's
        self._settled.release()
        while self._make_one():
            pass

    def _make_one(self) -> bool:
        """A function of its own, so that an idle thread does not hold on to the last item."""
        todo = self._jobs.get()
        if todo is None:
            return False
        _fulfil(todo[0], self._make, todo[1], self._counters)
        return True


def attempt(make: Callable[[Task], Made[Item]], job: Job[Task], counters: Counters) -> Made[Item]:
    """``make(job.task)``, timed; a failure says which batch it was.

    Raises:
        BatchError: `make` raised something that is not halohop's own.
    """
    with counters.span("make"):
        try:
            return make(job.task)
        except HalohopError:
            raise
        except Exception as error:
            raise BatchError(f"batch {job.number} could not be made: {type(error).__name__}: {error}") from error


def _fulfil(future: "Future[Made[Item]]", make: Callable[[Task], Made[Item]], job: Job[Task], counters: Counters) -> None:
    if future.set_running_or_notify_cancel():
        try:
            future.set_result(attempt(make, job, counters))
        except BaseException as error:
            future.set_exception(error)


def _fetch(waiting: "deque[Future[Made[Item]]]", flight: Flight, backlog: Backlog, counters: Counters) -> Item:
    """Waits for the first item. (In a function of its own, so that nothing holds on to an item that was handed over.)"""
    future, start = waiting[0], time.perf_counter()
    try:
        made = future.result(timeout=flight.deadline)
    except TimeoutError as error:
        if not future.done():
            raise DeadlineExceededError(
                f"no batch within {flight.deadline:g} s; raise `timeout` if batches take longer"
            ) from error
        made = future.result()  # the batch itself failed with a time-out, or came at the last moment
    finally:
        counters.add("wait_seconds", time.perf_counter() - start)
    backlog.remove(waiting.popleft())
    return made.item


def _weight(future: "Future[Made[Any]]") -> int:
    return 0 if future.cancelled() or future.exception() else future.result().num_bytes
