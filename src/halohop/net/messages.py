"""The one set of messages between servers, and between them and their clients."""

from dataclasses import dataclass

from halohop.net.attendance import AttendReply, AttendRequest
from halohop.net.seed_files import SeedsReply, SeedsRequest
from halohop.sampling.remote import BatchReply, BatchRequest
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
    Request,
    SampleReply,
    SampleRequest,
    SelectReply,
    SelectRequest,
)
from halohop.transport import Codec


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeReply:
    """What a server says of itself.

    Args:
        server: a name that no other process has.
        manifest: the bytes of its data set's `manifest.json`.
        parts: the partitions that it serves.
        num_parts: how many the data set has.
        has_peers: whether it knows servers to ask for what it does not hold; without, it may be unable to make batches.
        lease_seconds: clients say within such a time that they are there; 0: they need not.
    """

    server: str
    manifest: bytes
    parts: tuple[int, ...]
    num_parts: int
    has_peers: bool
    lease_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeRequest(Request[DescribeReply]):
    """Asks a server what it serves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeetReply:
    """What a server says of itself and of others.

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
    """Asks a server whether it is there, and whom it knows; says where the asker serves, if it does."""

    address: str = ""


GRAPH_MESSAGES: tuple[type, ...] = (
    *(SampleRequest, SampleReply, FetchRequest, FetchReply),
    *(LocateRequest, LocateReply, SelectRequest, SelectReply),
    *(EdgesRequest, EdgesReply),
    *(HoldRequest, HoldReply, PushRequest, PushReply),
)
"""What is asked about a graph."""


def server_codec() -> Codec:
    """Of all messages that a server answers."""
    about_servers = (DescribeRequest, DescribeReply, MeetRequest, MeetReply)
    about_jobs = (AttendRequest, AttendReply, SeedsRequest, SeedsReply)
    return Codec([*GRAPH_MESSAGES, *about_servers, *about_jobs, BatchRequest, BatchReply])
