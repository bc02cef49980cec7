"""Memory that batches borrow: fresh pages cost more than the work done in them, so they are used again.

A tensor from a pool is an ordinary tensor. A reference to it, or to any view of it, keeps its memory; when the last one is gone
the memory goes back to the pool. There is nothing to release by hand and nothing to wait for.
"""

import math
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop import memory
from halohop.ops.arguments import ARRAY_DTYPES
from halohop.telemetry import Gauge

SMALL = 1 << 16
"""Bytes from which memory is lent; below, the allocator is as quick, and does not touch new pages."""

_BITS_OF_CLASSES = 2  # of classes in a doubling: at most a fifth of a buffer stays unused

_BYTE = np.dtype(np.uint8)
_LINE = 64  # bytes of the processor's cache

Buffer = NDArray[np.uint8]
"""Memory, ``[num_bytes]``; whatever else must stay alive as long as it does is the array's base."""


def new_memory(num_bytes: int) -> Buffer:
    """A buffer of the process's own, through NumPy, which asks for huge pages and so for fewer page faults.

    It starts at a cache line: products of matrices into other memory take a tenth longer.
    """
    buffer = np.empty(num_bytes + _LINE, np.uint8)
    begin = -buffer.ctypes.data % _LINE
    return buffer[begin : begin + num_bytes]


class Pool:
    """Buffers for tensors of any shape and dtype.

    Args:
        limit_bytes: how much may lie idle; what comes back beyond it is freed, and so is what would lie idle beside a new buffer
            that takes the two beyond it. None: `halohop.memory.spare_bytes`.
        make: makes a buffer of a number of bytes.

    Example:
        >>> pool = Pool()
        >>> x = pool.empty((1000, 100), torch.float32)
        >>> row = x[7]
        >>> del x
        >>> pool.statistics()["idle_bytes"]
        0.0
        >>> del row
        >>> pool.statistics()["idle_bytes"] > 400_000
        True
    """

    def __init__(self, limit_bytes: int | None = None, make: Callable[[int], Buffer] = new_memory) -> None:
        self._limit = memory.spare_bytes() if limit_bytes is None else limit_bytes
        self.start_over(make)

    def start_over(self, make: Callable[[int], Buffer]) -> None:
        """Forgets what lies idle, and has new buffers made by `make`. Also for a forked process: the new lock is free."""
        self._make = make
        self._allocate: Callable[[int], Tensor] | None = None
        self._lock, self._taking = threading.Lock(), threading.local()
        self._idle: dict[int, list[Buffer]] = {}
        self._idle_bytes = 0
        self._made = self._reused = 0
        # Loans may end in any thread at any moment, also in one that holds the lock: that only appends here.
        self._returned: deque[_Loan] = deque()
        self._loans: dict[int, _Loan] = {}

    def delegate(self, allocate: Callable[[int], Tensor]) -> None:
        """From now on `allocate` gives the memory, a uint8 tensor ``[num_bytes]`` a time, and uses it again as it sees fit."""
        self._allocate = allocate

    def empty(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """A contiguous CPU tensor with arbitrary contents."""
        kind = ARRAY_DTYPES.get(dtype)
        num_bytes = math.prod(shape) * dtype.itemsize
        if kind is not None and 0 < num_bytes < SMALL:  # the shortest way for what small batches are made of
            return torch.from_numpy(np.empty(shape, kind))
        if self._allocate is not None and num_bytes >= SMALL:
            return self._allocate(num_bytes).view(dtype).view(shape)
        if num_bytes == 0:  # torch's own can be viewed in any dtype
            return torch.empty(shape, dtype=dtype)
        if kind is None:
            return torch.from_numpy(self.array((num_bytes,), _BYTE)).view(dtype).view(shape)
        return torch.from_numpy(self.array(shape, kind))

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """The same as an array of the process's own memory, for what is no part of a batch: it takes a third of the time."""
        num_bytes = math.prod(shape) * dtype.itemsize
        if num_bytes < SMALL:
            return np.empty(shape, dtype)
        buffer = self._take(_size_class(num_bytes))
        lent: NDArray[Any] = np.ndarray(shape, dtype, buffer)
        loan = _Loan(lent, self._returned.append)
        loan.buffer = buffer
        self._loans[id(loan)] = loan
        return lent

    def trim(self) -> None:
        """Frees what lies idle."""
        with self._lock:
            self._welcome_back()
            self._idle.clear()
            self._idle_bytes = 0

    def statistics(self) -> dict[str, float]:
        """Buffers made and used again, and the bytes that lie idle."""
        with self._lock:
            self._welcome_back()
            return {"made": self._made, "reused": self._reused, "idle_bytes": Gauge(self._idle_bytes)}

    def _take(self, size: int) -> Buffer:
        if getattr(self._taking, "now", False):  # this thread holds the lock: a signal handler or a finalizer interrupted it
            return self._make(size)
        self._taking.now = True
        try:
            with self._lock:
                idle = self._take_idle(size)
        finally:
            self._taking.now = False
        return self._make(size) if idle is None else idle

    def _take_idle(self, size: int) -> Buffer | None:
        self._welcome_back()
        if idle := self._idle.get(size):
            self._reused += 1
            self._idle_bytes -= size
            return idle.pop()
        self._made += 1
        self._make_room(size)
        return None

    def _make_room(self, size: int) -> None:
        """Frees idle buffers, of sizes that came back longest ago first, so that they and a new one keep the limit together."""
        while self._idle_bytes and self._idle_bytes + size > self._limit:
            oldest, buffers = next(iter(self._idle.items()))
            if buffers:
                buffers.pop()
                self._idle_bytes -= oldest
            else:
                del self._idle[oldest]

    def _welcome_back(self) -> None:
        while self._returned:
            loan = self._returned.popleft()
            del self._loans[id(loan)]
            buffer = loan.buffer
            if self._idle_bytes + buffer.nbytes <= self._limit:
                alike = self._idle[buffer.nbytes] = self._idle.pop(buffer.nbytes, [])  # now the last size
                alike.append(buffer)
                self._idle_bytes += buffer.nbytes


class _Loan(weakref.ref[NDArray[Any]]):
    """A buffer that is lent for as long as an array lives. (`weakref.finalize` takes three times as long.)"""

    __slots__ = ("buffer",)

    buffer: Buffer


@cache
def layer_pool() -> Pool:
    """The pool for what layers of this process compute: each step reuses the memory of the step before."""
    pool = Pool()
    if hasattr(os, "register_at_fork"):  # not on Windows
        os.register_at_fork(after_in_child=lambda: pool.start_over(new_memory))
    return pool


def empty(pool: Pool | None, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """From the pool, or without one from new memory."""
    if pool is not None:
        return pool.empty(shape, dtype)
    kind = ARRAY_DTYPES.get(dtype)  # NumPy asks for huge pages
    return torch.empty(shape, dtype=dtype) if kind is None or 0 in shape else torch.from_numpy(np.empty(shape, kind))


def empty_array(pool: Pool | None, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """The same as an array, see `Pool.array`."""
    return np.empty(shape, dtype) if pool is None else pool.array(shape, dtype)


def page_locked(num_bytes: int) -> Tensor:
    """Memory that a GPU reads by itself. Torch recycles it, and only torch knows when the last copy from it has ended."""
    return torch.empty(num_bytes, dtype=torch.uint8, pin_memory=True)


def _size_class(num_bytes: int) -> int:
    """The next of a geometric series of sizes, so that batches of nearly the same size share buffers."""
    step = 1 << max(num_bytes.bit_length() - 1 - _BITS_OF_CLASSES, 0)
    return -(-num_bytes // step) * step
