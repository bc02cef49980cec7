"""The servers that one knows to be there, wherever that is now, and the search for those that are lost."""

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from halohop.cluster.leased import Leased
from halohop.errors import InputError
from halohop.net.remote import MeetReply, MeetRequest, Peer
from halohop.net.rendezvous import address_towards
from halohop.net.servers import Servers
from halohop.transport import Channel, Identity
from halohop.transport.addresses import plain

SEARCHES = 5
"""In the time that an attempt takes."""
_ANYWHERE = "0.0.0.0"


class PeerDirectory:
    """Servers of one data set that have answered lately. A server tells them where it is; they tell whoever asks.

    So one that was started again at another address is found, as long as it and whoever looks for it know another one that
    lives. What is only heard of counts once it has answered itself.

    Args:
        servers: whose addresses are known from the beginning, and how to talk to them.
        dataset: the fingerprint of what all serve.
        me: what a server says of itself; None for a trainer.
        lease_seconds: how long they are told on after they were last heard of.
    """

    def __init__(self, servers: Servers, *, dataset: str, lease_seconds: float, me: MeetReply | None = None) -> None:
        self._servers = servers
        self._expected = Identity(dataset=dataset)
        self._lease = lease_seconds
        self._me = me
        limits = servers.limits
        self._limits = replace(limits, call_seconds=limits.attempt_seconds, connect_seconds=limits.attempt_seconds)
        self._known: Leased[str, MeetReply] = Leased()
        self._lock = threading.Lock()  # over the rest
        self._channels: dict[str, Channel] = {}
        self._asked: set[str] = set()
        self._own = ""
        self._mine: set[str] = set()
        self._closed = False

    def settle(self, address: str) -> None:
        """From now on a server tells the others that it is here."""
        with self._lock:
            self._own = plain(address)
            self._mine.add(self._own)

    def greet(self) -> None:
        """Asks all of them whether they are there, and whom else they know. Their answers come later."""
        self._known.sweep(self._lease)
        wanted = {*map(plain, self._servers.addresses), *self._known.keys()}
        with self._lock:
            gone = [self._channels.pop(address) for address in set(self._channels) - wanted]
        for channel in gone:
            channel.close()
        for address in wanted:
            self._ask(address, announce=True)

    def meet(self, request: MeetRequest) -> MeetReply:
        """What a server answers. A stranger that says it is one, too, is asked itself."""
        assert self._me is not None
        address = plain(request.address)
        if address and self._known.get(address) is None:
            self._ask(address, announce=False)
        return replace(self._me, addresses=tuple(self._known.keys()))

    def lately(self, seconds: float) -> dict[str, MeetReply]:
        """Those that were heard of within some seconds, by address."""
        return self._known.used_within(seconds)

    def close(self) -> None:
        """Safe to call twice."""
        with self._lock:
            self._closed = True
            channels, self._channels = self._channels, {}
        for channel in channels.values():
            channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _ask(self, address: str, *, announce: bool) -> None:
        with self._lock:
            if self._closed or address in self._mine or address in self._asked:
                return
            if address not in self._channels:
                here = replace(self._servers, addresses=(address,))
                self._channels[address] = here.channel([0], expected=self._expected, limits=self._limits)
            channel = self._channels[address]
            self._asked.add(address)
        request = MeetRequest(address=self._reached_from(address) if announce else "")
        channel.submit(request).add_done_callback(lambda done: self._answered(address, done))

    def _answered(self, address: str, done: "Future[Any]") -> None:
        with self._lock:
            self._asked.discard(address)
        if done.exception() is not None:  # not there, or of another data set; it is asked again when next they are greeted
            return
        reply: MeetReply = done.result()
        if self._me is not None and reply.server == self._me.server:
            with self._lock:
                self._mine.add(address)
        else:
            known = self._known.keys()
            self._known.put(address, reply)
            for other in {*map(plain, reply.addresses)} - {address, *known}:
                with suppress(InputError):  # what it tells is no address
                    self._ask(other, announce=False)

    def _reached_from(self, address: str) -> str:
        """Where a server finds this one."""
        host, _, port = self._own.rpartition(":")
        try:
            return f"{address_towards(address.rpartition(':')[0])}:{port}" if host == _ANYWHERE else self._own
        except OSError:  # no way leads there
            return ""


def search(peers: Sequence[Peer], acquaintances: PeerDirectory, patience: float) -> None:
    """Looks for those who keep one waiting, and asks another server with the same partitions once they are surely gone.

    Args:
        patience: seconds that a call may wait before they are asked whether they live; for another such time they may answer.
    """
    waiting = [peer for peer in peers if peer.channel.waits_longer_than(patience)]
    if waiting:
        acquaintances.greet()
    for peer in waiting:
        fit = [address for address, about in acquaintances.lately(patience).items() if set(peer.parts) <= set(about.parts)]
        if peer.channel.waits_longer_than(2 * patience) and not {*fit} & {*map(plain, peer.channel.addresses)}:
            _move(peer.channel, fit)


def _move(channel: Channel, addresses: Sequence[str]) -> None:
    for address in addresses[-1:]:  # that of which was heard last
        channel.add_address(address)
