"""A request to end (SIGTERM) that training answers at its next step: it saves where it is, and ends with an exit code of its own.

Schedulers ask so before they take a machine away, and start the job again later: Slurm at the end of its time and before a job is
requeued, Kubernetes before a pod is moved.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

EXIT_RESUMABLE = 75
"""Exit code of a trainer that was asked to end, and has left a state to go on from (EX_TEMPFAIL of sysexits.h)."""


class ResumableStop(SystemExit):
    """Training was asked to end, and has saved where it is; the exit code is `EXIT_RESUMABLE`."""

    def __init__(self) -> None:
        super().__init__(EXIT_RESUMABLE)


def never() -> bool:
    """Nobody asks."""
    return False


@contextmanager
def answering_sigterm() -> Iterator[Callable[[], bool]]:
    """While the context lasts, SIGTERM does not end this process: it is noted, and what the context yields says so. The second
    one ends it at once. Only the main thread of a process can answer; in another one the signal keeps its effect.
    """
    if threading.current_thread() is not threading.main_thread():
        yield never
        return
    asked = threading.Event()

    def answer(number: int, frame: FrameType | None) -> None:
        if asked.is_set():
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        asked.set()

    waking = signal.set_wakeup_fd(-1)  # a command's own answer to signals does not count the seconds of the step
    before = signal.signal(signal.SIGTERM, answer)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGTERM, before if before is not None else signal.SIG_DFL)
        signal.set_wakeup_fd(waking)
