"""Work that is shared with forked processes and leaves nothing behind but files, such as compiling."""

import os
import select
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress

import torch

from halohop.linux import has_process_descriptors, process_descriptor

_MOST = 256  # calls: a number is a byte


def call_all(calls: Sequence[Callable[[], object]], *, processes: int, deadline: float) -> bool:
    """Makes each call in one of several processes: this one, and others that are forked from it and have ended at the end.

    Args:
        calls: fewer than 257, those that take longest first.
        processes: how many at most; one where the system cannot fork or this process has used a GPU.
        deadline: seconds that the others may take when this one has nothing left to do; those that take longer are killed.

    Returns:
        Whether all calls were made and returned, those of other processes included.

    Raises:
        Exception: what a call raised in this process.

    Example:
        >>> call_all([lambda: None] * 3, processes=2, deadline=60.0)
        True
    """
    assert len(calls) <= _MOST
    numbers, into = os.pipe()  # what reads a number makes its call
    os.write(into, bytes(range(len(calls))))
    os.close(into)
    children: list[int] = []
    try:
        for _ in range(min(processes, len(calls)) - 1 if can_fork() else 0):
            children.append(_fork(numbers, calls))
        _make(numbers, calls)
        ended_well = [_ended_well(child, deadline) for child in children]
        return all(ended_well)
    finally:
        os.close(numbers)
        for child in children:
            with suppress(ProcessLookupError, ChildProcessError):  # it was waited for
                signal.pidfd_send_signal(child, signal.SIGKILL)
                os.waitid(os.P_PIDFD, child, os.WEXITED)
            os.close(child)


def can_fork() -> bool:
    """Whether forks of this process work: on Linux, where the system's own libraries allow it, and without a GPU."""
    return sys.platform == "linux" and has_process_descriptors() and not torch.cuda.is_initialized()


def _fork(numbers: int, calls: Sequence[Callable[[], object]]) -> int:
    """A descriptor of the new process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, whose locks the calls do not take
        child = os.fork()
    if child:
        return process_descriptor(child)
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C reaches the whole group; this one ends without a word
        _make(numbers, calls)
        code = 0
    finally:
        os._exit(code)  # what failed is called again where it can be said


def _make(numbers: int, calls: Sequence[Callable[[], object]]) -> None:
    while number := os.read(numbers, 1):
        calls[number[0]]()


def _ended_well(child: int, deadline: float) -> bool:
    """Whether a process ended with code 0; one that takes too long is killed."""
    waiting = select.poll()
    waiting.register(child, select.POLLIN)
    if not waiting.poll(deadline * 1000):
        signal.pidfd_send_signal(child, signal.SIGKILL)
    ended = os.waitid(os.P_PIDFD, child, os.WEXITED)
    return ended is not None and ended.si_code == os.CLD_EXITED and ended.si_status == 0
