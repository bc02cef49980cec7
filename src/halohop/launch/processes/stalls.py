"""Ends processes that hang, so that a job ends with an error: ranks wait for each other, and one that hangs holds up all."""

import os
import signal
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from halohop.alive import REPORT_FILE
from halohop.errors import ClusterError
from halohop.launch.processes.failures import report
from halohop.linux import parents

_LOOK_S = 5.0
_FROZEN_S = 10.0
"""Seconds that a look may be late on a busy machine; if it is later, this process was stopped."""
_GRACE_S = 3.0
"""Seconds between asking a process for its stack and killing it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watched:
    """A process: the time of its report file, when that changed last, and when the process was asked to end."""

    file: Path
    time: int
    changed: float | None = None
    asked: float | None = None


class Stalls:
    """Looks at processes from a thread; use it as a context manager.

    A process that has made a step (see `halohop.alive`), and then none for so many seconds, is ended with SIGABRT, upon which
    Python prints the stacks of its threads. One that is stopped, or ignores this, is killed.

    Args:
        seconds: that a step may take; None: any.
    """

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._watched: dict[int, _Watched] = {}
        self._lock, self._over = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="halohop-stalls", daemon=True)

    def __enter__(self) -> Self:
        if self._seconds is not None:
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        if self._seconds is not None:
            self._thread.join()

    def begin(self, process: int, file: Path) -> None:
        """Looks at a process from now on, by its report file."""
        with self._lock:
            self._watched[process] = _Watched(file=file, time=file.stat().st_mtime_ns)

    def end(self, process: int) -> None:
        """Looks at a process no more, which has ended."""
        with self._lock:
            self._watched.pop(process, None)

    def _run(self) -> None:
        assert self._seconds is not None
        every, last = min(_LOOK_S, self._seconds / 10), time.monotonic()
        while not self._over.wait(every):
            slept, last = time.monotonic() - last > every + _FROZEN_S, time.monotonic()
            if slept:  # this process was stopped, and perhaps all of them
                with self._lock:
                    self._watched = {process: _woken(one, last) for process, one in self._watched.items()}
                continue
            states = {process: state for process, _, state in parents()}
            with self._lock:
                for process, one in self._watched.items():
                    self._watched[process] = self._looked(process, one, stopped=states.get(process) in ("T", "t"))

    def _looked(self, process: int, one: _Watched, *, stopped: bool) -> _Watched:
        assert self._seconds is not None
        now = time.monotonic()
        if one.asked is not None:
            if now - one.asked > _GRACE_S:
                _send(process, signal.SIGKILL)
            return one
        with suppress(OSError):
            if (found := one.file.stat().st_mtime_ns) != one.time:
                return replace(one, time=found, changed=now)
        if one.changed is None or now - one.changed < self._seconds:
            return one
        state = "and is stopped (SIGSTOP)" if stopped else "its log shows where it was"
        error = ClusterError(
            f"it has made no step for {self._seconds:g} s, {state}; if its steps take so long, give them more time (stall)"
        )
        with suppress(OSError):
            report(error, {REPORT_FILE: str(one.file)})
        _send(process, signal.SIGKILL if stopped else signal.SIGABRT)
        return replace(one, asked=now)


def _woken(one: _Watched, now: float) -> _Watched:
    return one if one.changed is None else replace(one, changed=now)


def _send(process: int, kind: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, kind)
