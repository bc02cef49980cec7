"""The errors of a channel, in words: which peer, where, doing what, within which limit, and what to try."""

import os
import time
from dataclasses import dataclass, field

from halohop.errors import (
    AuthenticationError,
    ClusterError,
    DeadlineExceededError,
    MessageTooLargeError,
    PeerLostError,
    ProtocolError,
    RemoteError,
    TransportError,
)
from halohop.transport.base import Limits
from halohop.transport.calls import Call
from halohop.transport.messages import LOSSES, Failure

_SMALLER = "ask for less at a time, or raise max_message_bytes on both sides"


class ConnectionLostError(PeerLostError):
    """Of a call that is not repeated: its connection was lost, or could not be made. Another peer may be asked in its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerErrors:
    """Makes the errors about one peer. Every method takes the operation that failed."""

    peer: str
    address: str
    limits: Limits
    process: int = field(default_factory=os.getpid)

    def __str__(self) -> str:
        return f"peer {self.peer!r} at {self.address}"

    def late(self, call: Call, seconds: float, why: str | None, *, was_there: bool) -> TransportError:
        """A call was not answered in its time.

        Args:
            why: there is no connection; None where there is one.
            was_there: whether there ever was one.
        """
        if why is None:
            limit = f"its deadline of {seconds:g} s"
            return DeadlineExceededError(f"{call.operation}: no answer from {self} within {limit} ({call.attempts} attempts)")
        if was_there:
            limit = f"the deadline of {seconds:g} s"
            return PeerLostError(f"{call.operation}: {self} went away ({why}) and did not come back within {limit}")
        waited = time.monotonic() - call.made
        remedy = "is it running, is the address right, does a firewall stand between?"
        return PeerLostError(f"{call.operation}: {self} could not be reached within {waited:.1f} s ({why}); {remedy}")

    def interrupted(self, operation: str, why: str) -> TransportError:
        return ConnectionLostError(f"{operation}: {self} went away ({why})")

    def handshake(self, operation: str, error: AuthenticationError | ProtocolError) -> TransportError:
        return type(error)(f"{operation}: {self} is not the peer that was expected: {error}")

    def unreadable(self, operation: str, error: ProtocolError) -> TransportError:
        return ProtocolError(f"{operation}: the reply of {self} cannot be read: {error}")

    def request_too_large(self, operation: str, size: int, limit: int) -> TransportError:
        return MessageTooLargeError(f"{operation}: the request to {self} has {size} bytes, over the limit of {limit}; {_SMALLER}")

    def reply_too_large(self, operation: str, size: int) -> TransportError:
        limit = self.limits.max_message_bytes
        return MessageTooLargeError(f"{operation}: the reply of {self} has {size} bytes, over the limit of {limit}; {_SMALLER}")

    def failure(self, operation: str, failure: Failure) -> TransportError:
        """What the peer itself reported."""
        text = f"{operation}: {self} failed: {failure.message}"
        if failure.kind == "too_large":
            return MessageTooLargeError(f"{text}; {_SMALLER}")
        if failure.kind == "protocol":
            return ProtocolError(text)
        remote = RemoteError(text, failure.traceback)
        if failure.kind in LOSSES:  # not this peer is lost, but one that it needs: the message names that one
            error = LOSSES[failure.kind](f"{operation}: {self} waited for another: {failure.message}")
            error.__cause__ = remote
            return error
        return remote

    def closed(self, operation: str) -> TransportError | ClusterError:
        if os.getpid() != self.process:  # it was forked; the channel's thread and connection stayed with the parent
            return ClusterError(
                f"a forked process cannot ask {self.peer} over its parent's connection; use halohop.NeighborLoader, "
                "whose workers are threads, or PyG's loaders with num_workers=0"
            )
        return TransportError(f"{operation}: the channel to {self} was closed")
