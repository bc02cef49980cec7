"""Ctrl-C and requests to end: one line and exit code 128 + the signal's number, at any moment of a command.

Python runs a handler between two steps of its main thread, and libraries may catch what it raises. So there are three answers:
before a command begins nothing has to be undone, and the process ends at once; later the handler raises `Stopped`, and contexts
undo what they have begun; and a thread, which learns of a signal even while the main thread is in foreign code, ends the process
where that takes longer than `GRACE_S`.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from types import FrameType, TracebackType
from typing import Self

GRACE_S = 4.5
"""Seconds that a command has to undo what it has begun."""
_AGAIN_S = 0.02
EXIT_RESUMABLE = 75
"""As of `halohop.recipes.stopping`, which is not imported this early."""

_WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "terminated: its terminal is gone"}
_SHOW_CURSOR = "\x1b[?25h"


class Stopped(SystemExit):
    """A signal asks the command to end; the code is 128 + its number."""


class Resumable(SystemExit):
    """A process of the command, or the command itself, was asked to end, and has left a state to go on from: exit code 75."""

    def __init__(self) -> None:
        super().__init__(EXIT_RESUMABLE)


class _Stage(Enum):
    starting = 1  # nothing has to be undone
    working = 2
    ended = 3  # what the command returned counts


class Signals:
    """Answers signals for a command from its first statement to its end; use it as a context manager, in the main thread.

    Example:
        >>> with Signals() as signals:  # doctest: +SKIP
        ...     import torch  # Ctrl-C ends the process at once
        ...     with signals.working():
        ...         train()  # Ctrl-C raises Stopped
    """

    def __init__(self) -> None:
        self._stage = _Stage.starting
        self._first: signal.Signals | None = None
        self._speaking, self._said = threading.Lock(), False
        self._swallowed = threading.Event()
        self._pause = threading.Event()  # is never set

    @contextmanager
    def working(self) -> Iterator[None]:
        """From now on something may have to be undone: the first signal raises `Stopped`, later ones change nothing."""
        self._stage = _Stage.working
        yield

    def __enter__(self) -> Self:
        read_end, write_end = os.pipe()
        os.set_blocking(write_end, False)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        os.register_at_fork(after_in_child=_answer_no_more)
        threading.Thread(target=self._watch, args=(read_end,), name="halohop-signals", daemon=True).start()
        for number in _WORDS:
            if signal.getsignal(number) != signal.SIG_IGN:  # as nohup and shells ask for
                signal.signal(number, self._handle)
        sys.unraisablehook = self._unraisable
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stage = _Stage.ended
        if self._first is not None:
            self._say(self._first)
        if self._first is not None and not isinstance(error, Resumable):  # whatever libraries have made of the exception
            raise Stopped(128 + self._first) from None

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._first is not None or self._stage is _Stage.ended:
            return
        if self._stage is _Stage.working and _is_importing(frame):
            self._swallowed.set()
            return
        self._first = signal.Signals(number)
        if self._stage is _Stage.starting:
            self._end_now(self._first)
        raise Stopped(128 + number)

    def _watch(self, descriptor: int) -> None:
        """Runs in a thread: the interpreter's own handler, which waits for none, writes the numbers of signals to the pipe."""
        number = signal.Signals(os.read(descriptor, 1)[0])
        while number not in _WORDS:
            number = signal.Signals(os.read(descriptor, 1)[0])
        deadline = time.monotonic() + (0 if self._stage is _Stage.starting else GRACE_S)
        while self._swallowed.wait(max(deadline - time.monotonic(), 0)):
            self._pause.wait(_AGAIN_S)
            self._swallowed.clear()
            self._first = None
            signal.pthread_kill(threading.main_thread().ident or 0, number)  # again, for the main thread's next statement
        self._end_now(number)

    def _end_now(self, number: signal.Signals) -> None:
        self._say(number)
        os._exit(128 + number)

    def _say(self, number: signal.Signals) -> None:
        with self._speaking:  # the main thread and the watching one may both come here; the line must be out before either ends
            if not self._said:
                cursor = _SHOW_CURSOR if os.isatty(2) else ""  # a display that was not ended has hidden it
                os.write(2, f"{cursor}halohop: {_WORDS[number]}\n".encode())
            self._said = True

    def _unraisable(self, unraisable: "sys.UnraisableHookArgs") -> None:
        """A finalizer or a callback that the signal interrupted has swallowed `Stopped`, or meets an object left half made."""
        if unraisable.exc_type is Stopped:
            self._swallowed.set()
        elif self._first is None:
            sys.__unraisablehook__(unraisable)


def _is_importing(frame: FrameType | None) -> bool:
    """Whether a module is being imported: foreign code that initialises itself may abort the process at an exception."""
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def _answer_no_more() -> None:
    """In a forked child, which has the pipe, but is not the command."""
    signal.set_wakeup_fd(-1)
    for number in _WORDS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
