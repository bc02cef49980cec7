"""What a channel was asked: which requests are under way, and which wait until there is room for them."""

import math
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

from halohop.transport.base import Limits
from halohop.transport.messages import Buffer


class Call:
    """One request until its future is done.

    Args:
        seconds: until it must be answered, whether or not the peer was ever there; None: as the limits of the channel say.
        once: fails when the connection is lost, or cannot be made, and is not repeated over the next.

    Attributes:
        made: when, on the monotonic clock.
        counted_from: its time begins here; later than `made`, if its peer was found to be elsewhere.
        attempts: how often it was sent.
    """

    __slots__ = (
        *("attempts", "counted_from", "frames", "future", "in_flight", "made", "number", "once", "operation", "seconds", "size"),
    )

    def __init__(self, number: int, operation: str, *, seconds: float | None = None, once: bool = False) -> None:
        self.number = number
        self.operation = operation
        self.seconds = seconds
        self.once = once
        self.frames: list[Buffer] = []
        self.size = 0
        self.made = self.counted_from = time.monotonic()
        self.future: Future[Any] = Future()
        self.future.set_running_or_notify_cancel()  # it can no longer be cancelled, so the thread that ends it need not check
        self.attempts = 0
        self.in_flight = False


class Calls:
    """The calls that have no answer yet. Not for several threads at a time.

    Attributes:
        was_there: whether the peer has ever answered; until then, calls wait no longer than `Limits.connect_seconds`.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._calls: dict[int, Call] = {}
        self._ordered: dict[float | None, dict[int, Call]] = {}  # by seconds: of each kind, the first is late first
        self.was_there = False
        self._waiting: deque[Call] = deque()
        self.in_flight = 0
        self._in_flight_bytes = 0

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[Call]:
        return iter([*self._calls.values()])

    def get(self, number: int) -> Call | None:
        return self._calls.get(number)

    def seconds_of(self, call: Call) -> float:
        """How long it may take."""
        if call.seconds is not None:
            return call.seconds
        return self._limits.call_seconds if self.was_there else min(self._limits.call_seconds, self._limits.connect_seconds)

    def late_at(self) -> float:
        """When the first of them will have taken too long."""
        return min((call.counted_from + self.seconds_of(call) for call in self._firsts()), default=math.inf)

    def late(self, now: float) -> list[Call]:
        """Those that have taken too long; some of them, as long as there are any."""
        return [call for call in self._firsts() if now >= call.counted_from + self.seconds_of(call)]

    def _firsts(self) -> list[Call]:
        return [next(iter(calls.values())) for calls in self._ordered.values() if calls]

    def put(self, call: Call) -> None:
        self._calls[call.number] = call
        self._ordered.setdefault(call.seconds, {})[call.number] = call
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
        self._calls.pop(call.number, None)  # an interrupt may have come in the midst of `put`
        same = self._ordered.get(call.seconds, {})
        same.pop(call.number, None)
        if not same:
            self._ordered.pop(call.seconds, None)
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
