"""Messages over a pair of pipes, whatever carries them: ssh, srun, or a parent process.

Each side says every `BEAT_S` seconds that it is alive. A side that reads nothing for `SILENCE_S` seconds takes the other for
lost, so a cut network is noticed as well as a closed pipe.
"""

import math
import os
import select
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec

from halohop.errors import PeerLostError, ProtocolError
from halohop.launch.jobs.host.messages import KINDS, MARK, Beat, Message

BEAT_S = 2.0
SILENCE_S = 6.0

PIECE = 1 << 20
"""Bytes of a file that one message holds."""

_HEAD = struct.Struct(">BI")
_END = b"\n"
_LIMIT = 1 << 30
_READ = 1 << 18
_NOISE = 1 << 16
_CLOSE_S = 0.2


class Channel:
    """Sends and receives messages; several threads may send, one receives.

    Args:
        incoming, outgoing: descriptors of pipes; they stay the caller's to close.
        name: of the other side, for errors.

    Attributes:
        heard: when something came last, on the monotonic clock.
        advanced: when the other side last sent a message, or said that it gets on with its work.
    """

    def __init__(self, incoming: int, outgoing: int, *, name: str) -> None:
        self._incoming, self._outgoing, self._name = incoming, outgoing, name
        self._sending = threading.Lock()
        self._over, self._hurry = threading.Event(), threading.Event()
        self._buffer = bytearray()
        self._last = Beat()
        self.heard = self.advanced = time.monotonic()

    def send(self, message: Message) -> None:
        """Sends a message; waits as long as the other side does not read.

        Raises:
            PeerLostError: the pipe is closed.
        """
        data = msgspec.msgpack.encode(message) + _END
        frame = memoryview(_HEAD.pack(KINDS.index(type(message)), len(data)) + data)
        try:
            with self._sending:
                while frame:
                    if self._over.is_set():
                        raise PeerLostError(f"the connection to {self._name} is closed")
                    frame = frame[os.write(self._outgoing, frame) :]
        except (BrokenPipeError, ConnectionResetError) as error:
            raise PeerLostError(f"{self._name} has closed the connection") from error

    def receive(self, seconds: float = SILENCE_S, *, latest: float = math.inf) -> Any:
        """The next message that is no `Beat`, or the first one that says that the other side must end.

        Args:
            seconds: how long nothing at all may come.
            latest: when the whole message must be here, on the monotonic clock.

        Raises:
            PeerLostError: the pipe is closed, or nothing came for so long.
            ProtocolError: what came is no message.
        """
        while True:
            kind, size = _HEAD.unpack(self._take(_HEAD.size, seconds, latest))
            if kind >= len(KINDS) or size > _LIMIT:
                raise ProtocolError(f"{self._name} sent no message of ours: kind {kind} of {size} bytes")
            data = self._take(size, seconds, latest)
            try:
                message = msgspec.msgpack.decode(data.removesuffix(_END), type=KINDS[kind])
            except msgspec.DecodeError as error:
                raise ProtocolError(f"{self._name} sent a damaged {KINDS[kind].__name__}: {error}") from error
            if not isinstance(message, Beat):
                self.advanced = time.monotonic()
                return message
            last, self._last = self._last, message
            if message.work != last.work:
                self.advanced = time.monotonic()
            if message.must_end and not last.must_end:
                return message

    def find_mark(self, seconds: float) -> None:
        """Reads up to the mark that stands before the first message.

        Raises:
            PeerLostError: it did not come in so many seconds; says what came instead.
        """
        deadline = time.monotonic() + seconds
        while (place := self._buffer.find(MARK)) < 0:
            if len(self._buffer) > _NOISE or not self._read(max(deadline - time.monotonic(), 0)):
                printed = bytes(self._buffer[-200:]).decode(errors="replace").strip()
                raise PeerLostError(f"{self._name} did not start" + (f"; it printed: {printed}" if printed else ""))
        del self._buffer[: place + len(MARK)]

    def beat(self, state: Callable[[], Beat] = Beat) -> None:
        """Says again and again that this side is alive, and what its state is, until `close`."""
        threading.Thread(target=self._beat, args=(state,), name="halohop-beat", daemon=True).start()

    def hurry(self) -> None:
        """Lets `beat` say its state now. Handlers of signals may call it."""
        self._hurry.set()

    def close(self) -> bool:
        """Sends nothing more. Returns whether no send is under way, so that the pipe may be closed."""
        self._over.set()
        self._hurry.set()
        free = self._sending.acquire(timeout=_CLOSE_S)
        if free:
            self._sending.release()
        return free

    def _beat(self, state: Callable[[], Beat]) -> None:
        try:
            while not self._over.is_set():
                self._hurry.wait(BEAT_S)
                self._hurry.clear()
                self.send(state())
        except PeerLostError:  # who receives learns of it, too
            return

    def _take(self, size: int, seconds: float, latest: float) -> bytes:
        while len(self._buffer) < size:
            if not self._read(max(min(seconds, latest - time.monotonic()), 0)):
                late = time.monotonic() >= latest
                raise PeerLostError(f"{self._name} {'took too long' if late else f'said nothing for {seconds:g} s'}")
        data = bytes(memoryview(self._buffer)[:size])
        del self._buffer[:size]
        return data

    def _read(self, seconds: float) -> bool:
        """Reads more; whether anything came in time."""
        begin = time.monotonic()
        if not select.select([self._incoming], [], [], seconds)[0]:
            stopped = time.monotonic() - begin > seconds + BEAT_S  # as a scheduler stops a job: its silence was our own
            if not stopped or not select.select([self._incoming], [], [], seconds)[0]:
                return False
        data = os.read(self._incoming, _READ)
        if not data:
            raise PeerLostError(f"{self._name} has closed the connection")
        self._buffer += data
        self.heard = time.monotonic()
        return True
