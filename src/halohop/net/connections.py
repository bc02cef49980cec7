"""What ties an opened graph to other hosts: the servers that it asks, the one that it runs, and how both end."""

import os
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from halohop.errors import AuthenticationError, PeerLostError, ProtocolError, TransportError
from halohop.net.attending import Attending
from halohop.net.directory import PeerDirectory
from halohop.net.remote import Peer
from halohop.net.rendezvous import Rendezvous
from halohop.store.requests import FetchRequest
from halohop.transport.base import Closing

_GOODBYE_SECONDS = 1.0


class Draining(Closing, Protocol):
    """A server that can say goodbye."""

    def drain(self, seconds: float) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Connections:
    """The connections of one graph.

    Args:
        directory: of the servers; closed with the graph.
        peers: those that are asked about partitions.
        rendezvous: where the ranks meet again at the end.
        server: what this process serves itself; None where another process of the host does.
        jobs: this client's part in jobs; None of a host.
        process: that opened the graph; one that was forked from it closes nothing.
    """

    directory: PeerDirectory
    peers: tuple[Peer, ...]
    rendezvous: Rendezvous | None = None
    server: Draining | None = None
    jobs: Attending | None = None
    process: int = field(default_factory=os.getpid)

    def check(self, *, deadline: float) -> None:
        """Asks every peer for nothing, to see who lives.

        Raises:
            PeerLostError: a peer did not answer within the deadline (seconds).
            AuthenticationError: a peer has another token.
            ProtocolError: a peer runs another halohop.
        """
        asked: list[tuple[str, Future[Any]]] = [
            (peer.shard.peer, peer.shard.ask(FetchRequest(queries=()))) for peer in self.peers
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
        return self.directory.statistics_by_peer()

    def close(self, *, wait: bool) -> None:
        """Ends the connections; with `wait` only after every rank has said that it asks no more."""
        if os.getpid() != self.process:
            return
        self.directory.rest()
        if self.jobs is not None:
            self.jobs.close()
        left = False
        try:
            if wait and self.rendezvous is not None:
                self.rendezvous.leave()
                left = True
        finally:
            self.directory.close()
            if self.server is not None:
                if left:  # ranks that close a moment later hear that this is no failure
                    self.server.drain(_GOODBYE_SECONDS)
                self.server.close()
