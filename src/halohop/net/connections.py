"""What ties an opened graph to the other hosts: the server it runs, the channels it asks through, and how they end."""

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from halohop.errors import AuthenticationError, PeerLostError, ProtocolError, TransportError
from halohop.net.rendezvous import Rendezvous
from halohop.store.requests import FetchRequest
from halohop.telemetry import added
from halohop.transport import Channel, Listener
from halohop.transport.base import Closing


@dataclass(frozen=True, slots=True, kw_only=True)
class Connections:
    """The connections of one graph; a graph on one host has none.

    Args:
        rendezvous: where the ranks meet again at the end.
        listener: this host's server; None where another process of the host runs it.
        channels: one per host that holds what this one does not.
        helpers: what else runs for them; closed before them.
        call_seconds: how long the channels repeat what is not answered.
    """

    rendezvous: Rendezvous | None = None
    listener: Listener | None = None
    channels: tuple[Channel, ...] = ()
    helpers: tuple[Closing, ...] = ()
    call_seconds: float = 0.0

    def check(self, *, deadline: float) -> None:
        """Asks every peer for nothing, to see who lives.

        Raises:
            PeerLostError: a peer did not answer within the deadline (seconds).
            AuthenticationError: a peer has another token.
            ProtocolError: a peer runs another halohop.
        """
        asked: list[tuple[str, Future[Any]]] = [
            (channel.peer, channel.submit(FetchRequest(queries=()))) for channel in self.channels
        ]
        for peer, future in asked:
            try:
                future.result(timeout=deadline)
            except (AuthenticationError, PeerLostError, ProtocolError):
                raise
            except (TimeoutError, TransportError) as error:
                raise PeerLostError(f"{peer} does not answer within {deadline:g} s: it was killed, or cut off") from error

    def statistics_by_peer(self) -> dict[str, dict[str, float]]:
        """What the channels count, by the labels of their peers: "host 1", "server 0"."""
        counted: dict[str, dict[str, float]] = {}
        for channel in self.channels:
            counted[channel.peer] = added([counted.get(channel.peer, {}), channel.statistics()])
        return counted

    def close(self, *, wait: bool) -> None:
        """Ends the connections; with `wait` only after every rank has said that it asks no more."""
        for helper in self.helpers:
            helper.close()
        try:
            if wait and self.rendezvous is not None:
                self.rendezvous.leave()
        finally:
            for channel in self.channels:
                channel.close()
            if self.listener is not None:
                self.listener.close()
