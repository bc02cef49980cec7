"""A table whose rows a client makes: until they are written, others wait for them."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

from halohop.errors import DeadlineExceededError
from halohop.tables.deadlines import Deadlines

_IDLE_SECONDS = 60.0
"""A client that has written nothing for so long is not waited for, and another one may take its place."""


class Filling:
    """Who writes the rows of a new table, and who waits until they are written.

    Args:
        name: of the table.
        sender: the client that writes them.
        deadlines: of those who wait.
    """

    def __init__(self, name: str, sender: str, deadlines: Deadlines) -> None:
        self._name = name
        self._sender = sender
        self._deadlines = deadlines
        self._lock = threading.Lock()
        self._used = time.monotonic()
        self._is_over = False
        self._waiting: list[tuple[Future[Any], Callable[[], Any]]] = []

    def is_by(self, sender: str) -> bool:
        """Whether this client is to write the rows; it takes the place of one that has written nothing for long."""
        with self._lock:
            if not self._is_over and time.monotonic() - self._used > _IDLE_SECONDS:
                self._sender = sender
            if self._is_over or sender != self._sender:
                return False
            self._used = time.monotonic()
            return True

    def is_open_to(self, sender: str) -> bool:
        """Whether a client may use the table: the one that writes its rows may, and it counts as used."""
        if self._is_over:  # in a forked process, a thread that is not there may hold the lock
            return True
        with self._lock:
            if not self._is_over and sender == self._sender:
                self._used = time.monotonic()
                return True
            return self._is_over

    @property
    def is_over(self) -> bool:
        """Whether all rows are written."""
        return self._is_over

    def when_over(self, action: Callable[[], Any]) -> "Future[Any]":
        """What the action returns, or the future that it returns comes to, once the rows are written.

        Raises (in the future):
            DeadlineExceededError: the client has written nothing for long.
        """
        future: Future[Any] = Future()
        with self._lock:
            if not self._is_over:
                self._waiting.append((future, action))
                if len(self._waiting) == 1:
                    self._deadlines.set(self, _IDLE_SECONDS, self._expire)
                return future
        _run(future, action)
        return future

    def end(self) -> None:
        """The rows are written, or the table is gone: all who wait go on. Safe to call twice."""
        with self._lock:
            self._is_over = True
            waiting, self._waiting = self._waiting, []
        self._deadlines.clear(self)
        for future, action in waiting:
            _run(future, action)

    def _expire(self) -> None:
        with self._lock:
            left = self._used + _IDLE_SECONDS - time.monotonic()
            if left > 0:
                self._deadlines.set(self, left, self._expire)
                return
            waiting, self._waiting = self._waiting, []
        for future, _ in waiting:
            text = (
                f"the rows of table {self._name!r} are not all written, and the client that makes them has written none for "
                f"{_IDLE_SECONDS:g} s; make the table again, or drop it"
            )
            future.set_exception(DeadlineExceededError(text))


def _run(future: "Future[Any]", action: Callable[[], Any]) -> None:
    try:
        reply = action()
    except Exception as error:
        future.set_exception(error)
        return
    if isinstance(reply, Future):
        reply.add_done_callback(partial(_copy, future))
    else:
        future.set_result(reply)


def _copy(future: "Future[Any]", done: "Future[Any]") -> None:
    error = done.exception()
    if error is None:
        future.set_result(done.result())
    else:
        future.set_exception(error)
