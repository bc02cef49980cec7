"""The door of a server: strangers stay for a short while, few at a time, and only as long as they say little.

A stranger is a connection over which nobody has shown the token. ZeroMQ itself would keep any number of them, for ever, and
hold whatever they send until their message is complete; so it is watched from here, and those who overstay are hung up on. Peers
that have shown the token are not watched.
"""

import contextlib
import os
import socket
import struct
import time

import zmq

from halohop.transport.base import Limits

_EVENT = struct.Struct("=HI")
_MAX_BYTES = 2**16  # of a stranger; a handshake has less than two thousand
_LOOK_SECONDS = 0.05  # between looks at how much strangers have said
_AT_ONCE = struct.pack("=ii", 1, 0)  # the system, too, forgets a closed connection and what is still under way
_RECEIVED = struct.Struct("=Q")
_RECEIVED_AT = 128  # in Linux's tcp_info: tcpi_bytes_received


class _Stranger:
    """A connection that has not shown the token: since when it is there, and the name that the router gave it."""

    __slots__ = ("peer", "since")

    def __init__(self, since: float) -> None:
        self.since = since
        self.peer: bytes | None = None


class Door:
    """Watches the connections of a ROUTER that is not yet bound. Used by the thread that owns it.

    Attributes:
        monitor: becomes readable when somebody comes or goes; then call `look`.
    """

    def __init__(self, context: "zmq.Context[zmq.Socket[bytes]]", router: "zmq.Socket[bytes]", limits: Limits) -> None:
        self._router = router
        self._limits = limits
        self._strangers: dict[int, _Stranger] = {}  # by descriptor, the oldest first
        self._weigh_at = 0.0
        router.monitor("inproc://door", zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED)
        self.monitor = context.socket(zmq.PAIR)
        self.monitor.setsockopt(zmq.RCVHWM, 0)  # ZeroMQ's own thread must never wait for this one
        self.monitor.connect("inproc://door")

    def patience(self, seconds: float | None) -> float | None:
        """How long to wait before looking again, at most the seconds given."""
        if not self._strangers:
            return seconds
        return _LOOK_SECONDS if seconds is None else min(seconds, _LOOK_SECONDS)

    def heard(self, peer: bytes, frame: zmq.Frame) -> None:
        """Notes over which connection a peer speaks."""
        if self._strangers:
            with contextlib.suppress(zmq.ZMQError):  # from a connection that ended as soon as it was made
                stranger = self._strangers.get(int(frame.get(zmq.SRCFD)))
                if stranger is not None:
                    stranger.peer = peer

    def welcome(self, peer: bytes) -> None:
        """The peer has shown the token: its connection is watched no more."""
        for descriptor, stranger in self._strangers.items():
            if stranger.peer == peer:
                del self._strangers[descriptor]
                return

    def look(self) -> None:
        """Takes note of who came and went, and hangs up on strangers that are too many, too slow or too talkative."""
        now = time.monotonic()
        for event, descriptor in iter(self._event, None):
            self._strangers.pop(descriptor, None)  # a descriptor is given out again only after its connection has ended
            if event == zmq.EVENT_ACCEPTED:
                self._strangers[descriptor] = _Stranger(now)
        weigh = now >= self._weigh_at
        if weigh:
            self._weigh_at = now + _LOOK_SECONDS
        excess = len(self._strangers) - self._limits.max_strangers
        for number, (descriptor, stranger) in enumerate(list(self._strangers.items())):
            late = now - stranger.since > self._limits.attempt_seconds
            if number < excess or late or (weigh and self._received(descriptor) > _MAX_BYTES):
                self._hang_up(descriptor)
            elif not weigh:
                break  # the others are younger

    def close(self) -> None:
        self._router.disable_monitor()
        self.monitor.close(linger=0)

    def _event(self) -> tuple[int, int] | None:
        try:
            event, descriptor = _EVENT.unpack(self.monitor.recv_multipart(zmq.NOBLOCK)[0])
        except zmq.Again:
            return None
        return event, descriptor

    def _received(self, descriptor: int) -> int:
        """Bytes that have arrived from a stranger; 0 if it has just left, or where the system does not tell."""
        connection = self._connection(descriptor)
        if connection is None:
            return 0
        with connection:
            if not hasattr(socket, "TCP_INFO"):
                return 0
            end = _RECEIVED_AT + _RECEIVED.size
            told = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, end)
            return int(_RECEIVED.unpack_from(told, _RECEIVED_AT)[0]) if len(told) == end else 0

    def _hang_up(self, descriptor: int) -> None:
        """Ends the connection for both sides; ZeroMQ notices, and forgets it with all that it has sent."""
        del self._strangers[descriptor]
        connection = self._connection(descriptor)
        if connection is not None:
            with connection, contextlib.suppress(OSError):  # it may end at this very moment
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
                connection.shutdown(socket.SHUT_RDWR)

    def _connection(self, descriptor: int) -> socket.socket | None:
        """A stranger's connection, to be closed. None if it has just ended: its descriptor may be that of anything by now."""
        try:
            copy = os.dup(descriptor)
        except OSError:
            return None
        try:
            connection = socket.socket(fileno=copy)
        except OSError:  # no socket
            os.close(copy)
            return None
        here = int(self._router.getsockopt_string(zmq.LAST_ENDPOINT).rpartition(":")[2])
        with contextlib.suppress(OSError):
            if connection.family == socket.AF_INET and connection.getsockname()[1] == here:
                return connection
        connection.close()
        return None
