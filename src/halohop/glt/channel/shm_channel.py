"""`graphlearn_torch.channel.shm_channel`: messages that lie in shared memory, one file each."""

import os
import shutil
import tempfile
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, multiprocessing

from halohop.errors import InputError, MessageTooLargeError
from halohop.files import whole_file
from halohop.glt.channel.base import ChannelBase, QueueTimeoutError, SampleMessage
from halohop.glt.utils.units import parse_size
from halohop.memory import format_size

_SECONDS = 180.0
_SHARED = Path("/dev/shm")


class ShmChannel(ChannelBase):
    """Messages for other processes, which get the channel as an argument. They stay if their sender ends.

    Args:
        capacity: how many may wait.
        shm_size: how many bytes they may have together.

    Raises:
        InputError: no size, or no room for a message.
    """

    def __init__(self, capacity: int = 128, shm_size: str | int = "256MB") -> None:
        if capacity < 1:
            raise InputError(f"capacity={capacity} has no room for a message; give at least 1")
        self._capacity, self._most_bytes, self._pinned = capacity, parse_size(shm_size), False
        context = multiprocessing.get_context("spawn")
        self._sending, self._receiving = context.Semaphore(1), context.Semaphore(1)
        self._sent, self._received = context.Semaphore(0), context.BoundedSemaphore(1)
        self._folder = Path(tempfile.mkdtemp(prefix=f"halohop_{os.getpid()}_", dir=_SHARED if _SHARED.is_dir() else None))
        weakref.finalize(self, _remove, self._folder, os.getpid())

    def pin_memory(self) -> None:
        """Receives tensors in page-locked memory from now on.

        Raises:
            InputError: there is no GPU.
        """
        if not torch.cuda.is_available():
            raise InputError("pin_memory() is for moves to a GPU, and there is none here; leave it out")
        self._pinned = True

    def empty(self) -> bool:
        """Whether no message waits."""
        return not self._waiting()

    def send(self, msg: SampleMessage, **kwargs: Any) -> None:
        """Appends a message, when there is room for it.

        Raises:
            InputError: it holds other things than tensors.
            MessageTooLargeError: there will never be room.
            QueueTimeoutError: there was none until the deadline.
        """
        if wrong := [key for key, value in msg.items() if not isinstance(value, Tensor)]:
            raise InputError(f"the message has {type(msg[wrong[0]]).__name__} {wrong[0]!r}; send tensors")
        own = {key: tensor.detach().cpu().clone() for key, tensor in msg.items()}  # torch would save all that a view is of
        size, deadline = sum(tensor.nbytes for tensor in own.values()), time.monotonic() + _SECONDS
        if size > self._most_bytes:
            raise MessageTooLargeError(
                f"a message of {format_size(size)} does not fit shm_size={format_size(self._most_bytes)}; give the channel more"
            )
        with _held(self._sending, deadline):
            while not self._has_room(size):
                _wait(self._received, deadline)
            last = max(self._waiting(), default=Path("0"))
            with whole_file(self._folder / f"{int(last.stem) + 1:020}.message") as stream:
                torch.save(own, stream)
        self._sent.release()

    def recv(self, timeout_ms: float | None = None, **kwargs: Any) -> SampleMessage:
        """Takes the first message; waits for it 180 seconds, unless other milliseconds are given.

        Raises:
            QueueTimeoutError: there was none.
        """
        deadline = time.monotonic() + (timeout_ms / 1000 if timeout_ms else _SECONDS)
        with _held(self._receiving, deadline):
            _wait(self._sent, deadline)
            first = min(self._waiting())
            message: SampleMessage = torch.load(first, mmap=True, weights_only=True)
            first.unlink()
        with suppress(ValueError):  # a sender has not noticed the last time yet
            self._received.release()
        return {key: tensor.pin_memory() for key, tensor in message.items()} if self._pinned else message

    def _waiting(self) -> list[Path]:
        return list(self._folder.glob("*.message"))

    def _has_room(self, size: int) -> bool:
        sizes = []
        for file in self._waiting():
            with suppress(FileNotFoundError):  # received meanwhile
                sizes.append(file.stat().st_size)
        return not sizes or (len(sizes) < self._capacity and sum(sizes) + size <= self._most_bytes)


def _wait(semaphore: Any, deadline: float) -> None:
    if not semaphore.acquire(timeout=max(deadline - time.monotonic(), 0)):
        raise QueueTimeoutError("the channel stayed empty or full until the deadline; see whether the other process still runs")


@contextmanager
def _held(semaphore: Any, deadline: float) -> Iterator[None]:
    _wait(semaphore, deadline)
    try:
        yield
    finally:
        semaphore.release()


def _remove(folder: Path, made_by: int) -> None:
    if os.getpid() == made_by:
        shutil.rmtree(folder, ignore_errors=True)
