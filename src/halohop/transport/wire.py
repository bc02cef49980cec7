"""Below channels and listeners: the ports that move frames, and the envelope around a message.

A port is the only thing that differs between transports. One thread owns it; from others only `send`,
`wake`, `add_address` and `is_full` may be called.
"""

import struct
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Generic, Protocol, TypeAlias, TypeVar

from halohop.transport.messages import Buffer

Frames = Sequence[Buffer]
Peer: TypeAlias = int
"""A connection to a server, by a number that its port gave it and gives to no other."""

Item = TypeVar("Item")

REQUEST = struct.Struct(">BQQ")  # kind, request id, milliseconds until nobody waits for the reply
REPLY = struct.Struct(">BQ")  # kind, request id

SILENCE_BEATS = 10
"""Heartbeats after which a connection without a sign of life counts as lost."""


class Kind(IntEnum):
    """First byte of a message between peers that know each other; none of them begins a handshake frame."""

    REQUEST = 128
    REPLY = 129
    ALIVE = 130  # of a server, now and then: "I am still here"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """The connection is gone, or was never made.

    Args:
        reason: for whoever waits.
        stranger: whether the other side is surely no peer of ours: waiting does not help.
    """

    reason: str
    stranger: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Flushed:
    """Some of what waited to be sent is on its way."""


class ClientPort(Protocol):
    """Holds at most one connection. It is never repaired silently: after `Lost`, a new one is opened and authenticated."""

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where the peer is looked for: with each connection that is opened, at the next of them in turn."""
        ...

    def add_address(self, address: str) -> bool:
        """The peer is looked for here, too; this is the first address now, if it is new. Whether it is."""
        ...

    @property
    def address(self) -> str:
        """Where the last connection was opened to."""
        ...

    def start_over(self) -> None:
        """The next connection is opened to the first address."""
        ...

    @property
    def heard(self) -> float:
        """When the last byte of the connection arrived, on the monotonic clock."""
        ...

    def open(self) -> None: ...
    def admit(self) -> None:
        """The peer is the expected one: its messages may be larger than those of a handshake."""
        ...

    def send(self, frames: Frames) -> None:
        """Queues a message; lost with the connection."""
        ...

    def wait(self, seconds: float | None) -> list[Frames | Lost]:
        """What has arrived; waits for it, for `wake`, or until the time is up."""
        ...

    def wake(self) -> None: ...
    def drop(self) -> None:
        """Ends the connection, if there is one, without a word."""
        ...

    def close(self) -> None: ...


class ServerPort(Protocol):
    """Many peers. Whoever connects is a stranger until the server says that it is welcome."""

    @property
    def address(self) -> str: ...
    def send(self, peer: Peer, frames: Frames) -> None:
        """Queues a message; lost with the connection."""
        ...

    def wait(self, seconds: float | None, receive: bool) -> Iterable[tuple[Peer, Frames | Lost | Flushed]]:
        """What has arrived, from strangers only if not to `receive`; to be read to its end. It may return early."""
        ...

    def is_full(self, peer: Peer) -> bool:
        """Whether too much waits to be sent to a peer: nothing is received from it meanwhile. (Safe in any thread.)"""
        ...

    def taken(self, peer: Peer) -> float:
        """When a peer last took some of what waits to be sent to it, on the monotonic clock."""
        ...

    def whereabouts(self, peer: Peer) -> str:
        """The address of a peer's end of the connection."""
        ...

    def welcome(self, peer: Peer) -> None:
        """The peer has shown the token: limits on strangers do not apply to it."""
        ...

    def hang_up(self, peer: Peer) -> None:
        """Ends a connection and forgets the peer; no `Lost` follows."""
        ...

    def wake(self) -> None: ...
    def close(self) -> None: ...


class Mailbox(Generic[Item]):
    """A queue between threads whose reader can also be woken, or wait without taking."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._items: deque[Item] = deque()
        self._woken = False

    def put(self, item: Item) -> None:
        with self._changed:
            self._items.append(item)
            self._changed.notify()

    def wake(self) -> None:
        with self._changed:
            self._woken = True
            self._changed.notify()

    def take_all(self, seconds: float | None, *, receive: bool = True) -> list[Item]:
        """Everything in the box; waits for something (if it is to be received), for `wake`, or until the time is up."""
        with self._changed:
            self._changed.wait_for(lambda: self._woken or (receive and bool(self._items)), seconds)
            self._woken = False
            items = list(self._items) if receive else []
            if receive:
                self._items.clear()
            return items
