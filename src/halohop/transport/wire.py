"""Below channels and listeners: the ports that move frames, and the envelope around an authenticated message.

A port is the only thing that differs between transports. One thread owns it; only `wake` may be called from others.
"""

import struct
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Generic, Protocol, TypeVar

from halohop.transport.messages import Buffer
from halohop.transport.security import TAG_BYTES

Frames = Sequence[Buffer]
Item = TypeVar("Item")

REQUEST = struct.Struct(f">B{TAG_BYTES}sQQ")  # kind, session tag, request id, milliseconds until nobody waits for the reply
REPLY = struct.Struct(">BQ")  # kind, request id


class Kind(IntEnum):
    """First byte of an authenticated message, or of a note to a client; none of them begins a handshake frame."""

    REQUEST = 128
    REPLY = 129
    STRANGER = 130  # "I do not know you (any more)": shake hands again
    PING = 131  # "are you there?": needs no answer, sending it is the question


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """The connection is gone, or was never made.

    Args:
        reason: for whoever waits.
        stranger: whether the other side is surely no peer of ours: waiting does not help.
        doubtful: whether it may be one, since it hung up when we introduced ourselves.
    """

    reason: str
    stranger: bool = False
    doubtful: bool = False


class ClientPort(Protocol):
    """Holds at most one connection. It is never repaired silently: after `Lost`, a new one is opened and authenticated."""

    @property
    def address(self) -> str: ...
    def open(self) -> None: ...
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


Admit = Callable[[bytes, Buffer], bool]
"""(peer, its message's first frame) -> whether to read the rest of the message."""


class ServerPort(Protocol):
    """Many peers, each known by a name that the port gave it."""

    @property
    def address(self) -> str: ...
    def send(self, peer: bytes, frames: Frames) -> bool:
        """Queues a message, which a peer that does not read may miss; False where the peer is gone."""
        ...

    def wait(self, seconds: float | None, admit: Admit | None) -> list[tuple[bytes, Frames]]:
        """What has arrived, cut to the first frame where `admit` declined; with None none of it is read. It may return early."""
        ...

    def welcome(self, peer: bytes) -> None:
        """The peer has shown the token: limits on strangers do not apply to it."""
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
