"""Servers across the network as a shard: same requests, same replies."""

import itertools
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from halohop.cluster.router import PartitionOwner
from halohop.errors import DeadlineExceededError, InputError, PeerLostError
from halohop.store.requests import Reply, Request
from halohop.transport import Channel, ConnectionLostError
from halohop.transport.remaining import seconds_for_peers


class RemoteShard:
    """The partitions that a server holds, or several servers alike. Every request has a deadline; errors name the server.

    Args:
        channels: to each of the servers. The first one that is connected is asked; where its connection is lost, the next.
        call_seconds: until a request must be answered, by whichever server. A thread that answers a client's request gives the
            time that this client waits instead, but for a part.
        even_if_new: that long also where a server has not been reached yet; see `Channel.submit`.
    """

    def __init__(self, channels: Sequence[Channel], *, call_seconds: float, even_if_new: bool = False) -> None:
        self.channels = tuple(channels)
        self._call_seconds = call_seconds
        self._even_if_new = even_if_new

    @property
    def peer(self) -> str:
        """The label of the server that is asked first."""
        return self.channels[0].peer

    def ask(self, request: Request[Reply]) -> "Future[Reply]":
        """Sends the request and returns at once."""
        left = seconds_for_peers()
        seconds = self._call_seconds if left is None else left
        if len(self.channels) == 1:
            return self.channels[0].submit(request, seconds=None if left is None and not self._even_if_new else seconds)
        ranked = sorted(self.channels, key=lambda channel: not channel.is_connected)
        return _Relay(request, ranked, seconds).future


class _Relay:
    """One request to several servers in turn, each time that a connection is lost or cannot be made, until the time is up.

    How fast it goes round is what the pauses of the channels between their attempts to connect allow.
    """

    def __init__(self, request: Request[Any], channels: Sequence[Channel], seconds: float) -> None:
        self.future: Future[Any] = Future()
        self._request = request
        self._turns = itertools.cycle(channels)
        self._seconds = seconds
        self._until = time.monotonic() + seconds
        self._lost: dict[str, ConnectionLostError] = {}
        self._ask()

    def _ask(self) -> None:
        channel = next(self._turns)
        left = max(0.0, self._until - time.monotonic())
        channel.submit(self._request, seconds=left, once=True).add_done_callback(lambda done: self._answered(channel.peer, done))

    def _answered(self, peer: str, done: "Future[Any]") -> None:
        error = done.exception()
        if isinstance(error, ConnectionLostError):
            self._lost[peer] = error
            if time.monotonic() < self._until:
                self._ask()
                return
        if isinstance(error, PeerLostError) and error.__cause__ is None and self._lost:  # its time, a part of ours, is over
            within = f"none of them came back within the deadline of {self._seconds:g} s"
            error = PeerLostError(f"{'; '.join(map(str, self._lost.values()))}; {within}")
        elif isinstance(error, DeadlineExceededError) and error.__cause__ is None and self._lost:
            error = PeerLostError(f"{'; '.join(map(str, self._lost.values()))}; then {error}")
        if error is None:
            self.future.set_result(done.result())
        else:
            self.future.set_exception(error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Some servers alike, and the partitions that they are asked about."""

    shard: RemoteShard
    parts: tuple[int, ...]

    @property
    def owner(self) -> PartitionOwner:
        return PartitionOwner(shard=self.shard, parts=self.parts, remote=True, name=self.shard.peer)


class BatchServers:
    """Servers each of which can make whole batches, asked one after the other; the next stands in for one that is lost.

    Args:
        channels: to each of them.
        call_seconds: until a batch must be there.
        unable: why one of them cannot make batches; None where all can.
        in_turn: each of them in its turn; otherwise the first one, as long as it is there.
    """

    def __init__(
        self, channels: Sequence[Channel], *, call_seconds: float, unable: str | None = None, in_turn: bool = True
    ) -> None:
        turned = [[*channels[first:], *channels[:first]] for first in range(len(channels) if in_turn else 1)]
        self._turns = itertools.cycle([RemoteShard(ranked, call_seconds=call_seconds) for ranked in turned])
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
