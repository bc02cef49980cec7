"""Work in threads that the caller need not wait for: where one hangs in another library, the caller's deadline counts."""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from halohop.errors import DeadlineExceededError

SLOWEST = 1 << 20
"""Bytes a second of the slowest storage: a write of a file may take this much longer than a deadline that is for one answer."""
_LEAVE_S = 5.0  # for what a thread does at the moment
_LOOK_S = 1.0  # a signal that another thread takes does not wake the main thread

Task = TypeVar("Task")
Report = Callable[[int], None]
"""Called by a task with how much more of it is done; raises where the work has been stopped."""


class _StoppedError(Exception):
    """Another task has failed, or the caller was interrupted."""


def in_threads(
    do: Callable[[Task, Report], None],
    tasks: Sequence[Task],
    *,
    threads: int,
    deadline: float,
    name: str,
    on_done: Callable[[int], None],
) -> None:
    """Does all tasks, a thread for each of some at a time.

    Args:
        do: does one, and reports now and then.
        tasks: in the order in which they begin.
        threads: how many at most.
        deadline: seconds from one report to the next, of any thread.
        name: of the work, for the error.
        on_done: called in this thread with what is reported.

    Raises:
        DeadlineExceededError: nothing was reported for so long.
        Exception: the first that a task raised.

    Example:
        >>> done = []
        >>> in_threads(lambda n, report: report(n), [1, 2], threads=2, deadline=9, name="add", on_done=done.append)
        >>> sum(done)
        3
    """
    waiting, reports = queue.SimpleQueue[Task](), queue.SimpleQueue[int | BaseException | None]()
    for task in tasks:
        waiting.put(task)
    stop = threading.Event()

    def report(count: int) -> None:
        if stop.is_set():
            raise _StoppedError
        reports.put(count)

    def work() -> None:
        try:
            while not stop.is_set():
                try:
                    task = waiting.get_nowait()
                except queue.Empty:
                    break
                do(task, report)
            reports.put(None)
        except _StoppedError:
            reports.put(None)
        except BaseException as error:
            reports.put(error)

    team = [
        threading.Thread(target=work, name=f"halohop-{name}-{number}", daemon=True) for number in range(min(threads, len(tasks)))
    ]
    for thread in team:
        thread.start()
    try:
        running, last, leave = len(team), time.monotonic(), _LEAVE_S
        while running:
            try:
                found = reports.get(timeout=min(_LOOK_S, deadline))
            except queue.Empty:
                if time.monotonic() - last >= deadline:
                    leave = 0.0  # no thread does anything
                    raise DeadlineExceededError(
                        f"{name}: nothing has come for {deadline:g} s; see whether the network and the "
                        "storage work, and start it again: it goes on from here"
                    ) from None
                continue
            last = time.monotonic()
            if isinstance(found, BaseException):
                raise found
            if found is None:
                running -= 1
            else:
                on_done(found)
    finally:
        stop.set()
        end = time.monotonic() + leave
        for thread in team:
            thread.join(max(end - time.monotonic(), 0))
