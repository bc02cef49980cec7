"""The server's side, over any port: who is let in, what is taken on, and the threads that answer."""

import hmac
import logging
import threading
import time
import traceback
from collections import OrderedDict, deque
from collections.abc import Collection
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from halohop.errors import ProtocolError
from halohop.telemetry import Counters
from halohop.transport.base import Handler, Limits
from halohop.transport.fair import FairQueue
from halohop.transport.messages import Buffer, Codec, Failure, size_of
from halohop.transport.security import (
    PROTOCOL_VERSION,
    Refusal,
    ServerHandshake,
    Session,
    Step,
    Token,
    refused,
    step_of,
    version_of,
)
from halohop.transport.wire import REPLY, REQUEST, Frames, Kind, ServerPort

_MAX_MESSAGE, _MAX_TRACEBACK = 2_000, 10_000  # characters: a failure always fits
_JOIN_SECONDS = 0.5  # for all handlers together, when closing
_LOG = logging.getLogger(__name__)


class _Client:
    """An authenticated peer: its session, when it was last heard, and which of its requests are being answered."""

    __slots__ = ("in_flight", "seen", "session")

    def __init__(self, session: Session) -> None:
        self.session = session
        self.seen = time.monotonic()
        self.in_flight: set[int] = set()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """A request that was taken in. Only the `client` that sent it gets the answer, not a later one of the same name."""

    peer: bytes
    client: _Client
    number: int
    frames: Frames
    size: int
    until: float


class PortListener:
    """A `Listener` over a port. One thread owns the port and all bookkeeping; two pools of threads run the handler: one for
    requests that may wait for other servers (`waiting`), one for the rest, which those servers may be waiting for.
    """

    def __init__(
        self,
        port: ServerPort,
        handler: Handler,
        *,
        codec: Codec,
        token: Token | None,
        limits: Limits,
        waiting: Collection[type] = (),
    ) -> None:
        self.address = port.address
        self._port = port
        self._handler = handler
        self._codec = codec
        self._token = token
        self._limits = limits
        self._counters = Counters()
        self._clients: dict[bytes, _Client] = {}
        self._handshakes: OrderedDict[bytes, tuple[ServerHandshake, float]] = OrderedDict()
        self._waiting = frozenset(waiting)
        self._queues: dict[bool, FairQueue[_Job]] = {waits: FairQueue() for waits in ((False, True) if waiting else (False,))}
        self._answers: deque[tuple[_Job, list[Buffer] | None]] = deque()
        self._in_flight = 0
        self._in_flight_bytes = 0
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"halohop-listener-{self.address}", daemon=True)
        self._pool = [
            threading.Thread(target=self._work, args=(jobs,), name=f"halohop-handler-{i}-{self.address}", daemon=True)
            for jobs in self._queues.values()
            for i in range(limits.handler_threads)
        ]
        for thread in (self._thread, *self._pool):
            thread.start()

    def statistics(self) -> dict[str, float]:
        names = ("calls", "failures", "expired", "sessions", "strangers", "bytes_sent", "bytes_received", "handler_seconds")
        return dict.fromkeys(names, 0.0) | self._counters.snapshot() | {"in_flight": self._in_flight}

    def close(self) -> None:
        """Stops answering. Handlers still running are given half a second; their answers go nowhere. Safe to call twice."""
        self._closed.set()
        self._port.wake()
        self._thread.join()
        for jobs in self._queues.values():
            jobs.close()
        until = time.monotonic() + _JOIN_SECONDS
        for thread in self._pool:
            if thread is not threading.current_thread():
                thread.join(max(0.0, until - time.monotonic()))
        stuck = sum(thread.is_alive() for thread in self._pool)
        if stuck:
            _LOG.warning("%s was closed while %d handlers did not return; their threads are left behind", self.address, stuck)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # ---- the listener's own thread

    def _run(self) -> None:
        sweep_seconds = min(self._limits.heartbeat_seconds, self._limits.attempt_seconds)
        sweep_at = time.monotonic() + sweep_seconds
        try:
            while not self._closed.is_set():
                self._send_answers()
                now = time.monotonic()
                if now >= sweep_at:
                    self._sweep(now)
                    sweep_at = now + sweep_seconds
                busy = self._in_flight >= self._limits.max_in_flight or self._in_flight_bytes >= self._limits.max_in_flight_bytes
                for peer, frames in self._port.wait(max(0.0, sweep_at - now), None if busy else self._admit):
                    self._on_message(peer, frames)
        finally:
            self._closed.set()
            self._port.close()

    def _admit(self, peer: bytes, head: Buffer) -> bool:
        """Whether a message of several frames is a request of an authenticated peer. Nothing else of it has been looked at."""
        client = self._clients.get(peer)
        if client is not None and len(head) == REQUEST.size and head[0] == Kind.REQUEST:
            return hmac.compare_digest(REQUEST.unpack(head)[1], client.session.tag)
        return False

    def _on_message(self, peer: bytes, frames: Frames) -> None:
        head = frames[0]
        if self._admit(peer, head):
            self._on_request(peer, self._clients[peer], frames)
        elif len(frames) == 1 and (step := step_of(bytes(head[:256]))) is not None:
            self._on_step(peer, step, bytes(head[:256]))
        else:
            self._counters.add("strangers")
            self._port.send(peer, [bytes([Kind.STRANGER])])

    def _on_step(self, peer: bytes, step: Step, frame: bytes) -> None:
        if step is Step.HELLO and version_of(frame) != PROTOCOL_VERSION:
            self._port.send(peer, [refused(Refusal.VERSION)])
        elif step is Step.HELLO:
            try:
                handshake = ServerHandshake(self._token, self._limits.max_message_bytes, frame)
            except ProtocolError:
                self._counters.add("strangers")
                return
            self._handshakes[peer] = handshake, time.monotonic() + self._limits.attempt_seconds
            while len(self._handshakes) > self._limits.max_strangers:
                self._handshakes.popitem(last=False)
            self._port.send(peer, [handshake.challenge()])
        elif step is Step.PROOF and peer in self._handshakes:
            accepted = self._handshakes.pop(peer)[0].accept(frame)
            if accepted is None:
                self._counters.add("strangers")
                self._port.send(peer, [refused(Refusal.TOKEN)])
                return
            welcome, session = accepted
            self._clients[peer] = _Client(session)
            self._counters.add("sessions")
            self._port.welcome(peer)
            self._port.send(peer, [welcome])

    def _on_request(self, peer: bytes, client: _Client, frames: Frames) -> None:
        _, _, number, milliseconds = REQUEST.unpack(frames[0])
        client.seen = time.monotonic()
        if number in client.in_flight:  # a repetition; the first one is still being answered
            return
        client.in_flight.add(number)
        size = size_of(frames[1:])
        self._in_flight += 1
        self._in_flight_bytes += size
        self._counters.add("bytes_received", size)
        until = client.seen + min(milliseconds / 1000, 1e9)
        waits = self._codec.type_of(frames[1:]) in self._waiting
        self._queues[waits].put(peer, _Job(peer=peer, client=client, number=number, frames=frames[1:], size=size, until=until))

    def _send_answers(self) -> None:
        while self._answers:
            job, frames = self._answers.popleft()
            self._in_flight -= 1
            self._in_flight_bytes -= job.size
            job.client.in_flight.discard(job.number)
            if frames is None or self._clients.get(job.peer) is not job.client:
                continue
            if self._port.send(job.peer, [REPLY.pack(Kind.REPLY, job.number), *frames]):
                self._counters.add("bytes_sent", size_of(frames))
            else:
                del self._clients[job.peer]

    def _sweep(self, now: float) -> None:
        """Forgets peers that are gone: those half-way through a handshake by age, the others by trying to reach them."""
        for peer in [peer for peer, (_, until) in self._handshakes.items() if now > until]:
            del self._handshakes[peer]
        for peer, client in list(self._clients.items()):
            if now - client.seen > 10 * self._limits.heartbeat_seconds:
                client.seen = now
                if not self._port.send(peer, [bytes([Kind.PING])]):
                    del self._clients[peer]

    # ---- the pool

    def _work(self, jobs: FairQueue[_Job]) -> None:
        while (job := jobs.get()) is not None:
            frames = None
            if self._closed.is_set():
                continue
            if time.monotonic() > job.until:
                self._counters.add("expired")
            else:
                frames = self._answer(job)
            self._answers.append((job, frames))
            self._port.wake()

    def _answer(self, job: _Job) -> list[Buffer]:
        """The reply's frames, or those of a `Failure`; whatever goes wrong reaches the client."""
        limit = min(self._limits.max_message_bytes, job.client.session.peer_max_message_bytes)
        kind = "too_large"
        try:
            if job.size <= self._limits.max_message_bytes:
                kind = "protocol"
                request = self._codec.decode(job.frames)
                kind = "remote"
                with self._counters.span("handler"):
                    reply = self._handler(request)
                frames = self._codec.encode(reply)
                if (size := size_of(frames)) <= limit:
                    self._counters.add("calls")
                    return frames
                kind = "too_large"
                text = f"the reply has {size} bytes, but the smaller limit of both sides is {limit}"
            else:
                text = f"the request has {job.size} bytes, more than the {self._limits.max_message_bytes} of this server"
            failure = Failure(kind=kind, message=text, traceback="")
        except BaseException as error:  # a handler that raises anything at all must not take its thread along, nor go unheard
            text = f"{type(error).__name__}: {error}"[:_MAX_MESSAGE]
            failure = Failure(kind=kind, message=text, traceback=traceback.format_exc()[-_MAX_TRACEBACK:])
        self._counters.add("failures")
        return self._codec.encode(failure)
