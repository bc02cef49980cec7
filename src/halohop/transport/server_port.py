"""The server's port: all its connections, those of strangers among them."""

import contextlib
import errno
import itertools
import math
import selectors
import socket
import ssl
import time
from collections import deque
from collections.abc import Iterator
from itertools import islice

from halohop.ops.pool import Pool
from halohop.transport.addresses import spelled
from halohop.transport.base import Limits
from halohop.transport.lookup import place_of
from halohop.transport.stream import IDLE_BYTES, LONGEST_WAIT, STAGING_BYTES, Stream
from halohop.transport.waker import Waker
from halohop.transport.wire import Flushed, Frames, Lost, Peer

_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
_ACCEPTS_PER_TURN = 64
_STRANGER_BYTES = 256  # read of a stranger at a time: it has two things to say, which are shorter
_FULL = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)  # no room in this process or system for a connection
_FULL_SECONDS = 0.1


class ServerPort:
    """Moves the frames of many peers. A client that connects is a stranger until the server says that it is welcome.

    One thread owns it; from others only `send`, `wake` and `is_full` may be called.
    """

    def __init__(self, listening: socket.socket, limits: Limits, seal: ssl.SSLContext | None) -> None:
        self.address = spelled(place_of(listening.getsockname()))
        self._listening = listening
        self._limits = limits
        self._seal = seal
        self._pool = Pool(IDLE_BYTES)
        self._staging = memoryview(bytearray(STAGING_BYTES))
        self._numbers = itertools.count()
        self._streams: dict[Peer, Stream] = {}
        self._strangers: dict[Peer, float] = {}  # since when they are here, the oldest first
        self._interests: dict[Peer, int] = {}
        self._receiving = True
        self._opens_at: float | None = None  # when to accept connections again; None while it does
        self._blocked: deque[Peer] = deque()  # whose interest may have changed: their messages did not go at once
        self._waker = Waker()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._waker, _READ)
        listening.setblocking(False)
        self._selector.register(listening, _READ)

    def send(self, peer: Peer, frames: Frames) -> None:
        """Queues a message; lost with the connection."""
        stream = self._streams.get(peer)
        if stream is not None and not stream.send(frames):
            self._blocked.append(peer)
            self._waker.set()

    def is_full(self, peer: Peer) -> bool:
        """Whether too much waits to be sent to a peer: nothing is received from it meanwhile."""
        stream = self._streams.get(peer)
        if stream is None or not stream.backlog:
            return False
        in_all = sum(stream.backlog for stream in list(self._streams.values()))
        return stream.backlog >= self._limits.max_unsent_bytes or in_all >= self._limits.max_unsent_bytes_in_all

    def taken(self, peer: Peer) -> float:
        """When a peer last took some of what waits to be sent to it, on the monotonic clock."""
        return self._streams[peer].taken

    def wait(self, seconds: float | None, receive: bool) -> Iterator[tuple[Peer, Frames | Lost | Flushed]]:
        """What has arrived, from strangers only if not to `receive`; to be read to its end. It may return early."""
        self._look_at(receive)
        events = self._selector.select(self._patience(seconds))
        self._waker.clear()
        for key, mask in events:
            if key.fileobj is self._listening:
                yield from self._accept()
            elif isinstance(key.data, int):
                yield from self._on_event(key.data, mask)
        yield from self._expel()

    def whereabouts(self, peer: Peer) -> str:
        """The address of a peer's end of the connection."""
        return self._streams[peer].other_end

    def welcome(self, peer: Peer) -> None:
        """The peer has shown the token: limits on strangers do not apply to it."""
        del self._strangers[peer]
        self._streams[peer].admit()

    def refuse_newcomers(self) -> None:
        """From now on, connections are refused."""
        if self._opens_at is None:
            self._selector.unregister(self._listening)
        self._opens_at = math.inf
        self._listening.close()

    def hang_up(self, peer: Peer) -> None:
        """Ends a connection and forgets the peer; no `Lost` follows."""
        self._forget(peer, at_once=True)

    def wake(self) -> None:
        self._waker.set()

    def close(self) -> None:
        for peer in list(self._streams):
            self._forget(peer)
        self._selector.close()
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # also if a forked process has it, too
        self._listening.close()
        self._waker.close()

    def _look_at(self, receive: bool) -> None:
        """Has the selector look for what is wanted now."""
        if receive != self._receiving:
            self._receiving = receive
            self._blocked.extend(self._streams)
        while self._blocked:
            self._set_interest(self._blocked.popleft())
        if self._opens_at is not None and time.monotonic() >= self._opens_at:
            self._opens_at = None
            self._selector.register(self._listening, _READ)

    def _set_interest(self, peer: Peer) -> None:
        stream = self._streams.get(peer)
        if stream is None:
            return
        reads = (self._receiving or peer in self._strangers) and not self.is_full(peer)
        interest = (_READ if reads else 0) | (_WRITE if stream.blocked else 0)
        before, self._interests[peer] = self._interests.get(peer, 0), interest
        if interest == before:
            return
        if interest and before:
            self._selector.modify(stream, interest, peer)
        elif interest:
            self._selector.register(stream, interest, peer)
        elif before:
            self._selector.unregister(stream)

    def _on_event(self, peer: Peer, mask: int) -> Iterator[tuple[Peer, Frames | Lost | Flushed]]:
        stream = self._streams.get(peer)
        if stream is not None and mask & _WRITE:
            stream.flush()
            self._set_interest(peer)
            yield peer, Flushed()
        if stream is not None and mask & _READ:
            staging = self._staging[:_STRANGER_BYTES] if peer in self._strangers else self._staging
            messages, lost = stream.receive(staging)
            for frames in messages:
                if peer in self._streams:  # it was not disconnected meanwhile
                    yield peer, frames
            if lost and peer in self._streams:
                self._forget(peer)
                yield peer, lost

    def _accept(self) -> Iterator[tuple[Peer, Lost]]:
        for number in range(_ACCEPTS_PER_TURN):
            try:
                sock, _ = self._listening.accept()
            except OSError as error:
                if error.errno in _FULL and not number:  # later, no other client may be waiting
                    yield from self._make_room()
                return
            peer = next(self._numbers)
            self._streams[peer] = Stream(sock, limits=self._limits, seal=self._seal, accepted=True, pool=self._pool)
            self._strangers[peer] = time.monotonic()
            self._streams[peer].begin()
            self._set_interest(peer)

    def _make_room(self) -> Iterator[tuple[Peer, Lost]]:
        """No connection can be accepted: the oldest stranger is disconnected, or clients have to wait a little."""
        if self._strangers:
            peer = next(iter(self._strangers))
            self._forget(peer, at_once=True)
            yield peer, Lost(reason="there is no room for it")
        else:
            self._selector.unregister(self._listening)
            self._opens_at = time.monotonic() + _FULL_SECONDS

    def _patience(self, seconds: float | None) -> float:
        """How long to wait: until the oldest stranger has to go, or others may come in again; at most the seconds given."""
        moments = [since + self._limits.attempt_seconds for since in islice(self._strangers.values(), 1)]
        if self._opens_at is not None:
            moments.append(self._opens_at)
        left = max(0.0, min(moments, default=math.inf) - time.monotonic())
        return min(left, LONGEST_WAIT) if seconds is None else min(left, LONGEST_WAIT, seconds)

    def _expel(self) -> Iterator[tuple[Peer, Frames | Lost]]:
        """Disconnects strangers that are too many, or too slow."""
        now = time.monotonic()
        while self._strangers:
            peer, since = next(iter(self._strangers.items()))
            if len(self._strangers) <= self._limits.max_strangers and now - since <= self._limits.attempt_seconds:
                break
            self._forget(peer, at_once=True)
            yield peer, Lost(reason="it did not introduce itself in time")

    def _forget(self, peer: Peer, *, at_once: bool = False) -> None:
        stream = self._streams.pop(peer, None)
        if stream is not None:
            if self._strangers.pop(peer, None) is None:
                self._blocked.extend(self._streams)  # what it left unread may have kept others from being read
            if self._interests.pop(peer, 0):
                self._selector.unregister(stream)
            stream.close(at_once=at_once)
