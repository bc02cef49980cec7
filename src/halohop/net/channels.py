"""A process's channels to servers: one to each, by the addresses that it was opened to or has moved to."""

import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from halohop.errors import TransportError
from halohop.net.messages import server_codec
from halohop.net.servers import Servers
from halohop.transport import Channel, Identity, connect
from halohop.transport.addresses import plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A server that this process asks about partitions."""

    channel: Channel
    parts: tuple[int, ...]


class Channels:
    """The channels to the servers of one data set; safe to use from several threads.

    Args:
        servers: how to talk to them.
        expected: what all must serve; None takes that of the first that is asked about partitions.
    """

    def __init__(self, servers: Servers, expected: Identity | None) -> None:
        self._servers = servers
        self._lock = threading.Lock()  # over all that follows
        self._expected = expected
        self._by_address: dict[str, Channel] = {}
        self._asked: list[Asked] = []
        self._lent: set[Channel] = set()
        self._closed = False

    def open(self, address: str, *, keep: bool) -> Channel:
        """The channel to the server at an address, which is opened if there is none; `keep` until it is given back.

        Raises:
            InputError: not an address.
            TransportError: the channels are closed.
        """
        address = plain(address)
        with self._lock:
            if self._closed:
                raise TransportError(f"the connections are closed, so {address} cannot be asked")
            if address not in self._by_address:
                self._by_address[address] = connect(
                    address,
                    codec=server_codec(),
                    token=self._servers.token,
                    peer=f"{self._servers.label} {address}",
                    limits=self._servers.limits,
                    expected=self._expected,
                )
            channel = self._by_address[address]
            if keep:
                self._lent.add(channel)
            return channel

    def give_back(self, channels: Sequence[Channel]) -> None:
        """Their caller keeps them no longer: those to servers that are gone are closed in time."""
        with self._lock:
            self._lent -= {*channels}

    def forget(self, address: str) -> None:
        """Closes the channel to a server that is not asked."""
        with self._lock:
            channel = self._by_address.pop(plain(address), None)
            if channel is not None:
                self._lent.discard(channel)
        if channel is not None:
            channel.close()

    def forget_unused(self, addresses: Collection[str], among: Collection[str] | None = None) -> None:
        """Closes those to servers at none of some addresses that nothing uses: all, or `among` some."""
        with self._lock:
            used = self._lent | {asked.channel for asked in self._asked}
            gone = [address for address, channel in self._by_address.items() if address not in addresses and channel not in used]
            gone = [address for address in gone if among is None or address in among]
        for address in gone:
            self.forget(address)

    def ask_about(self, channel: Channel, identity: Identity) -> None:
        """From now on, the server behind a channel is asked about partitions: no other takes its place, unless it has them."""
        channel.expect(identity)
        with self._lock:
            self._expected = self._expected or Identity(dataset=identity.dataset)
            self._asked = [asked for asked in self._asked if asked.channel is not channel]
            self._asked.append(Asked(channel=channel, parts=identity.parts))

    def statistics_by_peer(self) -> dict[str, dict[str, float]]:
        """What the channels to servers that are asked count, by the labels of their peers: "host 1", "server 0"."""
        with self._lock:
            return {asked.channel.peer: asked.channel.statistics() for asked in self._asked}

    def sorted_out(self, patience: float) -> tuple[list[Asked], list[Asked]]:
        """The servers that are asked about partitions: those that are there, and those that have been lost for some seconds.

        Another server may be where a lost one was, so its address leads to no channel any more.
        """
        with self._lock:
            there: list[Asked] = []
            lost: list[Asked] = []
            for asked in self._asked:
                (lost if asked.channel.is_lost(patience) else there).append(asked)
            away = {asked.channel for asked in lost}
            self._by_address = {address: channel for address, channel in self._by_address.items() if channel not in away}
        return there, lost

    def is_at(self, address: str, channel: Channel) -> None:
        """A server that is asked is at an address: what was opened to find out who is there is not needed."""
        with self._lock:
            before = self._by_address.get(address)
            if self._closed or before is channel or before in {asked.channel for asked in self._asked}:
                return
            self._by_address[address] = channel
        if before is not None:
            before.close()

    @property
    def closed(self) -> bool:
        """Whether no channel is opened any more."""
        return self._closed

    def close(self) -> None:
        """Ends all channels. Safe to call twice."""
        with self._lock:
            self._closed = True
            channels = {*self._by_address.values(), *self._lent, *(asked.channel for asked in self._asked)}
            self._by_address = {}
        for channel in channels:
            channel.close()
