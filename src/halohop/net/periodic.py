"""Something that is done again and again."""

import logging
import threading
from collections.abc import Callable

from halohop.transport.base import Closing

_JOIN_SECONDS = 5.0  # a thread that is still inside torch when the interpreter ends aborts the process (SIGABRT)
_LOG = logging.getLogger(__name__)


class PeriodicThread(Closing):
    """Calls an action at intervals, on a thread of its own, until it is closed. What an action raises is logged.

    Args:
        seconds: from the end of one call to the begin of the next, and before the first.
        action: what to do.
        name: of the thread.
    """

    def __init__(self, seconds: float, action: Callable[[], None], *, name: str) -> None:
        self._seconds = seconds
        self._action = action
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"halohop-{name}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Waits some seconds for a call that is under way; then it is left behind. Safe to call twice."""
        self._closed.set()
        self._thread.join(_JOIN_SECONDS)

    def _run(self) -> None:
        while not self._closed.wait(self._seconds):
            try:
                self._action()
            except Exception:
                _LOG.exception("%s failed; it is tried again in %g s", self._thread.name, self._seconds)
