"""Keeps several batches in flight and yields them in order, whatever makes them."""

import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from halohop.errors import BatchError, DeadlineExceededError, HalohopError, InputError
from halohop.memory import spare_bytes
from halohop.telemetry import Counters, Gauge

Spec = TypeVar("Spec")
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefetchConfig:
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
class Job(Generic[Spec]):
    """A spec and its place in the order."""

    number: int
    spec: Spec


@dataclass(frozen=True, slots=True, kw_only=True)
class Made(Generic[Item]):
    """An item and the memory that it takes."""

    item: Item
    num_bytes: int = 0


class Makers(Protocol[Spec, Item]):
    """Whoever makes items: this thread, other threads, other processes."""

    def submit(self, job: Job[Spec]) -> "Future[Made[Item]]":
        """Has the item made, now or later. A failure is the future's."""

    def stop(self) -> None:
        """Ends the makers; what is not made by then will not be."""


class Backlog:
    """The batches in flight, made or in the making, and what they weigh together.

    A batch in the making counts as much as the heaviest so far. Before there is one, each worker begins only one.
    """

    def __init__(self, config: PrefetchConfig) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._waiting: list[Future[Made[Any]]] = []
        self._heaviest: int | None = None
        self._peak = 0

    def has_room(self) -> bool:
        """Whether another batch may be begun."""
        with self._lock:
            weight = self._weigh()
            if self._heaviest is None:
                return len(self._waiting) < self._config.workers
            return weight + self._heaviest <= self._config.backlog_bytes

    def add(self, future: "Future[Made[Any]]") -> None:
        with self._lock:
            self._waiting.append(future)

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
        weight = making = 0
        for future in self._waiting:
            if future.done():
                made = _weight(future)
                weight += made
                self._heaviest = max(self._heaviest or 0, made)
            else:
                making += 1
        weight += (self._heaviest or 0) * making
        self._peak = max(self._peak, weight)
        return weight


def in_order(
    specs: Iterable[Spec],
    makers: Makers[Spec, Item],
    config: PrefetchConfig,
    *,
    backlog: Backlog | None = None,
    counters: Counters | None = None,
    ahead: Callable[[], int] | None = None,
) -> Generator[Item, None, None]:
    """Yields the item of every spec, in order; the makers work ahead, by a bounded number of items and of bytes.

    A failure is raised where its item would have come, after the good ones before it. Ending the iteration early stops the
    makers.

    Args:
        specs, makers, config, backlog, counters: what is made, how, within which bounds, and who counts it.
        ahead: how many items may be in flight now; 0 makes each when it is asked for. None: as `config` says.

    Raises:
        BatchError: making failed; the error is the cause (errors of halohop itself pass unwrapped).
        DeadlineExceededError: an item took longer than the deadline.

    Example:
        >>> from halohop.loading.threads import Threads
        >>> list(in_order(range(4), Threads(lambda n: Made(item=n * n), 2), PrefetchConfig(workers=2)))
        [0, 1, 4, 9]
    """
    backlog, counters = backlog or Backlog(config), counters or Counters()
    most = ahead or (lambda: config.workers * config.prefetch)
    jobs = (Job(number=number, spec=spec) for number, spec in enumerate(specs))
    waiting: deque[Future[Made[Item]]] = deque()
    try:
        while True:
            start = time.perf_counter()  # makers without threads make an item when it is submitted
            while not waiting or (len(waiting) < most() and backlog.has_room()):
                job = next(jobs, None)
                if job is None:
                    break
                waiting.append(makers.submit(job))
                backlog.add(waiting[-1])
            if not waiting:
                return
            yield _fetch(waiting, config, backlog, counters, start)
    finally:
        for future in waiting:
            future.cancel()
            backlog.remove(future)
        makers.stop()


def attempt(make: Callable[[Spec], Made[Item]], job: Job[Spec], counters: Counters) -> Made[Item]:
    """``make(job.spec)``, timed; a failure says which batch it was.

    Raises:
        BatchError: `make` raised something that is not halohop's own.
    """
    with counters.span("make"):
        try:
            return make(job.spec)
        except HalohopError:
            raise
        except Exception as error:
            raise BatchError(f"batch {job.number} could not be made: {type(error).__name__}: {error}") from error


def fulfil(future: "Future[Made[Item]]", make: Callable[[Spec], Made[Item]], job: Job[Spec], counters: Counters) -> None:
    """Makes the item, or the failure, that a future waits for, unless the future was cancelled."""
    if future.set_running_or_notify_cancel():
        try:
            future.set_result(attempt(make, job, counters))
        except BaseException as error:
            future.set_exception(error)


def _fetch(
    waiting: "deque[Future[Made[Item]]]", config: PrefetchConfig, backlog: Backlog, counters: Counters, start: float
) -> Item:
    """Waits for the first item, since `start`. (A function of its own, so that nothing holds on to an item that was yielded.)"""
    future = waiting[0]
    try:
        made = future.result(timeout=config.deadline)
    except TimeoutError as error:
        if not future.done():
            raise DeadlineExceededError(
                f"no batch within {config.deadline:g} s; raise `timeout` if batches take longer"
            ) from error
        made = future.result()  # the batch itself failed with a time-out, or came at the last moment
    finally:
        counters.add("wait_seconds", time.perf_counter() - start)
    backlog.remove(waiting.popleft())
    return made.item


def _weight(future: "Future[Made[Any]]") -> int:
    return 0 if future.cancelled() or future.exception() else future.result().num_bytes
