"""One TCP connection that never blocks: messages in, messages out, perhaps encrypted.

Both sides begin with a greeting in the clear, which says whether they encrypt. So two that do not agree find out at once, and
neither has said anything else. What follows is TLS (`tls`) with messages (`framing`) in it, or just messages.
"""

import contextlib
import math
import socket
import ssl
import struct
import threading
import time
from collections import deque
from itertools import islice

from halohop.errors import ProtocolError
from halohop.ops.pool import Pool
from halohop.transport.addresses import joined
from halohop.transport.base import Limits
from halohop.transport.framing import MAX_FRAMES, Assembler, packed
from halohop.transport.handshake import MAX_STEP_BYTES, MAX_WELCOME_BYTES
from halohop.transport.lookup import place_of
from halohop.transport.security import ENCRYPT_VARIABLE
from halohop.transport.wire import REQUEST, SILENCE_BEATS, Frames, Lost

STAGING_BYTES = 2**16
IDLE_BYTES = 2**28
"""Of memory for large frames that a port keeps for the next ones."""
LONGEST_WAIT = 3600.0
"""Seconds; the system does not take any number."""
_GREETING = struct.Struct(">7s?")
_MAGIC = b"halohop"
_BUFFERS_AT_ONCE = 64  # of one system call; the system's own limit is 1024
_JOIN_BYTES = 2**14  # a record of TLS
_BLOCKED = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_AT_ONCE = struct.pack("=ii", 1, 0)  # the system, too, forgets a closed connection and what is still under way

BROKE = Lost(reason="the connection broke")
NO_PEER = Lost(reason="it does not speak halohop's protocol")
_OTHER_KEY = Lost(
    reason="it could not prove that it knows the token, or has a certificate of the same authority; give both sides the same",
    stranger=True,
)
_REFUSALS = ("CERTIFICATE", "ALERT")  # in what OpenSSL calls its errors: by this side, by the other
_ONE_SIDED = f"this side {{}}, the other does otherwise; give both the same token, and both {ENCRYPT_VARIABLE}=1 or neither"


class _EndedError(Exception):
    """The connection is gone, or there is no peer at its other end; `lost` says how."""

    def __init__(self, lost: Lost) -> None:
        super().__init__(lost.reason)
        self.lost = lost


class Stream:
    """A connection and what is under way on it. One thread owns it; from others only `send` may be called.

    Args:
        sock: not blocking; connected, or about to be: then call `begin` when it is.
        limits: of this side.
        seal: encrypts, if given.
        accepted: whether the other side has connected to us. On either side, the other one stays a stranger until it is
            `admit`-ted.
        pool: lends the memory of large frames.

    Attributes:
        heard: when the last byte arrived, on the monotonic clock.
    """

    def __init__(self, sock: socket.socket, *, limits: Limits, seal: ssl.SSLContext | None, accepted: bool, pool: Pool) -> None:
        configure(sock, limits, accepted)
        self.heard = time.monotonic()
        self._socket = sock
        self._limits = limits
        self._seal = seal
        self._accepted = accepted
        self._assembler = Assembler(max_bytes=MAX_STEP_BYTES if accepted else MAX_WELCOME_BYTES, max_frames=1, pool=pool)
        self._greeting = bytearray()  # the other side's, as far as it has come
        self._sealed: ssl.SSLSocket | None = None
        # Over what follows, and over the encrypted socket, which bears one thread at a time.
        self._lock = threading.RLock()
        self._known = False  # the other side has said something that could be read
        self._open = False  # messages may pass
        self._closed = False
        self._out: deque[memoryview] = deque()
        self.backlog = 0  # bytes that wait to be sent
        self.taken = self.heard  # when the system last took some of them

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def other_end(self) -> str:
        """The address of the other side."""
        try:
            return joined(place_of(self._socket.getpeername()))
        except OSError:  # it is gone
            return "an address that is gone"

    def connected(self) -> bool:
        """Whether an attempt to connect, now over, was successful."""
        with contextlib.suppress(OSError):
            if not self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                if self._socket.getsockname() != self._socket.getpeername():
                    return True
                # No server listens, and the system happened to give this side the very port that it calls. The server that is
                # to listen there needs it, at once.
                self.close(at_once=True)
        return False

    @property
    def blocked(self) -> bool:
        """Whether something waits only for the system to take it."""
        return self._open and bool(self._out)

    def begin(self) -> None:
        """The connection is there: says hello."""
        with contextlib.suppress(OSError):  # a connection that is gone says so when it is read
            self._socket.send(_GREETING.pack(_MAGIC, self._seal is not None))
        if self._seal is None:
            self._opened()

    def admit(self) -> None:
        """The other side is no stranger: its messages may be large."""
        self._assembler.max_bytes = self._limits.max_message_bytes + REQUEST.size
        self._assembler.max_frames = MAX_FRAMES

    def send(self, frames: Frames) -> bool:
        """Sends a message, as far as that is possible at once; False if something is left for `flush`."""
        views = packed(frames)
        with self._lock:
            waits = bool(self._out)
            if not waits:
                self.taken = time.monotonic()
            self._out.extend(views)
            self.backlog += sum(view.nbytes for view in views)
            if not waits:
                self.flush()
            return not self._out

    def flush(self) -> None:
        """Sends what waits, as far as possible."""
        with self._lock, contextlib.suppress(*_BLOCKED):
            try:
                while self._open and self._out:
                    self._sent(self._send_some())
            except BaseException as error:  # also an interrupt from the keyboard: how much was sent is not known
                if isinstance(error, _BLOCKED):
                    raise
                self._out.clear()
                self._open, self.backlog = False, 0
                self._shut_down()  # by reading, the owner learns that this is the end
                if not isinstance(error, OSError):
                    raise

    def receive(self, staging: memoryview) -> tuple[list[Frames], Lost | None]:
        """The messages that have arrived, and how the connection ended, if it did.

        Args:
            staging: room for bytes, ``[STAGING_BYTES]``; nothing in it is needed afterwards.
        """
        lost = None
        try:
            if self._greeted() and (self._seal is None or self._shaken(self._seal)):
                self._read(staging)
        except _BLOCKED:
            pass
        except _EndedError as ended:
            lost = ended.lost
        except ProtocolError:
            lost = NO_PEER
        except ssl.SSLError as error:
            refused = not self._known and any(word in str(error) for word in _REFUSALS)
            lost = _OTHER_KEY if refused else BROKE  # later, an alert reports bytes that were garbled on their way
        except OSError:
            lost = BROKE
        messages = self._assembler.take()
        self._known |= bool(messages)
        return messages, lost

    def close(self, *, at_once: bool = False) -> None:
        """Ends the connection; `at_once` without waiting for what is under way."""
        with self._lock:
            if not self._closed:
                self._closed, self._open = True, False
                self._out.clear()
                if at_once:
                    with contextlib.suppress(OSError):
                        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
                else:
                    self._shut_down()  # also if a forked process has the socket, too
                self._socket.close()

    def _shut_down(self) -> None:
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # of TCP: that of an encrypted socket would end encryption

    # ---- reading

    def _greeted(self) -> bool:
        missing = _GREETING.size - len(self._greeting)
        if missing:
            data = self._socket.recv(missing)
            if not data:
                raise _EndedError(BROKE)
            self.heard = time.monotonic()
            self._greeting += data
            if not _MAGIC.startswith(self._greeting[: len(_MAGIC)]):
                raise _EndedError(NO_PEER)
            if len(data) == missing:
                _, encrypts = _GREETING.unpack(self._greeting)
                if encrypts != (self._seal is not None):
                    here = "does not encrypt" if encrypts else "encrypts"
                    raise _EndedError(Lost(reason=_ONE_SIDED.format(here), stranger=True))
        return len(self._greeting) == _GREETING.size

    def _shaken(self, seal: ssl.SSLContext) -> bool:
        """Whether the handshake of TLS is done."""
        with self._lock:
            if self._sealed is None:
                self._socket.getpeername()  # fails where the connection is gone; what follows would then lose the socket
                self._sealed = seal.wrap_socket(self._socket, server_side=self._accepted, do_handshake_on_connect=False)
                self._socket = self._sealed
            if not self._open:
                self._sealed.do_handshake()
                self.heard = time.monotonic()
                self._opened()
        return True

    def _opened(self) -> None:
        with self._lock:
            self._open = not self._closed
            self.flush()

    def _read(self, staging: memoryview) -> None:
        """Until a message is complete, or there is no more for now: then others get their turn."""
        while not self._assembler.complete:
            room = self._assembler.room()
            into = staging if room is None else room
            count = self._received(into)
            if room is None:
                self._assembler.feed(staging[:count])
            else:
                self._assembler.filled(count)
            if self._sealed is None and count < len(into):
                return

    def _received(self, into: memoryview) -> int:
        with self._lock if self._sealed else contextlib.nullcontext():
            count = self._socket.recv_into(into)
        if not count:
            raise _EndedError(BROKE)
        self.heard = time.monotonic()
        return count

    # ---- writing, under the lock

    def _send_some(self) -> int:
        if self._sealed is None and hasattr(self._socket, "sendmsg"):
            return self._socket.sendmsg(islice(self._out, _BUFFERS_AT_ONCE))
        if len(self._out) > 1 and self._out[0].nbytes < _JOIN_BYTES:
            self._join()
        return self._socket.send(self._out[0])

    def _join(self) -> None:
        """Makes one of the first few small buffers."""
        parts: list[memoryview] = []
        size = 0
        while self._out and (not parts or size + self._out[0].nbytes <= _JOIN_BYTES):
            parts.append(self._out.popleft())
            size += parts[-1].nbytes
        self._out.appendleft(memoryview(b"".join(parts)))

    def _sent(self, count: int) -> None:
        self.backlog -= count
        self.taken = time.monotonic()
        while count and count >= self._out[0].nbytes:
            count -= self._out.popleft().nbytes
        if count:
            self._out[0] = self._out[0][count:]


def configure(sock: socket.socket, limits: Limits, accepted: bool) -> None:
    """Small messages go at once, and the system notices a host that is gone. A client notices it by the silence: it must not
    take for gone a server that leaves on the wire what it has no time for.
    """
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    seconds = min(max(1, math.ceil(SILENCE_BEATS * limits.heartbeat_seconds)), 2**15 - 1)
    timeout = 1000 * seconds if accepted else 0
    for name, value in (("TCP_KEEPIDLE", seconds), ("TCP_KEEPINTVL", seconds), ("TCP_USER_TIMEOUT", timeout)):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
