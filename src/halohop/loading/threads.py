"""Makers in this process: the caller itself, or threads."""

import atexit
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Generic

import torch

from halohop.loading.pipeline import Item, Job, Made, Spec, fulfil
from halohop.telemetry import Counters

_SETTLING = 10.0
"""Seconds that a thread may take to start on a busy machine."""


class Inline(Generic[Spec, Item]):
    """Makes each item in the caller, when it is asked for."""

    def __init__(self, make: Callable[[Spec], Made[Item]], counters: Counters | None = None) -> None:
        self._make = make
        self._counters = counters or Counters()

    def submit(self, job: Job[Spec]) -> "Future[Made[Item]]":
        future: Future[Made[Item]] = Future()
        fulfil(future, self._make, job, self._counters)
        return future

    def stop(self) -> None:
        """Nothing is left to end."""


class Threads(Generic[Spec, Item]):
    """Daemon threads that make items. (A ThreadPoolExecutor would join a stuck thread at exit, and hang there.)

    A script may end while it holds an unfinished iterator. The threads are stopped then too, since one that is inside torch when
    the interpreter goes away takes the whole process down with SIGABRT.
    """

    def __init__(self, make: Callable[[Spec], Made[Item]], count: int, counters: Counters | None = None) -> None:
        self._make = make
        self._counters = counters or Counters()
        self._jobs: SimpleQueue[tuple[Future[Made[Item]], Job[Spec]] | None] = SimpleQueue()
        self._settled = threading.Semaphore(0)
        self._threads = [threading.Thread(target=self._work, name=f"halohop-loader-{n}", daemon=True) for n in range(count)]
        atexit.register(self.stop, grace=2.0)
        intra_op = torch.get_num_threads()
        for thread in self._threads:
            thread.start()
        for _ in self._threads:
            self._settled.acquire(timeout=_SETTLING)
        torch.set_num_threads(intra_op)  # what makers chose for themselves is torch's default for all new threads until then

    def submit(self, job: Job[Spec]) -> "Future[Made[Item]]":
        future: Future[Made[Item]] = Future()
        self._jobs.put((future, job))
        return future

    def stop(self, *, grace: float = 1.0) -> None:
        """Drops what is not begun and lets the threads end; waits `grace` seconds at most, for a stuck one too."""
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

    def _next(self) -> "tuple[Future[Made[Item]], Job[Spec]] | None":
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
        fulfil(todo[0], self._make, todo[1], self._counters)
        return True
