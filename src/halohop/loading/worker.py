"""What runs in a forked worker: it has the graph without a copy, and makes batches where the trainer can read them."""

import gc
import os
import signal
import socket
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Generic

import torch

from halohop import ops
from halohop.errors import BatchError
from halohop.loading.channel import Lender, Packed, pack, unpack
from halohop.loading.pipeline import Item, Job, Made, Spec, attempt
from halohop.loading.worker_pipe import WorkerPipe
from halohop.telemetry import Counters


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """From the trainer: a job, and the numbers of the buffers that it gives back."""

    number: int
    job: Job[Any]
    returned: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """From a worker: the item of an order, or (error, cause, traceback).

    Args:
        number: the order's.
        failed: which of the two it is.
        value: the item or the failure.
        num_bytes: what the item weighs.
        counts: what the worker has counted since its last outcome.
        forgotten: buffers that the trainer need not map any longer.
    """

    number: int
    failed: bool
    value: Packed
    num_bytes: int
    counts: dict[str, float]
    forgotten: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerContext(Generic[Spec, Item]):
    """What a worker works with.

    Args:
        pool: the memory that items borrow; its buffers are made in shared memory there.
        counters: whose sums the trainer wants, beside its own; `make` is timed in the first.
        settle: called first in the worker, with its number.
        make: makes the item of a spec.
    """

    pool: ops.Pool
    counters: tuple[Counters, ...]
    settle: Callable[[int], None]
    make: Callable[[Spec], Made[Item]]


def run(number: int, context: WorkerContext[Spec, Any], near: socket.socket, far: socket.socket, trainer: int) -> None:
    gc.freeze()  # the trainer's garbage is not ours to finalize
    near.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the trainer ends us then
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    torch.set_num_threads(1)
    pipe = WorkerPipe(far, trainer)
    orders: SimpleQueue[Order] = SimpleQueue()
    threading.Thread(target=_hear, args=(pipe, orders), name="halohop-orders", daemon=True).start()
    try:
        _Maker(number, context, pipe).serve(orders)
    except OSError:  # the line is cut; the other thread may not have had the time to see it
        return


def _hear(pipe: WorkerPipe, orders: "SimpleQueue[Order]") -> None:
    """Takes orders while the worker is busy, so that the trainer never waits; ends the process when no more can come."""
    while (received := pipe.receive()) is not None:
        orders.put(unpack(received[0]))
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(0)


class _Maker(Generic[Spec]):
    def __init__(self, number: int, context: WorkerContext[Spec, Any], pipe: WorkerPipe) -> None:
        self._context = context
        self._pipe = pipe
        self._lender = Lender(context.pool, lambda loan, descriptor: pipe.send(pack(loan), descriptor))
        for counters in context.counters:
            counters.begin_anew()
        self._counted: dict[str, float] = {}
        self._unsettled: BatchError | None = None
        try:
            context.settle(number)
        except Exception as error:
            self._unsettled = BatchError(f"worker_init_fn failed in worker {number}: {type(error).__name__}: {error}")
            self._unsettled.__cause__ = error

    def serve(self, orders: "SimpleQueue[Order]") -> None:
        todo: deque[Order] = deque()
        while True:
            while not todo or not orders.empty():
                todo.append(orders.get())
                self._lender.take_back(todo[-1].returned)
            self._pipe.send(pack(self._outcome(todo.popleft())))

    def _outcome(self, order: Order) -> Outcome:
        try:
            if self._unsettled is not None:
                raise self._unsettled
            made = attempt(self._context.make, order.job, self._context.counters[0])
            failed, num_bytes, value = False, made.num_bytes, self._packed(made.item, order.job.number)
        except BaseException as error:
            failed, num_bytes, value = True, 0, Packed(data=_pickled_failure(error))
        counted, self._counted = self._counted, {}
        for counters in self._context.counters:
            self._counted |= counters.snapshot()
        return Outcome(
            number=order.number,
            failed=failed,
            value=value,
            num_bytes=num_bytes,
            counts={name: amount - counted.get(name, 0) for name, amount in self._counted.items()},
            forgotten=self._lender.forgotten(),
        )

    def _packed(self, item: Any, number: int) -> Packed:
        try:
            return self._lender.pack(item)
        except Exception as error:
            raise BatchError(
                f"batch {number} cannot leave its worker process ({type(error).__name__}: {error}); return what can be pickled, "
                "or use run='threads'"
            ) from error


def _pickled_failure(error: BaseException) -> bytes:
    """A failure with its cause and its traceback, as far as they can be pickled; the traceback can."""
    trace = "".join(traceback.format_exception(error))
    sent = error if _travels(error) else BatchError(f"{type(error).__name__}: {error}")
    return pack((sent, error.__cause__ if _travels(error.__cause__) else None, trace))


def _travels(error: BaseException | None) -> bool:
    """Whether an exception arrives as what it was. (Those whose constructor wants other arguments than `args` do not.)"""
    try:
        return type(unpack(pack(error))) is type(error)
    except Exception:
        return False
