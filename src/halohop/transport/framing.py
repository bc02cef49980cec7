"""Messages in a stream of bytes: how many frames, how long each of them is, the frames.

>I  number of frames     >Q  size, for each frame     the frames' bytes
"""

import struct

import torch

from halohop.errors import ProtocolError
from halohop.ops.pool import SMALL, Pool
from halohop.transport.wire import Frames

MAX_FRAMES = 2**16
_COUNT = struct.Struct(">I")
_DIRECT = 2**15
"""Bytes still missing of a frame from which they are received into its memory, not by way of a common buffer."""


def packed(frames: Frames) -> list[memoryview]:
    """What to send for a message. It shares memory with the frames."""
    views = [memoryview(frame) for frame in frames]
    head = struct.pack(f">I{len(views)}Q", len(views), *(view.nbytes for view in views))
    return [memoryview(head), *(view.cast("B") for view in views if view.nbytes)]


class Assembler:
    """Puts messages together from bytes as they come, each frame in memory of its own. Room is made for one frame at a time.

    Args:
        max_bytes, max_frames: of a message; may be changed between messages.
        pool: lends the memory of large frames.

    Example:
        >>> assembler = Assembler(max_bytes=100, max_frames=2, pool=Pool())
        >>> for byte in b"".join(packed([b"abc", b""])):
        ...     assembler.feed(memoryview(bytes([byte])))
        >>> [[bytes(frame) for frame in message] for message in assembler.take()]
        [[b'abc', b'']]
    """

    def __init__(self, *, max_bytes: int, max_frames: int, pool: Pool) -> None:
        self.max_bytes = max_bytes
        self.max_frames = max_frames
        self._pool = pool
        self._head = bytearray()
        self._head_bytes = _COUNT.size  # of the head, as far as is known
        self._sizes: list[int] = []  # of the frames to come, the last one first
        self._frames: list[memoryview] = []
        self._room = memoryview(b"")  # what is missing of the last frame
        self._messages: list[Frames] = []

    @property
    def complete(self) -> bool:
        """Whether there is a message to take."""
        return bool(self._messages)

    def take(self) -> list[Frames]:
        """The messages that are complete. Their frames are writable, and the caller's from now on."""
        messages, self._messages = self._messages, []
        return messages

    def room(self) -> memoryview | None:
        """Where the next bytes belong, if there are many; then say how many came with `filled`. Else give them to `feed`."""
        return self._room if len(self._room) >= _DIRECT else None

    def filled(self, count: int) -> None:
        self._room = self._room[count:]
        if not len(self._room):
            self._room = memoryview(b"")  # or else it would keep the frame
            self._make_room()

    def feed(self, data: memoryview) -> None:
        """Takes in bytes.

        Raises:
            ProtocolError: they announce a message that is too large, or none at all.
        """
        while len(data):
            if len(self._room):
                count = min(len(self._room), len(data))
                self._room[:count] = data[:count]
                self.filled(count)
            else:
                count = min(self._head_bytes - len(self._head), len(data))
                self._head += data[:count]
                if len(self._head) == self._head_bytes:
                    self._on_head()
            data = data[count:]

    def _on_head(self) -> None:
        (count,) = _COUNT.unpack_from(self._head)
        if not 0 < count <= self.max_frames:
            raise ProtocolError(f"a message of {count} frames, where 1 to {self.max_frames} are allowed")
        self._head_bytes = _COUNT.size + 8 * count
        if len(self._head) < self._head_bytes:
            return
        sizes = struct.unpack_from(f">{count}Q", self._head, _COUNT.size)
        if sum(sizes) > self.max_bytes:
            raise ProtocolError(f"a message of {sum(sizes)} bytes, where {self.max_bytes} are allowed")
        self._sizes = list(reversed(sizes))
        self._make_room()

    def _make_room(self) -> None:
        """For the next frame that has any bytes; where none is left, the message is complete."""
        while self._sizes:
            size = self._sizes.pop()
            self._frames.append(self._memory(size))
            if size:
                self._room = self._frames[-1]
                return
        self._messages.append(self._frames)
        self._frames = []
        self._head.clear()
        self._head_bytes = _COUNT.size

    def _memory(self, size: int) -> memoryview:
        return memoryview(bytearray(size)) if size < SMALL else self._pool.empty((size,), torch.uint8).numpy().data
