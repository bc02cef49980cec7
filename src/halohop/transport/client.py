"""The client's side of a peer: handshake, deadlines, repetition and matching of replies."""

import itertools
import math
import threading
import time
from concurrent.futures import Future
from dataclasses import replace
from typing import Any
from weakref import finalize

from halohop.errors import AuthenticationError, HalohopError, ProtocolError, TransportError
from halohop.telemetry import Counters, Gauge
from halohop.transport.base import Closing, Limits
from halohop.transport.calls import Call, Calls
from halohop.transport.client_port import ClientPort
from halohop.transport.dialling import Dialling
from halohop.transport.handshake import ClientHandshake, Identity, Session, Terms
from halohop.transport.messages import Codec, size_of
from halohop.transport.peer_errors import PeerErrors
from halohop.transport.replies import DoneCalls, read_reply
from halohop.transport.security import Token
from halohop.transport.wire import REPLY, REQUEST, SILENCE_BEATS, Frames, Kind, Lost

_NAMES_BETWEEN = " or "  # of several addresses, in errors
_MISSED_BEATS = 3  # after which one looks for the peer elsewhere, long before the connection is given up


class PortChannel(Closing):
    """A `Channel`. Calls are sent by the thread that makes them, if they can be sent at once. All else, connecting,
    receiving and what happens at some moment, is done by a thread of the channel's own.
    """

    def __init__(
        self,
        port: ClientPort,
        *,
        codec: Codec,
        token: Token | None,
        peer: str,
        limits: Limits,
        expected: Identity | None = None,
    ) -> None:
        self.peer = peer
        self._port = port
        self._codec = codec
        self._token = token
        self._limits = limits
        self._terms = Terms(max_message_bytes=limits.max_message_bytes, messages=codec.digest)
        self._errors = PeerErrors(peer=peer, address=_NAMES_BETWEEN.join(port.addresses), limits=limits)
        self._counters = Counters()
        self._numbers = itertools.count(1)
        self._done = DoneCalls()

        self._lock = threading.Lock()  # over all that follows
        self._closed = False
        self._calls = Calls(limits)
        self._handshake: ClientHandshake | None = None
        self._handshake_until = math.inf
        self._session: Session | None = None
        self._ever_dialled = False
        self._is_leaving = False  # the server has said goodbye
        self._moves = False  # the peer is elsewhere, or another
        self._expected = expected  # None until the first connection shows it
        self._dialling = Dialling()
        self._sleeps_until: float = -math.inf  # when the channel's thread looks around by itself
        self._thread = threading.Thread(target=self._run, name=f"halohop-channel-{peer}", daemon=True)
        self._at_exit = finalize(self, self.close, 2.0)  # a thread that is inside torch when Python ends aborts the process
        self._thread.start()

    def submit(
        self, request: Any, *, operation: str | None = None, seconds: float | None = None, once: bool = False
    ) -> "Future[Any]":
        call = Call(next(self._numbers), operation or type(request).__name__, seconds=seconds, once=once)
        if not self._thread.is_alive():  # before any lock: in a forked process, a thread that is not there may hold it
            call.future.set_exception(self._errors.closed(call.operation))
            return call.future
        try:
            call.frames = self._codec.encode(request)
            call.size = size_of(call.frames)
            if call.size > self._limits.max_message_bytes:
                raise self._errors.request_too_large(call.operation, call.size, self._limits.max_message_bytes)
            with self._lock:
                if self._closed:
                    raise self._errors.closed(call.operation)
                self._calls.put(call)
                self._pump()
                if self._done or self._look_around_at() < self._sleeps_until:
                    self._port.wake()
        except HalohopError as error:
            self._counters.add("failures")
            call.future.set_exception(error)
        return call.future

    def call(self, request: Any, *, operation: str | None = None) -> Any:
        return self.submit(request, operation=operation).result()

    def statistics(self) -> dict[str, float]:
        sums = dict.fromkeys(("calls", "failures", "retries", "connections", "bytes_sent", "bytes_received", "call_seconds"), 0.0)
        in_flight = self._calls.in_flight
        now = {"in_flight": Gauge(in_flight), "waiting": Gauge(len(self._calls) - in_flight)}
        return sums | self._counters.snapshot() | now

    @property
    def addresses(self) -> tuple[str, ...]:
        return self._port.addresses

    @property
    def address(self) -> str:
        return self._port.address

    def add_address(self, address: str) -> None:
        with self._lock:
            if not self._closed and self._port.add_address(address):
                self._errors = replace(self._errors, address=_NAMES_BETWEEN.join(self._port.addresses))
                self._calls.give_time()
                self._calls.was_there = self._moves = True
                self._port.wake()

    def rename(self, peer: str) -> None:
        with self._lock:
            self.peer = peer
            self._errors = replace(self._errors, peer=peer)

    def expect(self, identity: Identity) -> None:
        with self._lock:
            self._expected = identity
            if self._session is not None and not self._session.identity.covers(identity):
                self._handshake = self._session = None  # nothing more is sent over this connection; its thread ends it
                self._moves = True
                self._port.wake()

    @property
    def is_connected(self) -> bool:
        return self._dialling.lost_since is None and not self._is_leaving

    def is_lost(self, seconds: float) -> bool:
        since = self._dialling.lost_since
        if since is None:
            since, seconds = self._port.heard, max(seconds, _MISSED_BEATS * self._limits.heartbeat_seconds)
        return time.monotonic() - since > seconds

    def close(self, seconds: float | None = None) -> None:
        """Ends the channel; pending calls fail with an error that says so. Safe to call twice."""
        if not self._thread.is_alive():  # ended before; or this process was forked, and the connection is its parent's
            return
        with self._lock:
            if not self._closed:
                self._closed = True
                self._port.wake()
        if threading.current_thread() is not self._thread:
            self._thread.join(seconds)

    # ---- the channel's own thread

    def _run(self) -> None:
        try:
            while True:
                with self._lock:
                    if self._moves:
                        self._move()
                    self._pump()
                    now = time.monotonic()
                    dial = not self._handshake and bool(self._calls or not self._ever_dialled) and now >= self._dialling.at
                    self._sleeps_until = min(self._look_around_at(), now + self._limits.heartbeat_seconds)
                    if self._closed:
                        return
                self._done.resolve()
                if dial:
                    self._dial()
                    continue
                events = self._port.wait(max(0.0, self._sleeps_until - now))
                with self._lock:
                    for event in events:
                        self._on_event(event)
                    self._check_clock(time.monotonic())  # what this side was too busy to read is not late
                self._done.resolve()
        finally:  # also when this very code fails: no call may wait for a thread that has ended
            with self._lock:
                self._closed = True
                for call in self._calls:
                    self._fail(call, self._errors.closed(call.operation))
            self._done.resolve()
            self._port.close()
            self._at_exit.detach()

    # ---- everything below runs under the lock, but for dialling

    def _look_around_at(self) -> float:
        """When there is something to do besides reading."""
        dials_at = self._dialling.at if self._calls and not self._handshake else math.inf
        return min(self._handshake_until, self._calls.late_at(), dials_at)

    def _check_clock(self, now: float) -> None:
        if now >= self._handshake_until:
            self._drop(Lost(reason=self._port.why_late))
        silence = SILENCE_BEATS * self._limits.heartbeat_seconds
        if self._calls and self._session is not None and now >= self._port.heard + silence:
            self._drop(Lost(reason=f"it was silent for {silence:g} s"))
        while late := self._calls.late(now):
            for call in late:
                why = None if self._session is not None else self._dialling.why(self._port.addresses)
                self._fail(call, self._errors.late(call, self._calls.seconds_of(call), why, was_there=self._calls.was_there))

    # ---- connection

    def _dial(self) -> None:
        """Begins to open a connection."""
        handshake = ClientHandshake(self._token, self._terms)
        self._port.open([handshake.hello()])
        with self._lock:
            self._ever_dialled = True
            self._handshake = handshake
            self._handshake_until = time.monotonic() + self._limits.attempt_seconds

    def _refuse(self, error: AuthenticationError | ProtocolError) -> None:
        """The other side is not the peer that was expected: no call waits for it any longer."""
        for call in self._calls:
            self._fail(call, self._errors.handshake(call.operation, error))
        self._drop(Lost(reason=str(error)))

    def _drop(self, problem: Lost) -> None:
        """Back to having no connection; what was in flight is sent again over the next one."""
        self._port.drop()
        self._dialling.failed(self._port.address, problem.reason, announced=self._is_leaving)
        self._handshake = self._session = None
        self._is_leaving = False
        self._handshake_until = math.inf
        self._calls.lose()
        for call in self._calls:
            if call.once:
                self._fail(call, self._errors.interrupted(call.operation, problem.reason))

    def _move(self) -> None:
        self._moves = False
        self._drop(Lost(reason="it is looked for at another address"))
        self._port.start_over()
        self._dialling.hurry()

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
            self._meet(answer)
        else:
            self._handshake_until = time.monotonic() + self._limits.attempt_seconds
            self._port.send([answer])

    def _meet(self, session: Session) -> None:
        """A server that knows the token has answered; it may be another than the expected one."""
        if self._expected is not None and not session.identity.covers(self._expected):
            self._drop(Lost(reason=f"{session.identity} answers there, where {self._expected} was expected"))
            return
        try:
            self._terms.check_messages(session.terms)
        except ProtocolError as error:
            self._refuse(error)
            return
        self._port.admit()
        self._session = session
        self._expected = self._expected or session.identity
        self._calls.was_there = True
        self._dialling.connected(self._port.address)
        self._handshake_until = math.inf
        self._counters.add("connections")

    def _on_message(self, frames: Frames) -> None:
        kind = frames[0][0] if len(frames[0]) else 0
        if kind == Kind.REPLY and len(frames[0]) == REPLY.size and len(frames) > 1:
            call = self._calls.get(REPLY.unpack(frames[0])[1])
            if call is not None:  # else a second answer to a repeated request, or one that came too late
                self._on_reply(call, frames[1:])
        self._is_leaving = self._is_leaving or kind == Kind.LEAVING
        if self._is_leaving and not self._calls.in_flight:
            self._drop(Lost(reason="it ends, and has answered what it was sent"))

    def _on_reply(self, call: Call, frames: Frames) -> None:
        self._dialling.answered()
        self._counters.add("bytes_received", size_of(frames))
        try:
            reply = read_reply(frames, call.operation, self._codec, self._errors)
        except TransportError as error:
            self._fail(call, error)
        else:
            self._counters.add_all({"calls": 1, "call_seconds": time.monotonic() - call.made})
            self._calls.end(call)
            self._done.put(call, reply)

    # ---- calls

    def _pump(self) -> None:
        """Sends what waits, as far as the window allows."""
        while self._session is not None and not self._is_leaving and (call := self._calls.launch()) is not None:
            if call.size > (limit := self._session.terms.max_message_bytes):
                self._fail(call, self._errors.request_too_large(call.operation, call.size, limit))
            else:
                self._send(call)

    def _send(self, call: Call) -> None:
        left = max(0, math.ceil(1000 * (call.counted_from + self._calls.seconds_of(call) - time.monotonic())))
        self._port.send([REQUEST.pack(Kind.REQUEST, call.number, left), *call.frames])
        self._counters.add_all({"bytes_sent": call.size, "retries": int(call.attempts > 0)})
        call.attempts += 1

    def _fail(self, call: Call, error: Exception) -> None:
        self._counters.add("failures")
        self._calls.end(call)
        self._done.put(call, None, error)
