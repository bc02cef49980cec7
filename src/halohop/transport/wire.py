"""What channels and listeners exchange with their ports, and the envelope around a message."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from halohop.transport.messages import Buffer

Frames = Sequence[Buffer]
Peer: TypeAlias = int
"""A connection to a server, by a number that its port gave it and gives to no other."""

REQUEST = struct.Struct(">BQQ")  # kind, request id, milliseconds for which the client waits for the reply
REPLY = struct.Struct(">BQ")  # kind, request id

SILENCE_BEATS = 10
"""Heartbeats after which a connection without a sign of life counts as lost."""


class Kind(IntEnum):
    """First byte of a message between peers that know each other; none of them begins a handshake frame."""

    REQUEST = 128
    REPLY = 129
    ALIVE = 130  # of a server, now and then: "I am still here"
    LEAVING = 131  # of a server that ends: it answers what it was sent, and is to be sent no more


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """The connection is gone, or was never made.

    Args:
        reason: for the calls that wait.
        stranger: whether the other side is surely no peer of ours: waiting does not help.
    """

    reason: str
    stranger: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Flushed:
    """Some of what waited to be sent is on its way."""
