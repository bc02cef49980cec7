"""Owners of tables in other processes: which server owns a partition's rows, and the way there."""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from halohop.cluster.tables.owners import TableHolder, holder_here
from halohop.net.directory import PeerDirectory
from halohop.tables.messages import TableRequest
from halohop.tables.owner import Owner
from halohop.transport import Channel, Identity


@dataclass(frozen=True, slots=True, kw_only=True)
class TableServer:
    """A server that may own rows of tables.

    Args:
        order: of servers that have the same partition the first owns its rows; the same for all clients.
        parts: that it serves.
        reach: the channel to it; or itself, where it is in this process.
    """

    order: tuple[int, int, str]
    parts: tuple[int, ...]
    reach: Channel | Owner


def order_of(number: int, name: str) -> tuple[int, int, str]:
    """Servers with a number come first, by it; the others by name."""
    return int(number < 0), number, name


def owned_parts(parts: Sequence[Sequence[int]], orders: Sequence[tuple[int, int, str]]) -> list[tuple[int, ...]]:
    """Whose rows each of some servers owns, by the partitions that it serves: each partition has one owner.

    Example:
        >>> owned_parts([(0, 1), (1, 2)], [order_of(1, ""), order_of(0, "")])
        [(0,), (1, 2)]
    """
    first: dict[int, int] = {}
    for server in sorted(range(len(parts)), key=lambda index: orders[index]):
        for part in parts[server]:
            first.setdefault(part, server)
    return [tuple(sorted(part for part, owner in first.items() if owner == server)) for server in range(len(parts))]


def holders_at(
    servers: Sequence[TableServer], directory: PeerDirectory, *, dataset: str, call_seconds: float
) -> list[TableHolder]:
    """The owners among some servers; those that own nothing are left out.

    Args:
        directory: finds them where they are lost.
        dataset: that they serve.
        call_seconds: that an answer may take, beyond what an owner waits for others.
    """
    owned = owned_parts([server.parts for server in servers], [server.order for server in servers])
    holders = []
    for server, parts in zip(servers, owned, strict=True):
        if parts and isinstance(server.reach, Owner):
            holders.append(holder_here(server.reach.answer, parts))
        elif parts and not isinstance(server.reach, Owner):
            directory.ask_about(server.reach, Identity(dataset=dataset, parts=tuple(sorted(server.parts))))
            holders.append(holder_at(server.reach, parts, call_seconds=call_seconds))
    return holders


def holder_at(channel: Channel, parts: tuple[int, ...], *, call_seconds: float) -> TableHolder:
    """An owner at the other end of a channel."""

    def ask(request: TableRequest[Any], *, seconds: float = 0.0) -> "Future[Any]":
        return channel.submit(request, seconds=call_seconds + seconds if seconds else None)

    def lost(waited: float) -> str:
        if waited < call_seconds or not channel.is_lost(call_seconds):  # one that was away before may just have come back
            return ""
        who = f"{channel.peer} at {channel.address}, which owns rows of tables,"
        return f"{who} went away and did not come back within {call_seconds:g} s"

    return TableHolder(
        ask=ask,
        parts=parts,
        name=f"{channel.peer} at {channel.address}",
        remote=True,
        lost=lost,
        call_seconds=call_seconds,
    )
