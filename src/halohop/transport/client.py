"""The client's side of a peer, over any port: handshake, deadlines, repetition and matching of replies."""

import heapq
import itertools
import math
import random
import threading
import time
from collections import deque
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self

from halohop.errors import AuthenticationError, HalohopError, MessageTooLargeError, ProtocolError, TransportError
from halohop.telemetry import Counters
from halohop.transport.base import Limits
from halohop.transport.messages import Buffer, Codec, Failure, size_of
from halohop.transport.peer_errors import PeerErrors
from halohop.transport.security import ClientHandshake, Session, Token
from halohop.transport.wire import REPLY, REQUEST, ClientPort, Frames, Kind, Lost

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0  # seconds between attempts to connect
_LONGEST_ATTEMPT = 8  # times attempt_seconds


class _Call:
    """One request until its future is done."""

    __slots__ = ("attempts", "frames", "future", "in_flight", "number", "operation", "pause", "retry_at", "size", "submitted")

    def __init__(self, number: int, operation: str) -> None:
        self.number = number
        self.operation = operation
        self.frames: list[Buffer] = []
        self.size = 0
        self.submitted = time.monotonic()
        self.future: Future[Any] = Future()
        self.future.set_running_or_notify_cancel()  # it can no longer be cancelled, so whoever ends it need not ask
        self.attempts = 0
        self.in_flight = False
        self.pause = 0.0  # seconds until the next attempt over the same connection
        self.retry_at = math.inf


class PortChannel:
    """A `Channel` over a port. One thread owns the port and all bookkeeping; callers only put calls into its inbox."""

    def __init__(self, port: ClientPort, *, codec: Codec, token: Token | None, peer: str, limits: Limits) -> None:
        self.peer = peer
        self._port = port
        self._codec = codec
        self._token = token
        self._limits = limits
        self._errors = PeerErrors(peer=peer, address=port.address, limits=limits)
        self._counters = Counters()
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()  # over the next two
        self._inbox: list[_Call] = []
        self._closed = False

        self._calls: dict[int, _Call] = {}
        self._timers: list[tuple[float, int]] = []  # heap: when to look at which call again
        self._waiting: deque[_Call] = deque()
        self._in_flight = 0
        self._in_flight_bytes = 0
        self._handshake: ClientHandshake | None = None
        self._handshake_until = math.inf
        self._session: Session | None = None
        self._ever_connected = False
        self._problem = Lost(reason="no connection yet")
        self._failed_dials = 0
        self._dial_at: float = -math.inf
        self._random = random.Random()
        self._thread = threading.Thread(target=self._run, name=f"halohop-channel-{peer}", daemon=True)
        self._thread.start()

    def submit(self, request: Any, *, operation: str | None = None) -> "Future[Any]":
        call = _Call(next(self._numbers), operation or type(request).__name__)
        try:
            call.frames = self._codec.encode(request)
            call.size = size_of(call.frames)
            if call.size > self._limits.max_message_bytes:
                raise self._errors.request_too_large(call.operation, call.size, self._limits.max_message_bytes)
            with self._lock:
                if self._closed:
                    raise self._errors.closed(call.operation)
                self._inbox.append(call)
                self._port.wake()
        except HalohopError as error:
            self._counters.add("failures")
            call.future.set_exception(error)
        return call.future

    def call(self, request: Any, *, operation: str | None = None) -> Any:
        return self.submit(request, operation=operation).result()

    def statistics(self) -> dict[str, float]:
        sums = dict.fromkeys(("calls", "failures", "retries", "connections", "bytes_sent", "bytes_received", "call_seconds"), 0.0)
        return sums | self._counters.snapshot() | {"in_flight": self._in_flight, "waiting": len(self._calls) - self._in_flight}

    def close(self) -> None:
        """Ends the channel; pending calls fail with an error that says so. Safe to call twice."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._port.wake()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # ---- everything below runs on the channel's own thread

    def _run(self) -> None:
        try:
            self._dial()
            while not self._closed:
                now = time.monotonic()
                self._take_inbox()
                self._check_timers(now)
                if not self._handshake and self._calls and now >= self._dial_at:
                    self._dial()
                self._pump()
                for event in self._port.wait(self._seconds_to_wait()):
                    self._on_event(event)
        finally:  # also when this very code fails: nobody may wait for a thread that is no more
            with self._lock:
                self._closed = True
            self._take_inbox()
            for call in list(self._calls.values()):
                self._fail(call, self._errors.closed(call.operation))
            self._port.close()

    def _take_inbox(self) -> None:
        with self._lock:
            calls, self._inbox = self._inbox, []
        for call in calls:
            self._calls[call.number] = call
            self._waiting.append(call)
            self._set_timer(call)

    def _seconds_to_wait(self) -> float | None:
        moments = [self._handshake_until]
        if self._timers:
            moments.append(self._timers[0][0])
        if not self._handshake and self._calls:
            moments.append(self._dial_at)
        moment = min(moments)
        return None if moment == math.inf else max(0.0, moment - time.monotonic())

    # ---- connection

    def _dial(self) -> None:
        self._handshake = ClientHandshake(self._token, self._limits.max_message_bytes)
        self._handshake_until = time.monotonic() + self._limits.attempt_seconds
        self._port.open()
        self._port.send([self._handshake.hello()])

    def _refuse(self, error: AuthenticationError | ProtocolError) -> None:
        """The other side is not the peer that was expected: nobody waits for it any longer."""
        for call in list(self._calls.values()):
            self._fail(call, self._errors.handshake(call.operation, error))
        self._drop(Lost(reason=str(error)))

    def _drop(self, problem: Lost) -> None:
        """Back to having no connection; what was in flight is sent again over the next one."""
        self._port.drop()
        self._handshake = self._session = None
        self._handshake_until = math.inf
        self._problem = problem
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**self._failed_dials) * self._random.uniform(0.5, 1)
        self._failed_dials = min(self._failed_dials + 1, 10)
        self._dial_at = time.monotonic() + pause
        lost = [call for call in self._calls.values() if call.in_flight]
        for call in lost:
            self._land(call)
        self._waiting.extendleft(reversed(lost))

    def _on_event(self, event: Frames | Lost) -> None:
        if self._handshake is None:  # a leftover of a connection that was dropped a moment ago
            return
        if isinstance(event, Lost) and event.stranger:
            self._refuse(AuthenticationError(event.reason))
        elif isinstance(event, Lost):
            self._drop(event)
        elif self._session is not None:
            self._on_message(event)
        elif len(event) == 1:
            self._on_step(self._handshake, bytes(event[0]))

    def _on_step(self, handshake: ClientHandshake, frame: bytes) -> None:
        try:
            answer = handshake.step(frame)
        except (AuthenticationError, ProtocolError) as error:
            self._refuse(error)
            return
        if isinstance(answer, Session):
            self._session = answer
            self._ever_connected = True
            self._handshake_until = math.inf
            self._counters.add("connections")
        else:
            self._handshake_until = time.monotonic() + self._limits.attempt_seconds
            self._port.send([answer])

    def _on_message(self, frames: Frames) -> None:
        kind = frames[0][0] if len(frames[0]) else 0
        if kind == Kind.STRANGER:
            self._drop(Lost(reason="it forgot this side and asks for a new handshake"))
        elif kind == Kind.REPLY and len(frames[0]) == REPLY.size and len(frames) > 1:
            call = self._calls.get(REPLY.unpack(frames[0])[1])
            if call is not None:  # else a second answer to a repeated request, or one that came too late
                self._on_reply(call, frames[1:])

    def _on_reply(self, call: _Call, frames: Frames) -> None:
        self._failed_dials = 0
        size = size_of(frames)
        self._counters.add("bytes_received", size)
        try:
            if size > self._limits.max_message_bytes:
                raise self._errors.reply_too_large(call.operation, size)
            reply = self._codec.decode(frames)
        except ProtocolError as error:
            self._fail(call, self._errors.unreadable(call.operation, error))
        except MessageTooLargeError as error:
            self._fail(call, error)
        else:
            if isinstance(reply, Failure):
                self._fail(call, self._errors.failure(call.operation, reply))
            else:
                self._counters.add_all({"calls": 1, "call_seconds": time.monotonic() - call.submitted})
                self._end(call)
                call.future.set_result(reply)

    # ---- calls

    def _pump(self) -> None:
        """Sends what waits, as far as the window allows."""
        while self._session is not None and self._waiting:
            call = self._waiting[0]
            if call.number not in self._calls:  # failed while it waited
                self._waiting.popleft()
                continue
            full = self._in_flight_bytes + call.size > self._limits.max_in_flight_bytes
            if self._in_flight >= self._limits.max_in_flight or (full and self._in_flight):
                return
            self._waiting.popleft()
            if call.size > self._session.peer_max_message_bytes:
                self._fail(call, self._errors.request_too_large(call.operation, call.size, self._session.peer_max_message_bytes))
            else:
                call.in_flight = True
                self._in_flight += 1
                self._in_flight_bytes += call.size
                self._send(call, self._session)

    def _send(self, call: _Call, session: Session) -> None:
        now = time.monotonic()
        left = max(0, math.ceil(1000 * (call.submitted + self._limits.call_seconds - now)))
        self._port.send([REQUEST.pack(Kind.REQUEST, session.tag, call.number, left), *call.frames])
        self._counters.add_all({"bytes_sent": call.size, "retries": int(call.attempts > 0)})
        call.pause = min(2 * call.pause, _LONGEST_ATTEMPT * self._limits.attempt_seconds) or self._limits.attempt_seconds
        call.retry_at = now + call.pause
        call.attempts += 1
        self._set_timer(call)

    def _gives_up_at(self, call: _Call) -> float:
        seconds = self._limits.call_seconds
        return call.submitted + (seconds if self._ever_connected else min(seconds, self._limits.connect_seconds))

    def _set_timer(self, call: _Call) -> None:
        heapq.heappush(self._timers, (min(self._gives_up_at(call), call.retry_at), call.number))

    def _check_timers(self, now: float) -> None:
        if now >= self._handshake_until:
            self._drop(Lost(reason="it did not answer the handshake"))
        while self._timers and self._timers[0][0] <= now:
            call = self._calls.get(heapq.heappop(self._timers)[1])
            if call is None:
                continue
            if now >= self._gives_up_at(call):
                self._fail(call, self._late(call))
            elif self._session is not None and now >= call.retry_at:
                self._send(call, self._session)
            else:
                self._set_timer(call)

    def _land(self, call: _Call) -> None:
        if call.in_flight:
            call.in_flight = False
            call.pause = 0.0
            call.retry_at = math.inf
            self._in_flight -= 1
            self._in_flight_bytes -= call.size

    def _end(self, call: _Call) -> None:
        del self._calls[call.number]
        self._land(call)

    def _fail(self, call: _Call, error: Exception) -> None:
        self._counters.add("failures")
        self._end(call)
        call.future.set_exception(error)

    def _late(self, call: _Call) -> TransportError:
        if self._session is not None:
            return self._errors.unanswered(call.operation, call.attempts)
        if self._problem.doubtful:
            return self._errors.handshake(call.operation, AuthenticationError(self._problem.reason))
        if self._ever_connected:
            return self._errors.lost(call.operation, self._problem.reason)
        return self._errors.never_there(call.operation, self._problem.reason, time.monotonic() - call.submitted)
