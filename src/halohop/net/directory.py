"""The servers that a process knows, wherever they are now: its one channel to each, and the search for those that are lost."""

import logging
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from halohop.errors import InputError, TransportError
from halohop.leased import Leased
from halohop.net.channels import Channels
from halohop.net.finders import Announcer, Listed, found_by
from halohop.net.interfaces import reached_at
from halohop.net.messages import MeetReply, MeetRequest
from halohop.net.periodic import PeriodicThread
from halohop.net.servers import Servers
from halohop.transport import Channel, Identity
from halohop.transport.addresses import parsed, plain
from halohop.transport.base import Closing

_TICKS = 5
"""In the time that an attempt takes."""
_OUTSIDE = ("192.0.2.1", "2001:db8::1")
"""Addresses that are in no network (RFC 5737, 3849): the way there is that to most hosts."""
_MOST = 1024
"""Servers that are known, and addresses that others reported and that are still to be tried."""
_AT_ONCE = 4
"""Connections to addresses that others reported: each takes a thread."""
_LOG = logging.getLogger(__name__)


class PeerDirectory(Closing):
    """Servers of one data set: those that a finder names, and those of which these have heard.

    A server says where it is to all that it knows, again and again, and they repeat it to all who ask. So one that was started
    again at another address is found, as long as it and those who look for it know another one that lives, or have a finder that
    names it. What is only heard of counts once it has answered itself.

    Args:
        servers: where they are looked for, and how to talk to them.
        dataset: the fingerprint of what all serve; None takes that of the first that is asked about partitions.
        me: what a server says of itself; None for a client.
        lease_seconds: how long servers are named to others after they were last heard of.

    Attributes:
        finder: where they are looked for.
    """

    def __init__(
        self, servers: Servers, *, dataset: str | None = None, me: MeetReply | None = None, lease_seconds: float
    ) -> None:
        self.finder = servers.finder
        self._servers = servers
        self._lease = lease_seconds
        self._me = me
        self._patience = servers.limits.attempt_seconds
        self._known: Leased[str, MeetReply] = Leased(most=_MOST)
        self._channels = Channels(servers, None if dataset is None else Identity(dataset=dataset))
        self._lock = threading.Lock()  # over the rest
        self._found: tuple[str, ...] | None = None  # what the finder returned last
        self._greeted: set[Channel] = set()
        self._reported: dict[str, None] = {}  # addresses to be tried, the first reported first
        self._trying: set[str] = set()
        self._own = ""
        self._mine: set[str] = set()
        self._ticks = 0
        self._announcer: Announcer | None = None
        self._thread: PeriodicThread | None = None

    @property
    def serves(self) -> bool:
        """Whether this process is one of the servers."""
        return self._me is not None

    def begin(self, address: str = "") -> None:
        """From now on, those that are lost are looked for; a server, which has an address, makes itself known to the others.

        Raises:
            InputError: the finder returns what is no address.
        """
        if address:
            with self._lock:
                self._own = plain(address)
                self._mine.add(self._own)
            self._announcer = self._servers.finder if isinstance(self._servers.finder, Announcer) else None
            self._announce()
            self.greet()
        self._thread = PeriodicThread(self._patience / _TICKS, self._tick, name=f"directory-{address}".rstrip("-"))

    def rest(self) -> None:
        """Looks for no server any more. Safe to call twice."""
        if self._thread is not None:
            self._thread.close()

    def withdraw(self) -> None:
        """This server is not to be found any more, and looks for no other. Safe to call twice."""
        self.rest()
        announcer, self._announcer = self._announcer, None
        if announcer is not None and self._me is not None:
            announcer.withdraw(self._me.server)

    def close(self) -> None:
        """Ends all channels. Safe to call twice."""
        self.withdraw()
        self._channels.close()

    # ---- channels

    def addresses(self) -> tuple[str, ...]:
        """Of all servers but this one: what the finder names now, then those that were heard of lately.

        Where the finder fails, but did not before, what it returned last counts.
        """
        try:
            found = found_by(self.finder)
        except Exception as error:  # it is the user's code, and looks somewhere outside
            if self._found is None:
                raise
            _LOG.warning("%r failed, so servers are looked for where it found them last: %r", self.finder, error)
            found = self._found
        with self._lock:
            self._found = found
        return self.others((*found, *self._known.keys()))

    def others(self, addresses: Sequence[str]) -> tuple[str, ...]:
        """Of some addresses those that are not this server's own, each once."""
        with self._lock:
            return tuple(address for address in dict.fromkeys(map(plain, addresses)) if address not in self._mine)

    def channel(self, address: str, *, label: str | None = None) -> Channel:
        """The channel to the server at an address, for a caller who keeps it; it is opened if there is none.

        Raises:
            InputError: not an address.
            TransportError: the directory is closed.
        """
        channel = self._channels.open(address, keep=True)
        if label is not None:
            channel.rename(label)
        return channel

    def give_back(self, channels: Sequence[Channel]) -> None:
        """Their caller keeps them no longer: those to servers that are gone are closed in time."""
        self._channels.give_back(channels)

    def forget(self, address: str) -> None:
        """Closes the channel to a server that is not asked."""
        self._channels.forget(address)

    def ask_about(self, channel: Channel, identity: Identity) -> None:
        """From now on, the server behind a channel is asked about partitions: no other takes its place, unless it has them."""
        self._channels.ask_about(channel, identity)

    def statistics_by_peer(self) -> dict[str, dict[str, float]]:
        """What the channels to servers that are asked count, by the labels of their peers: "host 1", "server 0"."""
        return self._channels.statistics_by_peer()

    # ---- meeting

    @property
    def knows_others(self) -> bool:
        """Whether there is a server to ask, as far as this one knows, or where it may still find one."""
        if not isinstance(self.finder, Listed):
            return True
        return bool(self.others(self.finder.addresses) or self.lately(self._lease))

    def greet(self) -> None:
        """Asks all servers whether they are there, and which others they know. Their answers come later."""
        self._known.sweep(self._lease)
        wanted = self.addresses()
        with self._lock:
            trying = tuple(self._trying)
        self._channels.forget_unused((*wanted, *trying))
        for address in wanted:
            if not self._channels.closed:
                self._greet(self._channels.open(address, keep=False), address)

    def meet(self, request: MeetRequest) -> MeetReply:
        """What a server answers. A stranger that says it is one, too, is asked itself."""
        assert self._me is not None
        address = plain(request.address)
        # Before it knows its own address, a server would take itself for another one of which it hears.
        if self._own and address and self._known.get(address) is None:
            self._try([address])
        return replace(self._me, addresses=tuple(self._known.keys()))

    def lately(self, seconds: float) -> dict[str, MeetReply]:
        """Those that were heard of within some seconds, by address."""
        return self._known.used_within(seconds)

    def _greet(self, channel: Channel, address: str) -> None:
        with self._lock:
            if channel in self._greeted:
                return
            self._greeted.add(channel)
        request = MeetRequest(address=self._reached_from(parsed(address)[0]))
        channel.submit(request, seconds=self._patience).add_done_callback(lambda done: self._answered(channel, done))

    def _answered(self, channel: Channel, done: "Future[Any]") -> None:
        with self._lock:
            self._greeted.discard(channel)
        if done.exception() is not None:  # not there, or of another data set; it is asked again when next they are greeted
            return
        reply: MeetReply = done.result()
        address = plain(channel.address)
        if self._me is not None and reply.server == self._me.server:
            with self._lock:
                self._mine.update([address] if len(self._mine) < _MOST else [])
            return
        known = self._known.keys()
        self._known.put(address, reply)
        self._try([other for other in reply.addresses if other not in {address, *known}])

    def _try(self, addresses: Sequence[str]) -> None:
        """Greets the servers at addresses that another one reported, a few at a time; connections to no server are closed."""
        with self._lock:
            for address in addresses:
                if len(self._reported) < _MOST and address not in self._trying:
                    with suppress(InputError):  # it is not an address
                        self._reported[plain(address)] = None
        while (reported := self._next_reported()) is not None:
            with suppress(TransportError):  # the directory was closed meanwhile
                channel = self._channels.open(reported, keep=False)
                asked = channel.submit(MeetRequest(), seconds=self._patience, once=True)
                asked.add_done_callback(partial(self._tried, channel, reported))

    def _next_reported(self) -> str | None:
        """The next address to try, unless as many as may be are being tried."""
        with self._lock:
            while self._reported and len(self._trying) < _AT_ONCE and not self._channels.closed:
                address = next(iter(self._reported))
                del self._reported[address]
                if address not in self._mine and address not in self._trying:
                    self._trying.add(address)
                    return address
            return None

    def _tried(self, channel: Channel, address: str, done: "Future[Any]") -> None:
        with self._lock:
            self._trying.discard(address)
        self._answered(channel, done)
        self._channels.forget_unused(self._known.keys(), [address])
        self._try([])

    def _announce(self) -> None:
        if self._announcer is not None and self._me is not None:
            self._announcer.announce(self._me.server, self._reached_from(*_OUTSIDE))

    def _reached_from(self, *hosts: str) -> str:
        """Where a server on the first of some hosts to which a way leads finds this one; empty without one, and for a client."""
        for host in hosts if self._own else ():
            with suppress(OSError):  # no way leads there
                return reached_at(self._own, host)
        return ""

    # ---- the search

    def _tick(self) -> None:
        self._ticks += 1
        hellos = self._me is not None and self._ticks % _TICKS == 0
        if hellos:
            self.greet()
        self.search()
        if hellos:
            self._announce()  # last: it may fail

    def search(self) -> None:
        """Looks for servers that are lost, and asks another one with the same partitions once they are surely gone.

        Their addresses are found by asking all others; these have as long to answer as it took to miss the one that is lost.
        Another may be where a lost one was, so its address is asked anew.
        """
        there, lost = self._channels.sorted_out(self._patience)
        taken = {plain(each.channel.address): each.channel for each in there}
        for address, channel in taken.items():
            self._channels.is_at(address, channel)
        for each in lost:
            self._greet(each.channel, each.channel.address)
        if lost:
            self.greet()
        for each in lost:
            fit = [address for address, about in self.lately(self._patience).items() if set(each.parts) <= set(about.parts)]
            fit = [address for address in fit if address not in taken]
            if fit and each.channel.is_lost(2 * self._patience):
                taken[fit[-1]] = each.channel  # that of which was heard last
                each.channel.add_address(fit[-1])
                self._channels.is_at(fit[-1], each.channel)
