"""A queue that serves whoever puts things into it in turn, so that one who puts many does not hold up the others."""

import threading
from collections import OrderedDict, deque
from collections.abc import Hashable
from typing import Generic, TypeVar

Item = TypeVar("Item")


class FairQueue(Generic[Item]):
    """First in, first out for each of those who put; among them in turn. Any number of threads may get.

    Example:
        >>> queue = FairQueue()
        >>> for who, item in (("a", 1), ("a", 2), ("a", 3), ("b", 4)):
        ...     queue.put(who, item)
        >>> [queue.get() for _ in range(4)]
        [1, 4, 2, 3]
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: OrderedDict[Hashable, deque[Item]] = OrderedDict()
        self._closed = False

    def put(self, who: Hashable, item: Item) -> None:
        with self._changed:
            self._waiting.setdefault(who, deque()).append(item)
            self._changed.notify()

    def get(self) -> Item | None:
        """The next item; waits for one. None once the queue is closed, whatever is left in it."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._waiting)
            if self._closed:
                return None
            who, items = self._waiting.popitem(last=False)
            item = items.popleft()
            if items:
                self._waiting[who] = items  # behind all others
            return item

    def close(self) -> None:
        """Lets everybody who waits go."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
