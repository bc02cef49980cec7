"""Servers that have come, and which of them to ask about which partitions."""

from collections.abc import Sequence
from dataclasses import dataclass

from halohop.cluster.connections import ServerCard
from halohop.net.directory import PeerDirectory
from halohop.net.ownership import replicas
from halohop.net.remote import Peer, RemoteShard
from halohop.partitioning.book import Book
from halohop.transport import Channel, Identity


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A server that is there, what it serves, and what it says of itself; `name` and `lease_seconds` as of `DescribeReply`."""

    address: str
    channel: Channel
    parts: tuple[int, ...]
    name: str = ""
    lease_seconds: float = 0.0
    card: ServerCard | None = None


def peers_of(
    servers: Sequence[Known],
    book: Book,
    directory: PeerDirectory,
    *,
    dataset: str,
    without: tuple[int, ...] = (),
    call_seconds: float,
    even_if_new: bool = False,
    even: bool = True,
) -> list[Peer]:
    """Which of some servers to ask about which partitions, except some that need no asking.

    Where several have a partition, the others stand in for the one that is asked: they share the work evenly, or (not `even`) the
    first of all is asked for what it has. From now on, each server must be what it is
    asked about, wherever it is.

    Raises:
        ClusterError: no server has a partition.
    """
    found = [tuple(part for part in server.parts if part not in without) for server in servers]
    asked: dict[int, tuple[int, ...]] = {}
    peers = []
    for ranked, parts in replicas([*found, without], book.num_parts, even=even).items():
        if ranked[0] == len(servers):
            continue
        for number in ranked:
            asked[number] = (*asked.get(number, ()), *parts)
        shard = RemoteShard([servers[number].channel for number in ranked], call_seconds=call_seconds, even_if_new=even_if_new)
        peers.append(Peer(shard=shard, parts=parts))
    for number, parts in asked.items():
        directory.ask_about(servers[number].channel, Identity(dataset=dataset, parts=tuple(sorted(parts))))
    return peers
