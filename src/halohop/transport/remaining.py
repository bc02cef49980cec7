"""How long the client waits whose request a thread answers. What is asked of other peers meanwhile must be over before."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_UNTIL: ContextVar[float | None] = ContextVar("_UNTIL", default=None)
_SHARE = 0.75
"""Of the time that the client waits; the rest is for the answer, or for the error that names a peer."""


@contextmanager
def answering(until: float) -> Iterator[None]:
    """This thread answers a request whose client waits until then, on the monotonic clock."""
    token = _UNTIL.set(until)
    try:
        yield
    finally:
        _UNTIL.reset(token)


def seconds_for_peers() -> float | None:
    """How long the answer of a peer may take while this thread answers a request; None if it answers none.

    Example:
        >>> with answering(time.monotonic() + 8):
        ...     round(seconds_for_peers())
        6
        >>> seconds_for_peers() is None
        True
    """
    until = _UNTIL.get()
    return None if until is None else max(0.0, _SHARE * (until - time.monotonic()))
