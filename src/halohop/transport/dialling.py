"""When a channel connects next, and why it is not connected yet."""

import logging
import math
import random
import time
from collections.abc import Sequence

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0  # seconds between attempts
_MOST_DOUBLINGS = 10

_LOG = logging.getLogger(__name__)


class Dialling:
    """The attempts to connect. Pauses grow until a reply has come.

    Attributes:
        at: no earlier than this, on the monotonic clock.
        lost_since: since when there is no connection, on the monotonic clock; None while there is one.

    Example:
        >>> dialling = Dialling()
        >>> dialling.failed("a:1", "the connection was refused")
        >>> dialling.why(["a:1"]), dialling.why(["a:1", "b:2"])
        ('the connection was refused', 'a:1: the connection was refused')
    """

    def __init__(self) -> None:
        self.at = -math.inf
        self._failures = 0
        self._reasons: dict[str, str] = {}
        self._random = random.Random()
        self.lost_since: float | None = time.monotonic()
        self._lost = logging.NOTSET  # how loudly the end of the last connection was said

    def failed(self, address: str, reason: str, *, announced: bool = False) -> None:
        """There is no connection to this address, or no longer; `announced` if the peer has said that it ends."""
        if self.lost_since is None:
            self.lost_since, self._lost = time.monotonic(), logging.INFO if announced else logging.WARNING
            _LOG.log(self._lost, "lost the connection to %s: %s; connecting again", address, reason)
        self._reasons[address] = reason
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**self._failures) * self._random.uniform(0.5, 1)
        self._failures = min(self._failures + 1, _MOST_DOUBLINGS)
        self.at = time.monotonic() + pause

    def connected(self, address: str) -> None:
        """The expected peer is there."""
        if self._lost:
            _LOG.log(self._lost, "connected again, to %s", address)
        self.lost_since, self._lost = None, logging.NOTSET
        self._reasons.clear()

    def answered(self) -> None:
        """It has answered a call: after the next failure, the pause is short again."""
        self._failures = 0

    def hurry(self) -> None:
        """Connects without a pause."""
        self._failures = 0
        self.at = -math.inf

    def why(self, addresses: Sequence[str]) -> str:
        """Why there is no connection; for each address that was tried, if there are several."""
        if len(addresses) == 1:
            return next(iter(self._reasons.values()), "no connection yet")
        return "; ".join(f"{address}: {reason}" for address, reason in self._reasons.items()) or "no connection yet"
