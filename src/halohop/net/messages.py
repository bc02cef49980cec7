"""The one set of messages between servers, and between them and their clients."""

from collections.abc import Iterator
from dataclasses import dataclass, is_dataclass
from types import ModuleType
from typing import get_args

from halohop.net.attendance import AttendRequest
from halohop.net.seed_files import SeedsRequest
from halohop.sampling.remote import BatchRequest
from halohop.store import requests
from halohop.store.requests import Name, Parts, Request
from halohop.tables import change_messages, messages
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
        number, size: its place among all servers, where it was given one; -1 of 0 without.
        clients: how many it expects; 0 where it is not known.
        gpus: that torch sees there.
    """

    server: str
    manifest: bytes
    parts: tuple[Parts, ...]
    num_parts: Parts
    has_peers: bool
    lease_seconds: float = 0.0
    number: int = -1
    size: int = 0
    clients: int = 0
    gpus: int = 0


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
    parts: tuple[Parts, ...]
    addresses: tuple[Name, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MeetRequest(Request[MeetReply]):
    """Asks a server whether it is there, and which others it knows; says where the asker serves, if it does."""

    address: Name = ""


def server_codec() -> Codec:
    """Of all messages that a server answers: what is asked about a graph, its tables, servers and jobs, and for batches."""
    asked = (
        *_requests_of(requests, messages, change_messages),
        DescribeRequest,
        MeetRequest,
        AttendRequest,
        SeedsRequest,
        BatchRequest,
    )
    return Codec([message for request in asked for message in (request, _reply_of(request))])


def _requests_of(*modules: ModuleType) -> Iterator[type[Request[object]]]:
    for module in modules:
        for kind in vars(module).values():
            if isinstance(kind, type) and issubclass(kind, Request) and kind.__module__ == module.__name__ and is_dataclass(kind):
                yield kind


def _reply_of(request: type[Request[object]]) -> type:
    """The type that a request names as its reply."""
    (base,) = request.__orig_bases__  # type: ignore[attr-defined]  # as every subclass of a generic class has
    (reply,) = get_args(base)
    assert isinstance(reply, type)
    return reply
