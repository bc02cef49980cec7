"""What a graph knows of other hosts, whatever connects it to them."""

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from halohop.store.requests import Reply, Request


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCard:
    """What a server says of itself.

    Args:
        address: where it is reached.
        number: its place among all servers, as given to `halohop.serve`; -1 without one.
        parts: the partitions that it serves.
        clients: how many it expects; 0 where it is not known.
        gpus: that torch sees there.
    """

    address: str
    number: int
    parts: tuple[int, ...]
    clients: int = 0
    gpus: int = 0


class JobServers(Protocol):
    """Servers that know their clients' jobs; see `halohop.cluster.jobs`."""

    def cards(self) -> tuple[ServerCard, ...]: ...

    def join(self, job: str, size: int, rank: int | None) -> int: ...

    def seed_file(self, file: str, *, server: int | None) -> Tensor: ...

    def seed_split(self, name: str, node_type: str, *, server: int | None) -> Tensor: ...


class Connections(Protocol):
    """The connections of one graph to other hosts; a graph that lies in one process has none."""

    @property
    def jobs(self) -> JobServers | None:
        """Who knows the jobs of clients; None among hosts of one world."""
        ...

    def check(self, *, deadline: float) -> None:
        """Asks every peer for nothing, to see who lives.

        Raises:
            PeerLostError: a peer did not answer within the deadline (seconds).
        """
        ...

    def statistics_by_peer(self) -> dict[str, dict[str, float]]:
        """Sums of each peer, by its label: "host 1", "server 0"."""
        ...

    def close(self, *, wait: bool) -> None:
        """Ends them; with `wait` only after every rank has said that it asks no more."""
        ...


class BatchMaker(Protocol):
    """Makes whole batches elsewhere."""

    def check(self) -> None:
        """
        Raises:
            InputError: it cannot; says why.
        """
        ...

    def ask(self, request: Request[Reply]) -> "Future[Reply]": ...
