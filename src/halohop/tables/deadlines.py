"""Deadlines of things that wait, with one thread for all of them."""

import logging
import threading
import time
from collections.abc import Callable, Hashable

_LOG = logging.getLogger(__name__)
_JOIN_SECONDS = 5.0
_LONGEST = 3600.0


class Deadlines:
    """Calls a function for each key whose time is over. The thread begins with the first key; close it.

    Args:
        name: of the thread.

    Example:
        >>> import queue
        >>> over = queue.Queue()
        >>> deadlines = Deadlines(name="deadlines")
        >>> deadlines.set("later", 60.0, lambda: over.put("later"))
        >>> deadlines.set("soon", 0.01, lambda: over.put("soon"))
        >>> deadlines.clear("later")
        >>> over.get(timeout=10.0), len(deadlines)
        ('soon', 0)
        >>> deadlines.close()
    """

    def __init__(self, *, name: str) -> None:
        self._name = name
        self._changed = threading.Condition()
        self._until: dict[Hashable, tuple[float, Callable[[], object]]] = {}
        self._looks_at = 0.0  # when the thread looks again by itself
        self._thread: threading.Thread | None = None
        self._closed = False

    def set(self, key: Hashable, seconds: float, action: Callable[[], object]) -> None:
        """From now on the key has so many seconds, whatever it had before; then the action is called, in the thread. What it
        raises is logged."""
        with self._changed:
            if self._closed:
                return
            until = time.monotonic() + seconds
            self._until[key] = until, action
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            elif until < self._looks_at:
                self._changed.notify()

    def clear(self, key: Hashable) -> None:
        """The key waits no more."""
        with self._changed:
            self._until.pop(key, None)

    def close(self) -> None:
        """No deadline is called any more. Safe to call twice."""
        with self._changed:
            self._closed = True
            self._until.clear()
            self._changed.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_JOIN_SECONDS)

    def __len__(self) -> int:
        return len(self._until)

    def _run(self) -> None:
        while (actions := self._wait()) is not None:
            for action in actions:
                try:
                    action()
                except Exception:
                    _LOG.exception("%s: what follows a deadline failed", self._name)

    def _wait(self) -> list[Callable[[], object]] | None:
        """What is to be called now; waits for it. None once this is closed."""
        with self._changed:
            while not self._closed:
                now = time.monotonic()
                if over := [key for key, (until, _) in self._until.items() if until <= now]:
                    return [self._until.pop(key)[1] for key in over]
                self._looks_at = min([now + _LONGEST, *(until for until, _ in self._until.values())])
                self._changed.wait(self._looks_at - now)
            return None
