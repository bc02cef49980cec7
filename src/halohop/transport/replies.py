"""What arrives for a call: its reply, or why there is none; and the queue of calls that are done."""

from collections import deque
from typing import Any

from halohop.errors import ProtocolError
from halohop.transport.calls import Call
from halohop.transport.messages import Codec, Failure, size_of
from halohop.transport.peer_errors import PeerErrors
from halohop.transport.wire import Frames


def read_reply(frames: Frames, operation: str, codec: Codec, errors: PeerErrors) -> Any:
    """The reply that the frames hold.

    Raises:
        MessageTooLargeError: it is larger than this side takes.
        ProtocolError: it cannot be read.
        RemoteError, PeerLostError, DeadlineExceededError: the failure that the peer reports instead.
    """
    if (size := size_of(frames)) > errors.limits.max_message_bytes:
        raise errors.reply_too_large(operation, size)
    try:
        reply = codec.decode(frames, max_bytes=errors.limits.max_message_bytes)
    except ProtocolError as error:
        raise errors.unreadable(operation, error) from error
    if isinstance(reply, Failure):
        raise errors.failure(operation, reply)
    return reply


class DoneCalls:
    """Calls whose futures are to be resolved, outside of the channel's lock.

    Their callbacks may call the channel again. Only the channel's own thread resolves: those calls return without resolving
    further futures, whose callbacks would call in turn, deeper and deeper.
    """

    def __init__(self) -> None:
        self._done: deque[tuple[Call, Any, Exception | None]] = deque()

    def put(self, call: Call, reply: Any, error: Exception | None = None) -> None:
        self._done.append((call, reply, error))

    def __bool__(self) -> bool:
        return bool(self._done)

    def resolve(self) -> None:
        while self._done:
            call, reply, error = self._done.popleft()
            if error is None:
                call.future.set_result(reply)
            else:
                call.future.set_exception(error)
