"""What strangers do to a listener across hosts: raw bytes below its protocol, and the means to see that they do no harm."""

import socket
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path

from halohop.transport import Listener

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(16) + b"\x00" + bytes(31)
_READY = b"\x05READY\x0bSocket-Type" + struct.pack(">I", 6) + b"DEALER"
READY = b"\x04" + bytes([len(_READY)]) + _READY
"""How a DEALER begins in ZMTP 3, the protocol of ZeroMQ: its greeting, then its handshake."""


def knock(listener: Listener, *, say: bytes = b"") -> socket.socket:
    """A connection to a listener, and the first words over it; close it."""
    host, port = listener.address.removeprefix("tcp://").split(":")
    sock = socket.create_connection((host, int(port)), timeout=20)
    try:
        sock.sendall(say)
    except OSError:  # it hung up on us
        sock.close()
        raise
    return sock


def resident_bytes() -> int:
    """Memory that this process occupies."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def wait_for(condition: Callable[[], object]) -> bool:
    """Whether something becomes true within twenty seconds."""
    deadline = time.monotonic() + 20
    while not condition() and time.monotonic() < deadline:
        threading.Event().wait(0.02)
    return bool(condition())
