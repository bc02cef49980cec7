"""The end of a process that `multiprocessing` has started: whether it failed is known then, and not at the interpreter's exit."""

import multiprocessing
import sys
from collections.abc import Callable
from multiprocessing.util import Finalize
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
    return Finalize(None, lambda: leave(wait=not _failing()), exitpriority=0).cancel


def _failing() -> bool:
    """Whether an error ends this process; that `multiprocessing` cleans up meanwhile is its ``finally``."""
    error = sys.exc_info()[1]
    return error is not None and not (isinstance(error, SystemExit) and not error.code)


def _nothing() -> None:
    pass
