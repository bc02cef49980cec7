"""A host across the network as a shard: same requests, same replies."""

import itertools
import os
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from halohop.cluster.router import PartitionOwner
from halohop.errors import ClusterError, InputError
from halohop.store.requests import (
    EdgesReply,
    EdgesRequest,
    FetchReply,
    FetchRequest,
    HoldReply,
    HoldRequest,
    LocateReply,
    LocateRequest,
    PushReply,
    PushRequest,
    Reply,
    Request,
    SampleReply,
    SampleRequest,
    SelectReply,
    SelectRequest,
)
from halohop.transport import Channel, Codec


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeReply:
    """What a server says of itself.

    Args:
        server: a name that no other process has.
        manifest: the bytes of its data set's `manifest.json`.
        parts: the partitions that it serves.
        num_parts: how many the data set has.
        has_peers: whether it knows servers to ask for what it does not hold; without, it may be unable to make batches.
    """

    server: str
    manifest: bytes
    parts: tuple[int, ...]
    num_parts: int
    has_peers: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeRequest(Request[DescribeReply]):
    """Asks a server what it serves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeetReply:
    """What a server tells of itself and of others.

    Args:
        server: a name that no other process has.
        parts: the partitions that it serves.
        addresses: of other servers of this data set that it has heard of lately.
    """

    server: str
    parts: tuple[int, ...]
    addresses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MeetRequest(Request[MeetReply]):
    """Asks a server whether it is there, and whom it knows; tells it where the asker serves, if it does."""

    address: str = ""


GRAPH_MESSAGES: tuple[type, ...] = (
    SampleRequest,
    SampleReply,
    FetchRequest,
    FetchReply,
    LocateRequest,
    LocateReply,
    SelectRequest,
    SelectReply,
    EdgesRequest,
    EdgesReply,
    HoldRequest,
    HoldReply,
    PushRequest,
    PushReply,
)
"""What is asked about a graph."""


def graph_codec() -> Codec:
    """The messages that hosts exchange."""
    return Codec(GRAPH_MESSAGES)


class RemoteShard:
    """The partitions that a peer holds. The channel gives every call a deadline and names the peer in its errors."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self._process = os.getpid()

    def ask(self, request: Request[Reply]) -> "Future[Reply]":
        """Sends the request and returns at once.

        Raises:
            ClusterError: in a process forked from the one that connected; the connection's thread stayed there.
        """
        if os.getpid() != self._process:
            raise ClusterError(
                f"a forked process cannot ask {self.channel.peer} over its parent's connection; use halohop.NeighborLoader, "
                "whose workers are threads, or PyG's loaders with num_workers=0"
            )
        return self.channel.submit(request)


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Another host or server, and the partitions that it is asked about; `copies` as of `PartitionOwner`."""

    channel: Channel
    parts: tuple[int, ...]
    copies: int = 1

    @property
    def holder(self) -> PartitionOwner:
        return PartitionOwner(shard=RemoteShard(self.channel), parts=self.parts, remote=True, copies=self.copies)


class BatchServers:
    """Servers each of which can answer everything, also make whole batches, asked one after the other.

    Args:
        shards: the servers.
        unable: why one of them cannot make batches; None where all can.
    """

    def __init__(self, shards: Sequence[RemoteShard], unable: str | None = None) -> None:
        self._turns = itertools.cycle(shards)
        self._unable = unable

    def check(self) -> None:
        """
        Raises:
            InputError: a server cannot make batches; says which and why.
        """
        if self._unable is not None:
            raise InputError(self._unable)

    def ask(self, request: Request[Reply]) -> "Future[Reply]":
        """Asks the next one."""
        return next(self._turns).ask(request)
