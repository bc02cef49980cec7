"""The client's port: one connection at a time, to one of several addresses."""

import errno
import math
import os
import selectors
import socket
import ssl
import time
from collections.abc import Sequence

from halohop.ops.pool import Pool
from halohop.transport.addresses import parsed_peer, spelled
from halohop.transport.base import Limits
from halohop.transport.lookup import Lookup, Target, numeric
from halohop.transport.stream import IDLE_BYTES, LONGEST_WAIT, STAGING_BYTES, Stream
from halohop.transport.waker import Waker
from halohop.transport.wire import Frames, Lost

_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
_REFUSED = Lost(reason="the connection was refused, or the address is out of reach")


class ClientPort:
    """Moves frames over at most one connection. After `Lost` it is not repaired: a new one is opened and authenticated.

    A name is looked up with each connection that is opened, so one that has moved is found. If a connection to one of its
    addresses is refused, the next is tried at once. Those that were tried without success before come last.

    One thread owns it; from others only `send`, `wake` and `add_address` may be called.

    Args:
        addresses: where the peer is looked for: with each connection that is opened, at the next of them in turn.
    """

    def __init__(self, addresses: Sequence[str], limits: Limits, seal: ssl.SSLContext | None) -> None:
        self._places = [parsed_peer(address) for address in addresses]
        self._turn = 0
        self._place = self._places[0]
        self._limits = limits
        self._seal = seal
        self._pool = Pool(IDLE_BYTES)
        self._staging = memoryview(bytearray(STAGING_BYTES))
        self._waker = Waker()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._waker, _READ)
        self._stream: Stream | None = None
        self._hello: Frames = ()
        self._lookups: dict[tuple[str, int], Lookup] = {}  # not read yet; one that takes long is not begun twice
        self._lookup: Lookup | None = None  # that for which the connection waits
        self._targets: list[Target] = []  # where to connect to if the one that is tried refuses
        self._tried: dict[Target, float] = {}  # when, without success
        self._connecting = False
        self._interest = 0
        self._failed: Lost | None = None

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where the peer is looked for."""
        return tuple(map(spelled, self._places))

    @property
    def address(self) -> str:
        """Where the last connection was opened to."""
        return spelled(self._place)

    def add_address(self, address: str) -> bool:
        """The peer is looked for here, too; this is the first address now, if it is new. Whether it is."""
        place = parsed_peer(address)
        if is_new := place not in self._places:
            self._places = [place, *self._places]
        return is_new

    def start_over(self) -> None:
        """The next connection is opened to the first address."""
        self._turn = 0

    @property
    def heard(self) -> float:
        """When the last byte of the connection arrived, on the monotonic clock."""
        return -1.0 if self._stream is None else self._stream.heard

    def open(self, hello: Frames = ()) -> None:
        """Begins to connect; `hello` is sent first, wherever the connection leads."""
        places = self._places  # another thread may learn of more
        self._place = place = places[self._turn % len(places)]
        self._turn += 1
        self._hello, self._failed = hello, None
        if targets := numeric(place):
            self._targets = targets
            self._connect()
            return
        lookup = self._lookups.get(place)  # of an attempt before, whose time was up
        if lookup is None or time.monotonic() - lookup.ended > self._limits.attempt_seconds:
            lookup = self._lookups[place] = Lookup(place, self._waker.set)
        self._lookup = lookup

    @property
    def why_late(self) -> str:
        """Why there is no connection if the time is up now."""
        if self._lookup is not None:
            return f"the name {self._place[0]!r} was not resolved in time; does this host reach its name server?"
        return "it did not answer the handshake"

    def _look_up(self, lookup: Lookup) -> None:
        """Connects to what a look-up has found, if it has ended."""
        if lookup.targets is None:
            return
        self._lookup = None
        del self._lookups[lookup.place]
        self._targets = sorted(lookup.targets, key=lambda target: self._tried.get(target, -math.inf))
        self._failed = Lost(reason=lookup.reason)
        self._connect()

    def _connect(self) -> None:
        """Begins to connect to the first address that does not refuse at once, if there is any."""
        while self._targets and self._stream is None:
            target = self._targets.pop(0)
            self._tried[target] = time.monotonic()
            self._failed = self._begin(target)

    def _begin(self, target: Target) -> Lost | None:
        """Begins to connect to an address; why that failed at once, if it did."""
        family, address = target
        try:
            sock = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            return Lost(reason=f"this process cannot open a connection: {os.strerror(error.errno or 0)}")
        stream = Stream(sock, limits=self._limits, seal=self._seal, accepted=False, pool=self._pool)
        if sock.connect_ex(address) not in (0, errno.EINPROGRESS, errno.EWOULDBLOCK):
            stream.close()
            return _REFUSED
        if self._hello:
            stream.send(self._hello)
        self._connecting = True
        self._interest = _WRITE
        self._selector.register(stream, _WRITE)
        self._stream = stream
        return None

    def _failure(self) -> list[Frames | Lost]:
        """Why no connection was opened, once; nothing if one was, or may still be."""
        lost, self._failed = self._failed, None
        return [] if lost is None else [lost]

    def admit(self) -> None:
        """The peer is the expected one: its messages may be larger than those of a handshake."""
        if self._stream is not None:
            self._stream.admit()
            self._tried.clear()

    def send(self, frames: Frames) -> None:
        """Queues a message; lost with the connection."""
        stream = self._stream
        if stream is not None and not stream.send(frames):
            self._waker.set()  # to be sent as room comes up

    def wait(self, seconds: float | None) -> list[Frames | Lost]:
        """What has arrived; waits for it, for `wake`, or until the time is up."""
        until = math.inf if seconds is None else time.monotonic() + seconds
        while True:  # a large message arrives in many pieces
            if self._lookup is not None:
                self._look_up(self._lookup)
            if failure := self._failure():
                return failure
            stream = self._stream
            self._look_at(stream)
            left = until - time.monotonic()
            events = self._selector.select(min(left, LONGEST_WAIT))
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
            self._end()
            self._failed = _REFUSED
            self._connect()
            return self._failure()
        if mask & _WRITE:
            stream.flush()
        if not mask & _READ:
            return []
        messages, lost = stream.receive(self._staging)
        return [*messages, lost] if lost else [*messages]

    def wake(self) -> None:
        self._waker.set()

    def drop(self) -> None:
        """Ends the connection, or the attempt to open one, without a word."""
        self._lookup, self._failed, self._targets = None, None, []
        self._end()

    def _end(self) -> None:
        if self._stream is not None:
            self._selector.unregister(self._stream)
            self._stream.close()
            self._stream = None

    def close(self) -> None:
        self.drop()
        self._selector.close()
        self._waker.close()
