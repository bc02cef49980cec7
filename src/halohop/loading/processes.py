"""Worker processes as the trainer sees them: orders go out, batches come back, and none is left behind at the end."""

import atexit
import multiprocessing
import os
import platform
import signal
import socket
import sys
import threading
import warnings
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from typing import Any, Generic

from halohop.errors import BatchError, InputError
from halohop.linux import has_memory_files, has_process_descriptors, process_descriptor
from halohop.loading.channel import Borrower, Loan, pack, unpack
from halohop.loading.pipeline import Item, Job, Made, Spec
from halohop.loading.worker import Order, Outcome, WorkerContext, run
from halohop.loading.worker_pipe import WorkerPipe
from halohop.store.mapped import shortened_files
from halohop.telemetry import Counters

_GRACE = 1.0
"""Seconds that a worker has to end by itself before it is killed."""


class Processes(Generic[Spec, Item]):
    """Forked processes that make items.

    They end when they are stopped, when the interpreter ends, and when the trainer is killed.

    Args:
        context: what they work with.
        count: how many.
        counters: the trainer's; the workers' sums are added to them.
        land: applied to each item in the trainer.
    """

    def __init__(
        self,
        context: WorkerContext[Spec, Item],
        count: int,
        counters: Counters,
        land: Callable[[Item], Item] | None = None,
    ) -> None:
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._workers: list[_Worker[Item]] = []
        atexit.register(self.stop)
        try:
            for number in range(count):
                self._workers.append(_Worker(number, *_fork(number, context), counters, land or _as_it_is))
        except BaseException:
            self.stop()
            raise

    @property
    def complete(self) -> bool:
        """Whether all workers live."""
        return not any(worker.lost for worker in self._workers)

    def submit(self, job: Job[Spec]) -> "Future[Made[Item]]":
        with self._lock:
            return min(self._workers, key=lambda worker: worker.load).submit(job)

    def stop(self) -> None:
        """Ends the workers, whatever they do. In a process that inherited this object it does nothing."""
        if os.getpid() == self._owner:
            for worker in self._workers:
                worker.cut()
            for worker in self._workers:
                worker.join()
            atexit.unregister(self.stop)


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class Kept(Generic[Spec, Item]):
    """Processes that outlive the iteration that they serve. They end when neither a loader nor an iteration refers to this.

    Args:
        number: of the state of the user's data that they were forked with.
        functions: of the user's, that they were forked with.
    """

    processes: Processes[Spec, Item]
    number: int
    functions: tuple[object, ...] = ()

    def __post_init__(self) -> None:
        weakref.finalize(self, self.processes.stop)

    def serves(self, number: int, functions: tuple[object, ...] = ()) -> bool:
        """Whether all of them live, and have this state of the data and these functions."""
        same = all(mine is other for mine, other in zip(self.functions, functions, strict=True))
        return same and self.number == number and self.processes.complete

    def submit(self, job: Job[Spec]) -> "Future[Made[Item]]":
        return self.processes.submit(job)

    def stop(self) -> None:
        """They stay for the next one."""


class _Worker(Generic[Item]):
    """The trainer's view of one worker: a thread that takes its outcomes, and at the end sees to its process."""

    def __init__(
        self, number: int, process: BaseProcess, pipe: WorkerPipe, counters: Counters, land: Callable[[Item], Item]
    ) -> None:
        self._name = f"worker process {number} (pid {process.pid})"
        self._process = process
        self._pipe = pipe
        self._counters = counters
        self._land = land
        self._borrower = Borrower()
        self._ordered = 0
        self._lock = threading.Lock()
        self._pending: dict[int, Future[Made[Item]]] = {}
        self._lost: str | None = None
        self._thread = threading.Thread(target=self._listen, name=f"halohop-loader-{number}", daemon=True)
        self._thread.start()

    @property
    def lost(self) -> bool:
        return self._lost is not None

    @property
    def load(self) -> tuple[int, int]:
        """How many items it owes, and how many it was ever asked for: among equals, turns keep their memory small."""
        return len(self._pending), self._ordered

    def submit(self, job: Job[Any]) -> "Future[Made[Item]]":
        future: Future[Made[Item]] = Future()
        number = self._ordered
        self._ordered += 1
        with self._lock:
            if self._lost is not None:
                future.set_exception(BatchError(self._lost))
                return future
            self._pending[number] = future
        try:
            self._pipe.send(pack(Order(number=number, job=job, returned=self._borrower.returned())))
        except OSError:
            self._pipe.cut()  # so that the thread sees it, too, and fails what is pending
        except BaseException:  # Ctrl-C, say: half an order may be on the line
            self._pipe.cut()
            raise
        return future

    def cut(self) -> None:
        self._pipe.cut()

    def join(self) -> None:
        if self._thread is not threading.current_thread():  # a forgotten iterator is ended wherever it is found
            self._thread.join(2 * _GRACE)

    def _listen(self) -> None:
        try:
            while (received := self._pipe.receive()) is not None:
                self._take(*received)
        finally:
            self._end()

    def _take(self, message: bytearray, descriptor: int | None) -> None:
        outcome = unpack(message)
        if descriptor is not None:
            assert isinstance(outcome, Loan)
            self._borrower.map(outcome, descriptor)
            self._counters.add_all({"shared_buffers": 1, "shared_bytes": outcome.num_bytes})
            return
        assert isinstance(outcome, Outcome)
        self._counters.add_all(outcome.counts)
        self._borrower.forget(outcome.forgotten)
        future = self._pending.pop(outcome.number)
        if not future.set_running_or_notify_cancel():
            self._borrower.decline(outcome.value)
            return
        try:
            value = self._borrower.unpack(outcome.value)
            if outcome.failed:
                error, cause, trace = value
                error.__cause__ = cause
                error.add_note(f"Traceback in {self._name}:\n{trace}")
                future.set_exception(error)
            else:
                future.set_result(Made(item=self._land(value), num_bytes=outcome.num_bytes))
        except Exception as error:
            failure = BatchError(f"a batch of {self._name} could not be read: {type(error).__name__}: {error}")
            failure.__cause__ = error
            future.set_exception(failure)

    def _end(self) -> None:
        self._process.join(_GRACE)
        if self._process.exitcode is None:
            self._process.kill()
            self._process.join()
        with self._lock:
            self._lost = f"{self._name} {_fate(self._process.exitcode)}"
            pending, self._pending = self._pending, {}
        for future in pending.values():
            if future.set_running_or_notify_cancel():
                future.set_exception(BatchError(self._lost))
        if self._process.exitcode is not None:
            self._process.close()
        self._pipe.close()


def _as_it_is(item: Item) -> Item:
    return item


def require_processes(*, local: bool) -> None:
    """Checks that worker processes can be had: of this system, and of the graph, whose partitions must all be `local`.

    Raises:
        InputError: this is not Linux 5.3 or newer, or other hosts hold partitions.
    """
    if sys.platform != "linux" or not (has_memory_files() and has_process_descriptors()):
        raise InputError(f"run='processes' needs Linux 5.3 or newer, got {sys.platform} {platform.release()}; use run='threads'")
    if not local:
        raise InputError(
            "run='processes' needs all partitions on this host: connections do not survive a fork; use run='threads'"
        )


def _fork(number: int, context: WorkerContext[Any, Any]) -> tuple[BaseProcess, WorkerPipe]:
    near, far = socket.socketpair()
    trainer = process_descriptor(os.getpid())
    try:
        process = multiprocessing.get_context("fork").Process(
            target=run, args=(number, context, near, far, trainer), name=f"halohop-loader-{number}", daemon=True
        )
        with warnings.catch_warnings():
            # Python warns of forking where there are threads. The worker takes no lock that one of them can hold: it has its own.
            warnings.simplefilter("ignore", DeprecationWarning)
            process.start()
        assert process.pid is not None
        return process, WorkerPipe(near, process_descriptor(process.pid))
    finally:
        far.close()
        os.close(trainer)


def _fate(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        killer = signal.Signals(-exit_code).name
        if -exit_code == signal.SIGBUS and (files := shortened_files()):
            return f"was killed by {killer}: {files[0]} has become shorter since it was mapped; copy it again, and leave it"
        return f"was killed by {killer}; if memory ran out, lower num_workers, prefetch_factor, backlog_bytes or batch_size"
    return f"ended with exit code {exit_code} before it had made its batches"
