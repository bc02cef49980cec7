"""What a channel was asked: which requests are under way, and which wait until there is room for them."""

import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

from halohop.transport.base import Limits
from halohop.transport.messages import Buffer


class Call:
    """One request until its future is done.

    Attributes:
        made: when, on the monotonic clock.
        counted_from: its time begins here; later than `made`, if its peer was found to be elsewhere.
        attempts: how often it was sent.
    """

    __slots__ = ("attempts", "counted_from", "frames", "future", "in_flight", "made", "number", "operation", "size")

    def __init__(self, number: int, operation: str) -> None:
        self.number = number
        self.operation = operation
        self.frames: list[Buffer] = []
        self.size = 0
        self.made = self.counted_from = time.monotonic()
        self.future: Future[Any] = Future()
        self.future.set_running_or_notify_cancel()  # it can no longer be cancelled, so the thread that ends it need not check
        self.attempts = 0
        self.in_flight = False


class Calls:
    """The calls that have no answer yet, the oldest first. Not for several threads at a time."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._calls: dict[int, Call] = {}
        self._waiting: deque[Call] = deque()
        self.in_flight = 0
        self._in_flight_bytes = 0

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[Call]:
        return iter([*self._calls.values()])

    def get(self, number: int) -> Call | None:
        return self._calls.get(number)

    @property
    def oldest(self) -> Call | None:
        return next(iter(self._calls.values())) if self._calls else None

    def put(self, call: Call) -> None:
        self._calls[call.number] = call
        self._waiting.append(call)

    def launch(self) -> Call | None:
        """The next one to be sent, in flight from now on; None if none waits, or the window is full."""
        self._skip()
        if not self._waiting:
            return None
        call = self._waiting[0]
        full = self._in_flight_bytes + call.size > self._limits.max_in_flight_bytes
        if self.in_flight >= self._limits.max_in_flight or (full and self.in_flight):
            return None
        self._waiting.popleft()
        call.in_flight = True
        self.in_flight += 1
        self._in_flight_bytes += call.size
        return call

    def end(self, call: Call) -> None:
        del self._calls[call.number]
        self._land(call)
        self._skip()  # now: with nothing to send to, nothing is launched for long

    def lose(self) -> None:
        """What was in flight waits again, before all others."""
        lost = [call for call in self if call.in_flight]
        for call in lost:
            self._land(call)
        self._waiting.extendleft(reversed(lost))

    def give_time(self) -> None:
        """Every call gets its whole time, from now on."""
        now = time.monotonic()
        for call in self:
            call.counted_from = now

    def _skip(self) -> None:
        """Lets go, with their frames, of those that ended while they waited to be the next."""
        while self._waiting and self._waiting[0].number not in self._calls:
            self._waiting.popleft()

    def _land(self, call: Call) -> None:
        if call.in_flight:
            call.in_flight = False
            self.in_flight -= 1
            self._in_flight_bytes -= call.size
