"""The server's side: who is let in, what is taken on, and the threads that answer."""

import logging
import threading
import time
import traceback
from collections.abc import Collection
from concurrent.futures import CancelledError, Future
from errno import ENOMEM
from functools import partial
from typing import Any
from weakref import finalize

from halohop.errors import HalohopError, ProtocolError
from halohop.telemetry import Counters, Gauge
from halohop.transport.base import Closing, Handler, Limits
from halohop.transport.handshake import (
    MAX_STEP_BYTES,
    NO_IDENTITY,
    PROTOCOL_VERSION,
    Identity,
    Refusal,
    ServerHandshake,
    Step,
    Terms,
    refused,
    step_of,
    version_of,
)
from halohop.transport.intake import Client, Intake, Job
from halohop.transport.messages import LOSSES, Buffer, Codec, Failure, size_of
from halohop.transport.remaining import answering
from halohop.transport.security import Token
from halohop.transport.server_port import ServerPort
from halohop.transport.wire import REPLY, REQUEST, SILENCE_BEATS, Flushed, Frames, Kind, Lost, Peer

_MAX_MESSAGE, _MAX_TRACEBACK = 2_000, 10_000  # characters: a failure always fits
_JOIN_SECONDS = 0.5  # for all handlers together, when closing
_LOG = logging.getLogger(__name__)


class PortListener(Closing):
    """A `Listener`. One thread owns the port and takes requests in; two pools of threads run the handler and send
    its answers: one for requests that may wait for other servers (`waiting`), one for the rest, which those servers may be
    waiting for. The first thread answers nothing itself: how long that takes is not known in advance.
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
        identity: Identity = NO_IDENTITY,
    ) -> None:
        self.address = port.address
        self._port = port
        self._handler = handler
        self._codec = codec
        self._token = token
        self._limits = limits
        self._terms = Terms(max_message_bytes=limits.max_message_bytes, messages=codec.digest)
        self._identity = identity
        self._counters = Counters()
        self._clients: dict[Peer, Client] = {}
        self._handshakes: dict[Peer, ServerHandshake | None] = {}  # of strangers; None once it was refused
        self._waiting = frozenset(waiting)
        self._intake = Intake(port, limits)
        self._closed = threading.Event()
        self._leaving = threading.Event()
        self._left = threading.Event()  # all clients, after they were asked to
        self._thread = threading.Thread(target=self._run, name=f"halohop-listener-{self.address}", daemon=True)
        self._pool = [
            threading.Thread(target=self._work, args=(waits,), name=f"halohop-handler-{i}-{self.address}", daemon=True)
            for waits in ((False, True) if waiting else (False,))
            for i in range(limits.handler_threads)
        ]
        self._at_exit = finalize(self, self._close_at_exit)
        for thread in (self._thread, *self._pool):
            thread.start()

    def statistics(self) -> dict[str, float]:
        names = ("calls", "failures", "expired", "sessions", "strangers", "bytes_sent", "bytes_received", "handler_seconds")
        return dict.fromkeys(names, 0.0) | self._counters.snapshot() | {"in_flight": Gauge(self._intake.in_flight)}

    def drain(self, seconds: float) -> bool:
        self._leaving.set()
        self._port.wake()
        return self._left.wait(seconds)

    def close(self) -> None:
        """Stops answering. Handlers still running are given half a second; their answers go nowhere. Safe to call twice."""
        self._closed.set()
        if self._thread.is_alive():  # in a forked process it is not, and the port is its parent's
            self._port.wake()
        self._intake.close()
        until = time.monotonic() + _JOIN_SECONDS
        others = [thread for thread in (self._thread, *self._pool) if thread is not threading.current_thread()]
        for thread in others:
            thread.join(max(0.0, until - time.monotonic()))
        if self._thread in others:  # on a busy machine it takes its time, but it will not be long
            self._thread.join()
        stuck = sum(thread.is_alive() for thread in others)
        if stuck:
            _LOG.warning("%s was closed while %d handlers did not return; their threads are left behind", self.address, stuck)
        self._at_exit.detach()

    def _close_at_exit(self) -> None:
        """A thread that is inside torch when the interpreter ends aborts the process (SIGABRT)."""
        if self._thread.is_alive():  # in a forked process it is not
            self.close()

    # ---- the listener's own thread

    def _run(self) -> None:
        beat_at = time.monotonic() + self._limits.heartbeat_seconds
        said = False
        try:
            while not self._closed.is_set():
                now = time.monotonic()
                if self._leaving.is_set():
                    said = said or self._take_leave()
                    if not self._clients:
                        self._left.set()
                if now >= beat_at:
                    beat_at = now + self._limits.heartbeat_seconds
                    self._beat()
                for peer, event in self._port.wait(max(0.0, beat_at - now), not self._intake.busy):
                    if isinstance(event, Lost):
                        self._forget(peer)
                    elif isinstance(event, Flushed):
                        self._intake.look_at(peer)
                    elif peer in self._clients:
                        self._on_message(peer, self._clients[peer], event)
                    else:
                        self._on_stranger(peer, event)
        finally:
            self._closed.set()
            self._port.close()

    def _take_leave(self) -> bool:
        self._port.refuse_newcomers()
        for peer in list(self._handshakes):
            self._hang_up(peer)
        for peer in self._clients:
            self._port.send(peer, [bytes([Kind.LEAVING])])
        return True

    def _beat(self) -> None:
        """Says that this server is here. A client that leaves too much unread, and takes nothing for long, has to go."""
        silence = SILENCE_BEATS * self._limits.heartbeat_seconds
        for peer in list(self._clients):
            if self._port.is_full(peer) and self._port.taken(peer) <= time.monotonic() - silence:
                where = self._port.whereabouts(peer)
                _LOG.warning(
                    "%s ends the connection of a client at %s that has read no reply for %g s", self.address, where, silence
                )
                self._hang_up(peer)
            else:
                self._port.send(peer, [bytes([Kind.ALIVE])])

    def _on_stranger(self, peer: Peer, frames: Frames) -> None:
        frame = bytes(frames[0][:MAX_STEP_BYTES])
        step = step_of(frame) if len(frames) == 1 else None
        if step is Step.HELLO and peer not in self._handshakes:
            self._on_hello(peer, frame)
        elif step is Step.PROOF and (handshake := self._handshakes.get(peer)) is not None:
            self._on_proof(peer, handshake, frame)
        else:
            self._hang_up(peer)

    def _on_hello(self, peer: Peer, frame: bytes) -> None:
        if version_of(frame) != PROTOCOL_VERSION:
            self._refuse(peer, Refusal.VERSION)
            return
        try:
            handshake = ServerHandshake(self._token, self._terms, self._identity, frame)
        except ProtocolError:
            self._hang_up(peer)
            return
        self._handshakes[peer] = handshake
        self._port.send(peer, [handshake.challenge()])

    def _on_proof(self, peer: Peer, handshake: ServerHandshake, frame: bytes) -> None:
        accepted = handshake.accept(frame)
        if accepted is None:
            self._refuse(peer, Refusal.TOKEN)
            return
        welcome, session = accepted
        self._port.send(peer, [welcome])
        try:
            self._terms.check_messages(session.terms)
        except ProtocolError as error:  # as the client finds, too, from the WELCOME
            self._handshakes[peer] = None
            _LOG.warning("%s refused a client at %s: %s", self.address, self._port.whereabouts(peer), error)
            return
        del self._handshakes[peer]
        self._clients[peer] = Client(session)
        self._counters.add("sessions")
        self._port.welcome(peer)

    def _refuse(self, peer: Peer, reason: Refusal) -> None:
        """Says no. A client that stays nevertheless is disconnected at its next message, or when the time of strangers is up."""
        self._handshakes[peer] = None
        self._port.send(peer, [refused(reason)])

    def _hang_up(self, peer: Peer) -> None:
        self._port.hang_up(peer)
        self._forget(peer)

    def _forget(self, peer: Peer) -> None:
        self._handshakes.pop(peer, None)
        if self._clients.pop(peer, None) is None:
            self._counters.add("strangers")
        self._intake.look_again()

    def _on_message(self, peer: Peer, client: Client, frames: Frames) -> None:
        if len(frames) < 2 or len(frames[0]) != REQUEST.size or frames[0][0] != Kind.REQUEST:
            self._hang_up(peer)
            return
        _, number, milliseconds = REQUEST.unpack(frames[0])
        size = size_of(frames[1:])
        waits = self._codec.type_of(frames[1:]) in self._waiting
        until = time.monotonic() + min(milliseconds / 1000, 1e9)
        job = Job(peer=peer, client=client, number=number, frames=frames[1:], size=size, until=until, waits=waits)
        if self._intake.take(job):  # else it is asked for twice
            self._counters.add("bytes_received", size)

    # ---- the pool

    def _work(self, waits: bool) -> None:
        while (job := self._intake.next(waits=waits)) is not None:
            if not self._closed.is_set():
                self._do(job)

    def _do(self, job: Job) -> None:
        if not self._is_awaited(job):
            self._intake.finish(job)
            return
        kind = "protocol"
        try:
            request = self._codec.decode(job.frames, max_bytes=self._limits.max_message_bytes)
            kind = "remote"
            with self._counters.span("handler"), answering(job.until):
                reply = self._handler(request)
        except BaseException as error:  # a handler that raises anything at all must not take its thread along, nor go unheard
            self._send(job, self._failed(error, kind))
            self._intake.finish(job)
            return
        if isinstance(reply, Future):
            reply.add_done_callback(partial(self._on_done, self._intake.defer(job)))
        else:
            self._send(job, self._encoded(job, reply))
            self._intake.finish(job)

    def _on_done(self, job: Job, future: "Future[Any]") -> None:
        """The reply that a handler has promised is there; called by the thread that made it."""
        if self._is_awaited(job):
            error = CancelledError() if future.cancelled() else future.exception()
            self._send(job, self._encoded(job, future.result()) if error is None else self._failed(error, "remote"))
        self._intake.finish(job, deferred=True)

    def _is_awaited(self, job: Job) -> bool:
        """Whether the client is there and its deadline is not over; else the request is not answered."""
        if self._closed.is_set():
            return False
        if time.monotonic() > job.until or job.peer not in self._clients:
            self._counters.add("expired")
            return False
        return True

    def _send(self, job: Job, frames: list[Buffer]) -> None:
        if not self._closed.is_set():
            self._counters.add("bytes_sent", size_of(frames))
            self._port.send(job.peer, [REPLY.pack(Kind.REPLY, job.number), *frames])

    def _encoded(self, job: Job, reply: Any) -> list[Buffer]:
        """The reply's frames, or those of a `Failure` where it cannot be sent."""
        limit = min(self._limits.max_message_bytes, job.client.session.terms.max_message_bytes)
        try:
            frames = self._codec.encode(reply)
        except Exception as error:
            return self._failed(error, "remote")
        if (size := size_of(frames)) > limit:
            self._counters.add("failures")
            text = f"the reply has {size} bytes, but the smaller limit of both sides is {limit}"
            return self._codec.encode(Failure(kind="too_large", message=text, traceback=""))
        self._counters.add("calls")
        return frames

    def _failed(self, error: BaseException, kind: str) -> list[Buffer]:
        """The frames of a `Failure`; whatever goes wrong reaches the client."""
        self._counters.add("failures")
        trace = _text("".join(traceback.format_exception(error)))
        kind = next((name for name, lost in LOSSES.items() if isinstance(error, lost)), kind)
        return self._codec.encode(Failure(kind=kind, message=_told(error)[:_MAX_MESSAGE], traceback=trace[-_MAX_TRACEBACK:]))


def _told(error: BaseException) -> str:
    fault = "internal error, report it with the traceback: "
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == ENOMEM):
        fault = "the server lacks the memory for it; ask for less at once: "
    elif isinstance(error, HalohopError | CancelledError):
        fault = ""
    try:
        return _text(f"{fault}{type(error).__name__}: {error}")
    except Exception:  # it has no words
        return _text(type(error).__name__)


def _text(text: str) -> str:
    """Such as can be sent. Names of files may hold what is no character."""
    return text.encode(errors="backslashreplace").decode()
