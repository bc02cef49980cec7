"""Ports over TCP: one connection of a client; all connections of a server, strangers among them."""

import contextlib
import errno
import itertools
import math
import os
import selectors
import socket
import ssl
import time
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice

from halohop.ops.pool import Pool
from halohop.transport.addresses import SCHEME, parsed_peer
from halohop.transport.base import Limits
from halohop.transport.stream import STAGING_BYTES, Stream
from halohop.transport.waker import Waker
from halohop.transport.wire import Frames, Lost, Peer

_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
_IDLE_BYTES = 2**28  # of memory for large frames that is kept for the next ones
_MAX_BACKLOG = 2**24  # bytes that a peer leaves unread before nothing more is read from it
_ACCEPTS_PER_TURN = 64
_STRANGER_BYTES = 256  # read of a stranger at a time: it has two things to say, which are shorter
_FULL = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)  # no room in this process or system for a connection
_FULL_SECONDS = 0.1
_LONGEST_WAIT = 3600.0  # seconds; the system does not take any number
_REFUSED = Lost(reason="the connection was refused, or the address is out of reach")


class TcpClientPort:
    """A `ClientPort`."""

    def __init__(self, addresses: Sequence[str], limits: Limits, seal: ssl.SSLContext | None) -> None:
        self._places = [parsed_peer(address) for address in addresses]
        self._turn = 0
        self._place = self._places[0]
        self._limits = limits
        self._seal = seal
        self._pool = Pool(_IDLE_BYTES)
        self._staging = memoryview(bytearray(STAGING_BYTES))
        self._waker = Waker()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._waker, _READ)
        self._stream: Stream | None = None
        self._connecting = False
        self._interest = 0
        self._failed: Lost | None = None

    @property
    def addresses(self) -> tuple[str, ...]:
        return tuple(map(_spelled, self._places))

    @property
    def address(self) -> str:
        return _spelled(self._place)

    def also(self, address: str) -> bool:
        place = parsed_peer(address)
        if is_new := place not in self._places:
            self._places = [place, *self._places]
        return is_new

    def start_over(self) -> None:
        self._turn = 0

    @property
    def heard(self) -> float:
        return -1.0 if self._stream is None else self._stream.heard

    def open(self) -> None:
        try:
            sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        except OSError as error:
            self._failed = Lost(reason=f"this process cannot open a connection: {os.strerror(error.errno or 0)}")
            return
        stream = Stream(sock, limits=self._limits, seal=self._seal, accepted=False, pool=self._pool)
        places = self._places  # another thread may learn of more
        self._place = places[self._turn % len(places)]
        self._turn += 1
        try:
            failure = sock.connect_ex(self._place)
        except OSError:  # nobody knows the name
            failure = errno.EHOSTUNREACH
        self._failed = None if failure in (0, errno.EINPROGRESS, errno.EWOULDBLOCK) else _REFUSED
        self._connecting = True
        self._interest = _WRITE
        self._selector.register(stream, _WRITE)
        self._stream = stream

    def admit(self) -> None:
        if self._stream is not None:
            self._stream.admit()

    def send(self, frames: Frames) -> None:
        stream = self._stream
        if stream is not None and not stream.send(frames):
            self._waker.set()  # to be sent as room comes up

    def wait(self, seconds: float | None) -> list[Frames | Lost]:
        if self._failed is not None:
            lost, self._failed = self._failed, None
            return [lost]
        stream = self._stream
        until = math.inf if seconds is None else time.monotonic() + seconds
        while True:  # a large message arrives in many pieces
            self._look_at(stream)
            left = until - time.monotonic()
            events = self._selector.select(min(left, _LONGEST_WAIT))
            woken = self._waker.clear()
            arrived: list[Frames | Lost] = []
            for key, mask in events:
                if stream is not None and key.fileobj is stream:
                    arrived += self._on_event(stream, mask)
            if arrived or woken or left <= 0:
                return arrived

    def _look_at(self, stream: Stream | None) -> None:
        """Has the selector look for what is wanted now."""
        interest = 0 if stream is None else _WRITE if self._connecting else _READ | (_WRITE if stream.blocked else 0)
        if stream is not None and interest != self._interest:
            self._interest = interest
            self._selector.modify(stream, interest)

    def _on_event(self, stream: Stream, mask: int) -> list[Frames | Lost]:
        if self._connecting:
            if stream.connected():
                self._connecting = False
                stream.begin()
                return []
            return [_REFUSED]
        if mask & _WRITE:
            stream.flush()
        if not mask & _READ:
            return []
        messages, lost = stream.receive(self._staging)
        return [*messages, lost] if lost else [*messages]

    def wake(self) -> None:
        self._waker.set()

    def drop(self) -> None:
        if self._stream is not None:
            self._selector.unregister(self._stream)
            self._stream.close()
            self._stream = None

    def close(self) -> None:
        self.drop()
        self._selector.close()
        self._waker.close()


class TcpServerPort:
    """A `ServerPort` on a socket that listens."""

    def __init__(self, listening: socket.socket, limits: Limits, seal: ssl.SSLContext | None) -> None:
        host, port = listening.getsockname()
        self.address = f"{SCHEME}{host}:{port}"
        self._listening = listening
        self._limits = limits
        self._seal = seal
        self._pool = Pool(_IDLE_BYTES)
        self._staging = memoryview(bytearray(STAGING_BYTES))
        self._numbers = itertools.count()
        self._streams: dict[Peer, Stream] = {}
        self._strangers: dict[Peer, float] = {}  # since when they are here, the oldest first
        self._interests: dict[Peer, int] = {}
        self._receiving = True
        self._opens_at: float | None = None  # when to accept connections again; None while it does
        self._blocked: deque[Peer] = deque()  # whose messages did not go at once
        self._waker = Waker()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._waker, _READ)
        listening.setblocking(False)
        self._selector.register(listening, _READ)

    def send(self, peer: Peer, frames: Frames) -> None:
        stream = self._streams.get(peer)
        if stream is not None and not stream.send(frames):
            self._blocked.append(peer)
            self._waker.set()

    def wait(self, seconds: float | None, receive: bool) -> Iterator[tuple[Peer, Frames | Lost]]:
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
        return self._streams[peer].other_end

    def welcome(self, peer: Peer) -> None:
        del self._strangers[peer]
        self._streams[peer].admit()

    def hang_up(self, peer: Peer) -> None:
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
        reads = (self._receiving or peer in self._strangers) and stream.backlog < _MAX_BACKLOG
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

    def _on_event(self, peer: Peer, mask: int) -> Iterator[tuple[Peer, Frames | Lost]]:
        stream = self._streams.get(peer)
        if stream is not None and mask & _WRITE:
            stream.flush()
            self._set_interest(peer)
        if stream is not None and mask & _READ:
            staging = self._staging[:_STRANGER_BYTES] if peer in self._strangers else self._staging
            messages, lost = stream.receive(staging)
            for frames in messages:
                if peer in self._streams:  # nobody has hung up on it meanwhile
                    yield peer, frames
            if lost and peer in self._streams:
                self._forget(peer)
                yield peer, lost

    def _accept(self) -> Iterator[tuple[Peer, Lost]]:
        for number in range(_ACCEPTS_PER_TURN):
            try:
                sock, _ = self._listening.accept()
            except OSError as error:
                if error.errno in _FULL and not number:  # later, there may be nobody else who wants to come in
                    yield from self._make_room()
                return
            peer = next(self._numbers)
            self._streams[peer] = Stream(sock, limits=self._limits, seal=self._seal, accepted=True, pool=self._pool)
            self._strangers[peer] = time.monotonic()
            self._streams[peer].begin()
            self._set_interest(peer)

    def _make_room(self) -> Iterator[tuple[Peer, Lost]]:
        """Nobody can come in: the oldest stranger has to go, or who knocks has to wait a little."""
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
        return min(left, _LONGEST_WAIT) if seconds is None else min(left, _LONGEST_WAIT, seconds)

    def _expel(self) -> Iterator[tuple[Peer, Frames | Lost]]:
        """Hangs up on strangers that are too many, or too slow."""
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
            self._strangers.pop(peer, None)
            if self._interests.pop(peer, 0):
                self._selector.unregister(stream)
            stream.close(at_once=at_once)


def _spelled(place: tuple[str, int]) -> str:
    host, port = place
    return f"{SCHEME}{host}:{port}"
