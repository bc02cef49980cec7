"""Peers in one process. Everything but the socket is the real thing: frames, handshake, deadlines, threads."""

import itertools
import threading
import time
from collections.abc import Collection, Sequence

from halohop.errors import TransportError
from halohop.transport.base import DEFAULT_LIMITS, Channel, Handler, Limits, Listener
from halohop.transport.client import PortChannel
from halohop.transport.handshake import NO_IDENTITY, Identity
from halohop.transport.messages import Codec
from halohop.transport.security import Token
from halohop.transport.server import PortListener
from halohop.transport.wire import Frames, Lost, Mailbox, Peer

_SCHEME = "inprocess://"


class InProcessNetwork:
    """Serves and connects by name, for tests and for worlds of threads. Every message is copied once, as through a socket.

    Example:
        >>> from halohop.store.requests import LocateReply, LocateRequest
        >>> import torch
        >>> codec, network = Codec([LocateRequest, LocateReply]), InProcessNetwork()
        >>> with network.serve(lambda request: LocateReply(gid=request.raw + 1), codec=codec) as server:
        ...     with network.connect(server.address, codec=codec) as channel:
        ...         channel.call(LocateRequest(node_type="node", raw=torch.tensor([1, 2])))
        LocateReply(gid=tensor([2, 3]))
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._servers: dict[str, _ServerPort] = {}
        self._numbers = itertools.count(1)

    def serve(
        self,
        handler: Handler,
        *,
        codec: Codec,
        token: Token | None = None,
        bind: str | None = None,
        limits: Limits = DEFAULT_LIMITS,
        waiting: Collection[type] = (),
        identity: Identity = NO_IDENTITY,
    ) -> Listener:
        """Answers under the name `bind` (any text, or a former `address`; a fresh one if None).

        Raises:
            TransportError: the name is taken.
        """
        with self._lock:
            address = f"{_SCHEME}{next(self._numbers)}" if bind is None else _SCHEME + bind.removeprefix(_SCHEME)
            if address in self._servers:
                raise TransportError(f"{address} is already being served; choose another name, or close the other listener")
            port = self._servers[address] = _ServerPort(self, address)
        return PortListener(port, handler, codec=codec, token=token, limits=limits, waiting=waiting, identity=identity)

    def connect(
        self,
        address: str,
        *,
        codec: Codec,
        token: Token | None = None,
        peer: str = "server",
        limits: Limits = DEFAULT_LIMITS,
        expected: Identity | None = None,
    ) -> Channel:
        """A channel to the server that is, or will be, at `address`."""
        port = _ClientPort(self, (address,))
        return PortChannel(port, codec=codec, token=token, peer=peer, limits=limits, expected=expected)

    def _join(self, address: str, client: "_ClientPort", link: int) -> tuple["_ServerPort", Peer] | None:
        with self._lock:
            server = self._servers.get(address)
            if server is None:
                return None
            peer = next(self._numbers)
            server.clients[peer] = client, link
            return server, peer

    def _leave(self, server: "_ServerPort", peer: Peer) -> None:
        with self._lock:
            server.clients.pop(peer, None)
        server.inbox.put((peer, Lost(reason="the client left")))

    def _end(self, server: "_ServerPort") -> None:
        with self._lock:
            if self._servers.get(server.address) is server:  # nobody has taken the name since it was closed before
                del self._servers[server.address]
            clients, server.clients = server.clients, {}
        for client, link in clients.values():
            client.inbox.put((link, Lost(reason="the server was closed")))


class _ClientPort:
    def __init__(self, network: InProcessNetwork, addresses: tuple[str, ...]) -> None:
        self.addresses = addresses
        self.address = addresses[0]
        self.inbox: Mailbox[tuple[int, Frames | Lost]] = Mailbox()
        self._network = network
        self._link = 0  # counts connections: what arrives for a former one is not for us
        self._server: tuple[_ServerPort, Peer] | None = None
        self._turn = 0

    def add_address(self, address: str) -> bool:
        if is_new := address not in self.addresses:
            self.addresses = (address, *self.addresses)
        return is_new

    def start_over(self) -> None:
        self._turn = 0

    @property
    def heard(self) -> float:
        return time.monotonic()  # a peer within this process is as alive as its client

    def open(self) -> None:
        self._link += 1
        addresses = self.addresses  # another thread may learn of more
        self.address = addresses[self._turn % len(addresses)]
        self._turn += 1
        self._server = self._network._join(self.address, self, self._link)
        if self._server is None:
            self.inbox.put((self._link, Lost(reason="nobody serves there")))

    def admit(self) -> None:
        """Nothing was limited."""

    def send(self, frames: Frames) -> None:
        if self._server is not None:
            server, peer = self._server
            server.inbox.put((peer, _copied(frames)))

    def wait(self, seconds: float | None) -> list[Frames | Lost]:
        return [item for link, item in self.inbox.take_all(seconds) if link == self._link]

    def wake(self) -> None:
        self.inbox.wake()

    def drop(self) -> None:
        self._link += 1
        if self._server is not None:
            self._network._leave(*self._server)
            self._server = None

    def close(self) -> None:
        self.drop()


class _ServerPort:
    def __init__(self, network: InProcessNetwork, address: str) -> None:
        self.address = address
        self.inbox: Mailbox[tuple[Peer, Frames | Lost]] = Mailbox()
        self.clients: dict[Peer, tuple[_ClientPort, int]] = {}
        self._network = network

    def send(self, peer: Peer, frames: Frames) -> None:
        client, link = self.clients.get(peer, (None, 0))
        if client is not None:
            client.inbox.put((link, _copied(frames)))

    def is_full(self, peer: Peer) -> bool:
        return False  # what is sent is there

    def taken(self, peer: Peer) -> float:
        return time.monotonic()

    def wait(self, seconds: float | None, receive: bool) -> list[tuple[Peer, Frames | Lost]]:
        return self.inbox.take_all(seconds, receive=receive)

    def whereabouts(self, peer: Peer) -> str:
        return f"{_SCHEME}client-{peer}"

    def welcome(self, peer: Peer) -> None:
        """No strangers come here."""

    def hang_up(self, peer: Peer) -> None:
        client, link = self.clients.pop(peer, (None, 0))
        if client is not None:
            client.inbox.put((link, Lost(reason="the server hung up")))

    def wake(self) -> None:
        self.inbox.wake()

    def close(self) -> None:
        self._network._end(self)


def _copied(frames: Frames) -> Sequence[bytearray]:
    return [bytearray(frame) for frame in frames]
