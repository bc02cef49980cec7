"""Peers in one process. Everything but the socket is the real thing: frames, handshake, deadlines, threads."""

import itertools
import threading
from collections.abc import Collection, Sequence

from halohop.errors import TransportError
from halohop.transport.base import DEFAULT_LIMITS, Channel, Handler, Limits, Listener
from halohop.transport.client import PortChannel
from halohop.transport.messages import Codec
from halohop.transport.security import Token
from halohop.transport.server import PortListener
from halohop.transport.wire import Admit, Frames, Lost, Mailbox

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
        return PortListener(port, handler, codec=codec, token=token, limits=limits, waiting=waiting)

    def connect(
        self, address: str, *, codec: Codec, token: Token | None = None, peer: str = "server", limits: Limits = DEFAULT_LIMITS
    ) -> Channel:
        """A channel to whoever serves, or will serve, at `address`."""
        return PortChannel(_ClientPort(self, address), codec=codec, token=token, peer=peer, limits=limits)

    def _join(self, client: "_ClientPort", link: int) -> tuple["_ServerPort", bytes] | None:
        with self._lock:
            server = self._servers.get(client.address)
            if server is None:
                return None
            name = b"\0" + next(self._numbers).to_bytes(8, "big")
            server.clients[name] = client, link
            return server, name

    def _leave(self, server: "_ServerPort", name: bytes) -> None:
        with self._lock:
            server.clients.pop(name, None)

    def _end(self, server: "_ServerPort") -> None:
        with self._lock:
            self._servers.pop(server.address, None)
            clients, server.clients = server.clients, {}
        for client, link in clients.values():
            client.inbox.put((link, Lost(reason="the server was closed")))


class _ClientPort:
    def __init__(self, network: InProcessNetwork, address: str) -> None:
        self.address = address
        self.inbox: Mailbox[tuple[int, Frames | Lost]] = Mailbox()
        self._network = network
        self._link = 0  # counts connections: what arrives for a former one is not for us
        self._server: tuple[_ServerPort, bytes] | None = None

    def open(self) -> None:
        self._link += 1
        self._server = self._network._join(self, self._link)
        if self._server is None:
            self.inbox.put((self._link, Lost(reason="nobody serves there")))

    def send(self, frames: Frames) -> None:
        if self._server is not None:
            server, name = self._server
            server.inbox.put((name, _copied(frames)))

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
        self.inbox: Mailbox[tuple[bytes, Frames]] = Mailbox()
        self.clients: dict[bytes, tuple[_ClientPort, int]] = {}
        self._network = network

    def send(self, peer: bytes, frames: Frames) -> bool:
        client, link = self.clients.get(peer, (None, 0))
        if client is None:
            return False
        client.inbox.put((link, _copied(frames)))
        return True

    def wait(self, seconds: float | None, admit: Admit | None) -> list[tuple[bytes, Frames]]:
        arrived = self.inbox.take_all(seconds, receive=admit is not None)
        return [(peer, frames if admit and admit(peer, frames[0]) else frames[:1]) for peer, frames in arrived]

    def welcome(self, peer: bytes) -> None:
        """No strangers come here."""

    def wake(self) -> None:
        self.inbox.wake()

    def close(self) -> None:
        self._network._end(self)


def _copied(frames: Frames) -> Sequence[bytearray]:
    return [bytearray(frame) for frame in frames]
