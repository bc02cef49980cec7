"""What the transport offers: request -> reply, with a deadline and a named error.

A `Listener` answers requests with a handler; a `Channel` is the client's side of one such peer.
Requests are pure (asked twice, answered alike), which is what lets a channel repeat them after an interruption.
"""

import math
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self

from halohop.errors import InputError
from halohop.transport.handshake import Identity

Handler = Callable[[Any], Any]
"""Answers one request with one reply, both of types that the codec knows. Called from several threads at a time. If all of them
wait for other servers, those may be waiting for them: types that do so are named in `waiting` (see `tcp.serve`).

The reply may be a `concurrent.futures.Future`: it is sent when that is done, by the thread that completes it, and no thread waits
meanwhile. A future that fails, or is cancelled, is a handler that raises. Such requests do not count as in flight (see
`Limits`), and any number of them may wait. A client that is gone, or whose deadline is over, is sent nothing; what completes the
future needs a deadline of its own. A request that a client repeats over a new connection is handled anew while the first waits.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long to wait and how much to hold. Each side has its own; for the size of a message the smaller one counts.

    Args:
        call_seconds: until a call must be answered, repetitions and reconnections included.
        attempt_seconds: for connecting, and for each step of a handshake; then the next attempt is made. A listener gives as
            much to the whole of a handshake.
        connect_seconds: how long calls wait for a peer that was never there; one that was there has until the call's deadline.
        heartbeat_seconds: between a listener's signs of life; a connection counts as lost after ten of them without a byte, and
            what was asked over it is asked again over the next.
        max_message_bytes: header and tensors of one message.
        max_in_flight, max_in_flight_bytes: requests that a channel has sent, or a listener taken in, and not finished; the
            others wait, those of a listener on the wire, but for what had arrived together with the last. One request larger
            than all the bytes is let through alone. A listener does not count those that wait for other listeners, nor
            those whose reply is a future that is not done.
        max_unsent_bytes, max_unsent_bytes_in_all: replies of a listener that wait to be sent, to one client and to all of them.
            Of a client that leaves more unread, no further request is answered or read until it has read some; if it reads
            nothing for ten heartbeats, its connection is closed.
        handler_threads: how many requests a listener answers at a time.
        max_strangers: connections to a listener that have not shown the token. One more, and the oldest of them is closed.
            Peers that have shown the token are not counted, and a peer that was closed in the crush tries again.

    Raises:
        InputError: a number that is not positive and finite, or max_message_bytes below 64 KiB.
    """

    call_seconds: float = 60.0
    attempt_seconds: float = 5.0
    connect_seconds: float = 10.0
    heartbeat_seconds: float = 2.0
    max_message_bytes: int = 2**30
    max_in_flight: int = 256
    max_in_flight_bytes: int = 2**30
    max_unsent_bytes: int = 2**26
    max_unsent_bytes_in_all: int = 2**30
    handler_threads: int = 8
    max_strangers: int = 256

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            if not 0 < getattr(self, name) < math.inf:
                raise InputError(f"{name}={getattr(self, name)} must be positive and finite")
        if self.max_message_bytes < 2**16:
            raise InputError(f"max_message_bytes={self.max_message_bytes} leaves no room for an error report; at least {2**16}")


DEFAULT_LIMITS = Limits()


class Closing(Protocol):
    """Something to be closed, by hand or by ``with``. A class that names it as its base only defines `close`."""

    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class Channel(Closing, Protocol):
    """The client's side of one peer. All methods may be called from any thread."""

    @property
    def peer(self) -> str:
        """The label that errors name."""
        ...

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where the peer is looked for; what was learned last comes first."""
        ...

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection to the expected peer, as far as this side knows."""
        ...

    def is_lost(self, seconds: float) -> bool:
        """Whether there has been no connection to the peer for so long, or one without the signs of life that a server sends."""
        ...

    @property
    def address(self) -> str:
        """Where it is connected, or where the last connection was tried."""
        ...

    def submit(
        self, request: Any, *, operation: str | None = None, seconds: float | None = None, once: bool = False
    ) -> "Future[Any]":
        """Sends a request and returns at once; the reply, or the error, arrives in the future.

        The request's tensors must stay unchanged until then. Callbacks run on the channel's own thread: keep them short.

        Args:
            request: of a type that the codec knows.
            operation: what to call it in errors; the request's type if None.
            seconds: until it must be answered, whether or not the peer was ever there; None: as the limits say.
            once: it fails with `ConnectionLostError` when the connection is lost, or cannot be made, and is not repeated.

        Raises (in the future):
            InputError: the request is of no registered type.
            DeadlineExceededError: connected, but no answer in time.
            PeerLostError: not connected at the deadline, or only to others than the expected one.
            AuthenticationError: the peers do not share a token.
            ProtocolError: another protocol version, other message types, or one side does not understand the other.
            MessageTooLargeError: request or reply.
            RemoteError: the handler raised.
            TransportError: the channel was closed.
            ClusterError: in a process forked from the one that connected.
        """
        ...

    def call(self, request: Any, *, operation: str | None = None) -> Any:
        """The reply to `request`; raises what `submit` puts into the future."""
        ...

    def add_address(self, address: str) -> None:
        """From now on the peer is looked for at this address first: it was started again on another host or port.

        What waits is asked there, each call with its whole time. It is no harm if the peer gets one twice: requests are pure,
        and changes of tables counted. An address that is known, or a channel that was closed, changes nothing.

        Raises:
            InputError: not an address.
        """
        ...

    def rename(self, peer: str) -> None:
        """From now on errors call the peer so."""
        ...

    def expect(self, identity: Identity) -> None:
        """From now on the peer must serve this; a connection to one that does not is dropped."""
        ...

    def statistics(self) -> dict[str, float]:
        """Sums since the start (calls answered, failures, retries, connections, bytes_sent, bytes_received, call_seconds) and
        what is now waiting and in_flight.
        """
        ...


class Listener(Closing, Protocol):
    """The server's side: answers clients that know the token."""

    @property
    def address(self) -> str:
        """What clients connect to."""
        ...

    def drain(self, seconds: float) -> bool:
        """Lets no more clients in, asks those that are there to send no more, and answers what they have sent.

        Returns:
            Whether all had their answers and left before the seconds were over. The listener is still to be closed.
        """
        ...

    def statistics(self) -> dict[str, float]:
        """Sums since the start (calls, failures, expired, sessions, strangers, bytes_sent, bytes_received, handler_seconds) and
        what is now in_flight.
        """
        ...
