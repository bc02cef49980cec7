"""The end of a process that `multiprocessing` has started: whether it failed is known then, and not at the interpreter's exit."""

import multiprocessing
import sys
import threading
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from multiprocessing.util import Finalize
from types import FrameType
from typing import Protocol


class Leave(Protocol):
    """Ends something, after the others have come where `wait` is true."""

    def __call__(self, *, wait: bool) -> None: ...


def at_child_end(leave: Leave) -> Callable[[], object]:
    """Has `leave` called when the function of this process ends; it does not wait for others where that has failed.

    Returns:
        What takes it back. In a process that `multiprocessing` has not started, nothing is to be done.
    """
    if multiprocessing.parent_process() is None:
        return _nothing
    main = _main_of_child()
    return Finalize(None, lambda: leave(wait=not _failing(main)), exitpriority=0).cancel


def _main_of_child() -> FrameType | None:
    """The call of `multiprocessing` that runs this process's function, and then has its exit code in `exitcode`."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None and frame.f_code is not BaseProcess._bootstrap.__code__:  # type: ignore[attr-defined]
        frame = frame.f_back
    return frame


def _failing(main: FrameType | None) -> bool:
    """True if an error ends this process. Python 3.13 handles the error before it cleans up, older versions afterwards."""
    error = sys.exc_info()[1]
    if error is None:
        return bool(main and main.f_locals.get("exitcode"))
    return not (isinstance(error, SystemExit) and not error.code)


def _nothing() -> None:
    pass
