"""Everything below a process, however often it forked and whatever process groups it made, and its end.

A process that is a child subreaper is given the orphans among its descendants, so that a walk from it by parents misses none.
Linux only.
"""

import os
import signal
import threading
import time
from collections import defaultdict
from contextlib import suppress

from halohop.linux import parents

GRACE_S = 3.0
"""Seconds between asking processes to end and killing them."""

_KILL_S = 3.0
"""Longest wait for killed processes to be gone: one may hang in a file system that does not answer."""

_LOOK_S = 0.03


def descendants(ancestor: int) -> set[int]:
    """The numbers of all processes below one, without those that have ended and were not waited for."""
    children = defaultdict(list)
    for process, parent, state in parents():
        children[parent].append((process, state))
    found: set[int] = set()
    above = [ancestor]
    while above:
        for number, state in children[above.pop()]:
            above.append(number)
            if state not in "ZX":
                found.add(number)
    return found


def end_all(*, grace: float = GRACE_S) -> set[int]:
    """Ends all processes below this one: asks its children (torchrun asks its workers), and after a grace kills what is left.

    Returns:
        The numbers of those that could not be ended; none, unless the system itself holds them.
    """
    pause = threading.Event()  # is never set
    _signal(_children(), signal.SIGTERM)
    deadline = time.monotonic() + grace
    while (left := descendants(os.getpid())) and time.monotonic() < deadline:
        pause.wait(_LOOK_S)
    deadline = time.monotonic() + _KILL_S
    while left and time.monotonic() < deadline:
        _signal(left, signal.SIGKILL)
        pause.wait(_LOOK_S)
        left = descendants(os.getpid())
    return left


def _children() -> set[int]:
    return {process for process, parent, _ in parents() if parent == os.getpid()}


def _signal(numbers: set[int], kind: signal.Signals) -> None:
    for number in numbers:
        with suppress(ProcessLookupError, PermissionError):  # it has ended, or has become another user's
            os.kill(number, kind)
