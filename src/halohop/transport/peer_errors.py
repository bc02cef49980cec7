"""The errors of a channel, in words: which peer, where, doing what, within which limit, and what to try."""

from dataclasses import dataclass

from halohop.errors import (
    AuthenticationError,
    DeadlineExceededError,
    MessageTooLargeError,
    PeerLostError,
    ProtocolError,
    RemoteError,
    TransportError,
)
from halohop.transport.base import Limits
from halohop.transport.messages import LOSSES, Failure

_SMALLER = "ask for less at a time, or raise max_message_bytes on both sides"


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerErrors:
    """Makes the errors about one peer. Every method takes the operation that failed."""

    peer: str
    address: str
    limits: Limits

    def __str__(self) -> str:
        return f"peer {self.peer!r} at {self.address}"

    def unanswered(self, operation: str, attempts: int) -> TransportError:
        limit = f"its deadline of {self.limits.call_seconds:g} s"
        return DeadlineExceededError(f"{operation}: no answer from {self} within {limit} ({attempts} attempts)")

    def lost(self, operation: str, why: str) -> TransportError:
        limit = f"the deadline of {self.limits.call_seconds:g} s"
        return PeerLostError(f"{operation}: {self} went away ({why}) and did not come back within {limit}")

    def never_there(self, operation: str, why: str, seconds: float) -> TransportError:
        remedy = "is it running, is the address right, does a firewall stand between?"
        return PeerLostError(f"{operation}: {self} could not be reached within {seconds:.1f} s ({why}); {remedy}")

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

    def closed(self, operation: str) -> TransportError:
        return TransportError(f"{operation}: the channel to {self} was closed")
