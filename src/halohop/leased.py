"""What is kept for others, as long as they are heard of."""

import threading
import time
from collections import OrderedDict
from typing import Generic, TypeVar

Key = TypeVar("Key")
Kept = TypeVar("Kept")


class Leased(Generic[Key, Kept]):
    """Things by key, each kept until it was not used for a lease. Any number of threads may use it.

    Nothing happens by itself: its owner calls `sweep` now and then.

    Args:
        most: how many are kept; one more, and that which was not used for longest goes.

    Example:
        >>> kept = Leased(most=2)
        >>> for name in "abc":
        ...     kept.put(name, name.upper())
        >>> kept.get("a"), kept.get("b"), len(kept)
        (None, 'B', 2)
        >>> kept.sweep(60.0)
        >>> len(kept)
        2
    """

    def __init__(self, *, most: int | None = None) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._kept: OrderedDict[Key, tuple[Kept, float]] = OrderedDict()  # what, and until when it is in use

    def get(self, key: Key, *, seconds: float = 0.0) -> Kept | None:
        """What is kept under a key, if anything; it counts as used from now on for some seconds."""
        with self._lock:
            found = self._kept.get(key)
            return None if found is None else self._use(key, found[0], max(found[1], time.monotonic() + seconds))

    def put(self, key: Key, kept: Kept, *, seconds: float = 0.0) -> None:
        """Keeps something under a key; it counts as used as with `get`."""
        with self._lock:
            self._use(key, kept, time.monotonic() + seconds)
            while self._most is not None and len(self._kept) > self._most:
                self._kept.popitem(last=False)

    def keys(self) -> list[Key]:
        """Those under which something is kept, the one used last at the end."""
        with self._lock:
            return list(self._kept)

    def used_within(self, seconds: float) -> dict[Key, Kept]:
        """What somebody has used within some seconds; that which was used last is at the end."""
        with self._lock:
            since = time.monotonic() - seconds
            return {key: kept for key, (kept, until) in self._kept.items() if until >= since}

    def sweep(self, lease_seconds: float) -> None:
        """Forgets what was not used for a lease."""
        with self._lock:
            ended = time.monotonic() - lease_seconds
            for key in [key for key, (_, until) in self._kept.items() if until <= ended]:
                del self._kept[key]

    def __len__(self) -> int:
        return len(self._kept)

    def _use(self, key: Key, kept: Kept, until: float) -> Kept:
        self._kept[key] = kept, until
        self._kept.move_to_end(key)
        return kept
