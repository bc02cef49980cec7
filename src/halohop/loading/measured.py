"""Makers where the user names none: this thread or others, whichever was quicker for the first batches."""

import time
from collections.abc import Callable
from concurrent.futures import Future
from statistics import median
from typing import Generic

from halohop.loading.pipeline import Item, Job, Made, PrefetchConfig, Spec
from halohop.loading.threads import Inline, Threads
from halohop.telemetry import Counters

_WINDOWS = 5
"""Times that each way is measured, for as many batches as are in flight: threads make them in bursts."""

_WARMING = 2
"""Batches of the trainer's thread that are not timed: the first ones find no memory and no row in a cache."""

_LARGE = 0.01
"""Seconds of work on a batch from which threads are quicker, and need not be tried."""

_GAIN = 0.9
"""Threads cost a core, so they should take at most as much of the time."""


class Trial:
    """Which way was quicker, for all epochs of a loader.

    A batch of a millisecond takes longer in a thread than in the trainer's: half of it is Python, which one thread at a time
    runs, and a thread that waits for its turn wakes up late. Where the model computes meanwhile, or batches are larger, threads
    win.

    Args:
        config: how many threads there may be, and how far they work ahead.

    Attributes:
        ahead: batches to have in flight now; 0 where each is made when it is asked for.
    """

    def __init__(self, config: PrefetchConfig) -> None:
        self._in_flight = config.workers * config.prefetch
        self._tried = _WINDOWS * self._in_flight
        self._filling = self._in_flight + _WARMING  # threads begin several at once
        self._inline: list[float] = []
        self._threads: list[float] = []
        self._is_over = False
        self.ahead = 0

    def note(self, seconds: float, *, ahead: bool) -> None:
        """From one batch to the next."""
        if self._is_over:
            return
        (self._threads if ahead else self._inline).append(seconds)
        if len(self._threads) == self._filling + self._tried:
            inline, threads = self._pace(self._inline[_WARMING:]), self._pace(self._threads[self._filling :])
            self._end(0 if _GAIN * inline <= threads else self._in_flight)
        elif len(self._inline) == _WARMING + self._tried:
            self.ahead = self._in_flight

    def made(self, seconds: float) -> None:
        """How long the trainer's thread has worked on a batch. If it is a large one, threads are taken without a trial."""
        if seconds > _LARGE and len(self._inline) >= _WARMING and not self._is_over:
            self._end(self._in_flight)

    def _end(self, ahead: int) -> None:
        self.ahead, self._is_over = ahead, True

    def _pace(self, times: list[float]) -> float:
        return median(sum(times[begin : begin + self._in_flight]) for begin in range(0, len(times), self._in_flight))


class Measured(Generic[Spec, Item]):
    """Makes the items of an epoch in the way that a trial prefers."""

    def __init__(self, make: Callable[[Spec], Made[Item]], trial: Trial, count: int, counters: Counters) -> None:
        self._inline = Inline(make, counters)
        self._start: Callable[[], Threads[Spec, Item]] = lambda: Threads(make, count, counters)
        self._threads: Threads[Spec, Item] | None = None
        self._trial = trial
        self._last: tuple[float, bool] | None = None

    def submit(self, job: Job[Spec]) -> "Future[Made[Item]]":
        now, ahead = time.perf_counter(), self._trial.ahead > 0
        if self._last is not None and self._last[1] == ahead:
            self._trial.note(now - self._last[0], ahead=ahead)
        self._last = now, ahead
        if ahead:
            self._threads = self._threads or self._start()
            return self._threads.submit(job)
        begun = time.thread_time()  # which does not count what others do on a busy machine
        made = self._inline.submit(job)
        self._trial.made(time.thread_time() - begun)
        return made

    def stop(self) -> None:
        """Ends the threads, if there are any."""
        if self._threads is not None:
            self._threads.stop()
