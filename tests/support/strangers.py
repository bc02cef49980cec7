"""What strangers do to a listener across hosts: bytes, frames and handshakes by hand; and how to see that they do no harm."""

import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from halohop.ops.pool import Pool
from halohop.transport import Codec, Listener, Token
from halohop.transport.addresses import parsed
from halohop.transport.framing import MAX_FRAMES, Assembler, packed
from halohop.transport.handshake import ClientHandshake, Session, Terms
from halohop.transport.messages import Buffer
from halohop.transport.tls import seal_of
from halohop.transport.wire import Frames
from tests.support.messages import MESSAGE_TYPES

GREETING, SEALED_GREETING = b"halohop\0", b"halohop\1"
"""How each side of a connection begins, without encryption and with it."""

_SECONDS = 60


def endpoint(listener: Listener | str) -> tuple[str, int]:
    """Host and port of a listener, or of its address."""
    return parsed(listener if isinstance(listener, str) else listener.address)


def framed(*frames: Buffer) -> bytes:
    """A message as it goes over the wire."""
    return b"".join(packed(frames))


def knock(listener: Listener | str, *, say: bytes = b"") -> socket.socket:
    """A connection to a listener, and the first words over it; close it."""
    sock = socket.create_connection(endpoint(listener), timeout=_SECONDS)
    try:
        sock.sendall(say)
    except OSError:  # it hung up on us
        sock.close()
        raise
    return sock


def reset(sock: socket.socket) -> None:
    """Ends a connection as a process does that dies with unread bytes: the other side sees an error, not an end."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("=ii", 1, 0))
    sock.close()


def hung_up(sock: socket.socket) -> bool:
    """Whether the other side ends the connection before the socket's own deadline."""
    try:
        while sock.recv(1000):
            continue
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


class Attacker:
    """Speaks halohop's framing over a blocking socket, knows the token or does not, and says what it likes.

    Args:
        listener: whom to attack.
        token: if given, it introduces itself first, and encrypts if the token says so.
        codec: the message types that it says it knows.
    """

    def __init__(self, listener: Listener | str, token: Token | None = None, codec: Codec | None = None) -> None:
        self._terms = Terms(max_message_bytes=2**20, messages=(codec or Codec(MESSAGE_TYPES)).digest)
        seal = seal_of(token, server=False)
        self.sock = knock(listener, say=GREETING if seal is None else SEALED_GREETING)
        self._assembler = Assembler(max_bytes=2**30, max_frames=MAX_FRAMES, pool=Pool(0))
        self._messages: list[Frames] = []
        assert self._exactly(len(GREETING)) in (GREETING, SEALED_GREETING)
        if seal is not None:
            self.sock = seal.wrap_socket(self.sock)
        self.session = None if token is None else self.meet(token)

    def meet(self, token: Token) -> Session:
        """The handshake, to its good end."""
        handshake = ClientHandshake(token, self._terms)
        self.send(handshake.hello())
        proof = handshake.step(bytes(self.receive()[0]))
        assert isinstance(proof, bytes)
        self.send(proof)
        session = handshake.step(bytes(self.receive()[0]))
        assert isinstance(session, Session)
        return session

    def send(self, *frames: Buffer) -> None:
        self.sock.sendall(framed(*frames))

    def receive(self) -> Sequence[Buffer]:
        """The next message.

        Raises:
            ConnectionError: there is none to come.
            TimeoutError: none came for long.
        """
        while not self._messages:
            data = self.sock.recv(2**16)
            if not data:
                raise ConnectionAbortedError("hung up")
            self._assembler.feed(memoryview(data))
            self._messages = self._assembler.take()
        return self._messages.pop(0)

    def close(self) -> None:
        self.sock.close()

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count and (more := self.sock.recv(count - len(data))):
            data += more
        return data

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def resident_bytes() -> int:
    """Memory that this process occupies."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def wait_for(condition: Callable[[], object], seconds: float = _SECONDS) -> bool:
    """Whether something becomes true in time."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        threading.Event().wait(0.02)
    return bool(condition())
