"""A queue that serves its clients in turn, so that one who puts many things into it does not hold up the others."""

import threading
from collections import OrderedDict, deque
from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")


class FairQueue(Generic[Item]):
    """First in, first out for each client; among clients in turn. Any number of threads may get.

    Example:
        >>> queue = FairQueue()
        >>> for client, item in (("a", 1), ("a", 2), ("a", 3), ("b", 4)):
        ...     queue.put(client, item)
        >>> [queue.get() for _ in range(2)], queue.hold("a"), queue.release("a"), queue.get()
        ([1, 4], (2, 3), (2, 3), 2)
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: OrderedDict[Hashable, deque[Item]] = OrderedDict()
        self._held: dict[Hashable, deque[Item]] = {}
        self._closed = False

    def put(self, client: Hashable, item: Item) -> None:
        with self._changed:
            if client in self._held:
                self._held[client].append(item)
                return
            self._waiting.setdefault(client, deque()).append(item)
            self._changed.notify()

    def get(self) -> Item | None:
        """The next item; waits for one. None once the queue is closed, whatever is left in it."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._waiting)
            if self._closed:
                return None
            client, items = self._waiting.popitem(last=False)
            item = items.popleft()
            if items:
                self._waiting[client] = items  # behind all others
            return item

    def hold(self, client: Hashable) -> Sequence[Item]:
        """Keeps a client's items back, those to come included, until `release`; returns those that are there."""
        with self._changed:
            self._held[client] = self._waiting.pop(client, deque())
            return tuple(self._held[client])

    def release(self, client: Hashable) -> Sequence[Item]:
        """Ends `hold`; returns what was kept back."""
        with self._changed:
            items = self._held.pop(client)
            if items:
                self._waiting[client] = items
                self._changed.notify(len(items))
            return tuple(items)

    def close(self) -> None:
        """Ends all waits."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
