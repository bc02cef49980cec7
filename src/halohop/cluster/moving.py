"""A channel whose peer may turn up elsewhere: killed, and started again on another host or port."""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

from halohop.cluster.remote import RemoteShard
from halohop.cluster.router import Holder
from halohop.telemetry import added
from halohop.transport import Channel, Codec, Limits, Token, connect

_OF_NOW = ("in_flight", "waiting")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """What was asked, and when (monotonic seconds)."""

    request: Any
    operation: str | None
    since: float


class MovingChannel:
    """A `Channel` that learns new addresses of its peer while calls wait.

    These are made again at the new address, each with its whole time. It is no harm if the peer gets one twice: requests are
    pure, and pushes counted.

    Args:
        addresses: where the peer, and those who stand in for it, are looked for, in turn.
        codec, token, peer, limits: as of `halohop.transport.connect`.

    Attributes:
        addresses: all that were ever given; those learned last are first.
    """

    def __init__(self, addresses: Sequence[str], *, codec: Codec, token: Token | None, peer: str, limits: Limits) -> None:
        self.peer = peer
        self.addresses = tuple(addresses)
        self._codec = codec
        self._token = token
        self._lock = threading.Lock()
        self._calls: dict[Future[Any], _Call] = {}  # the oldest first
        self._former: dict[str, float] = {}  # what former channels counted
        self._closed = False
        self._channel = self._connect(limits)
        self._limits = replace(limits, connect_seconds=limits.call_seconds)  # from now on: a peer that was there

    def submit(self, request: Any, *, operation: str | None = None) -> "Future[Any]":
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        call = _Call(request=request, operation=operation, since=time.monotonic())
        with self._lock:
            self._calls[future] = call
            channel = self._channel
        self._make(future, call, channel)
        return future

    def call(self, request: Any, *, operation: str | None = None) -> Any:
        return self.submit(request, operation=operation).result()

    def waits_longer_than(self, seconds: float) -> bool:
        """Whether a call has not been answered for so long."""
        with self._lock:
            oldest = next(iter(self._calls.values()), None)
        return oldest is not None and time.monotonic() - oldest.since > seconds

    def also(self, address: str) -> None:
        """From now on the peer is looked for at this address first; what waits is asked there."""
        with self._lock:
            if self._closed or address in self.addresses:
                return
            former, self.addresses = self._channel, (address, *self.addresses)
            counted = {name: amount for name, amount in former.statistics().items() if name not in _OF_NOW}
            self._former = added([self._former, counted])
            channel = self._channel = self._connect(self._limits)
            calls = list(self._calls.items())
        for future, call in calls:
            self._make(future, call, channel)
        former.close()

    def statistics(self) -> dict[str, float]:
        with self._lock:
            return added([self._channel.statistics(), self._former])

    def close(self) -> None:
        with self._lock:
            self._closed = True
            channel = self._channel
        channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _connect(self, limits: Limits) -> Channel:
        return connect(*self.addresses, codec=self._codec, token=self._token, peer=self.peer, limits=limits)

    def _make(self, future: "Future[Any]", call: _Call, channel: Channel) -> None:
        answer = channel.submit(call.request, operation=call.operation)
        answer.add_done_callback(lambda done: self._settle(future, channel, done))

    def _settle(self, future: "Future[Any]", channel: Channel, done: "Future[Any]") -> None:
        error = done.exception()
        with self._lock:
            if error is not None and channel is not self._channel:
                return  # it was made again at another address, and ends there
            if self._calls.pop(future, None) is None:
                return  # answered twice
        if error is None:
            future.set_result(done.result())
        else:
            future.set_exception(error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Another host or server, and the partitions that it is asked about; `copies` as of `Holder`."""

    channel: MovingChannel
    parts: tuple[int, ...]
    copies: int = 1

    @property
    def holder(self) -> Holder:
        return Holder(shard=RemoteShard(self.channel), parts=self.parts, remote=True, copies=self.copies)
