"""What both ports do with ZeroMQ's sockets: options, sending, waiting, being woken."""

import math
import socket
import threading

import zmq

from halohop.transport.base import Limits
from halohop.transport.wire import Frames

MESSAGES_PER_TURN = 64  # before answers get their turn
_HEARTBEATS_MISSED = 10
_SEAL_BYTES = 64  # more than encryption adds to a frame
_MESSAGES_TO_SEND = 10_000  # per connection; more than the requests that a client has in flight, so only strangers reach it


class Waker:
    """Ends a poll from another thread: a byte through a pair of sockets."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._set = False

    def fileno(self) -> int:
        return self._reader.fileno()

    def set(self) -> None:
        with self._lock:
            if not self._set and self._writer.fileno() >= 0:
                self._set = True
                self._writer.send(b"\0")

    def clear(self) -> None:
        with self._lock:
            if self._set:
                self._set = False
                self._reader.recv(1)

    def close(self) -> None:
        with self._lock:
            self._reader.close()
            self._writer.close()


def configure(sock: "zmq.Socket[bytes]", limits: Limits) -> None:
    heartbeat = max(1, int(1000 * limits.heartbeat_seconds))
    for option, value in (
        (zmq.LINGER, 0),
        (zmq.MAXMSGSIZE, limits.max_message_bytes + _SEAL_BYTES),
        (zmq.SNDHWM, _MESSAGES_TO_SEND),
        (zmq.RCVHWM, MESSAGES_PER_TURN),
        (zmq.HANDSHAKE_IVL, max(1, int(1000 * limits.attempt_seconds))),
        (zmq.HEARTBEAT_IVL, heartbeat),
        (zmq.HEARTBEAT_TIMEOUT, _HEARTBEATS_MISSED * heartbeat),
        (zmq.HEARTBEAT_TTL, min(_HEARTBEATS_MISSED * heartbeat, 6_553_500)),
    ):
        sock.setsockopt(option, value)


def send(sock: "zmq.Socket[bytes]", frames: Frames) -> None:
    sock.send_multipart(frames, zmq.NOBLOCK, copy=False)


def readable(sock: "zmq.Socket[bytes]") -> bool:
    return bool(int(sock.getsockopt(zmq.EVENTS)) & zmq.POLLIN)


def poll(sources: "list[zmq.Socket[bytes] | int]", seconds: float | None) -> None:
    milliseconds = -1 if seconds is None else min(math.ceil(1000 * seconds), 2**31 - 1)
    zmq.zmq_poll([(source, zmq.POLLIN) for source in sources], milliseconds)
