"""Peers across hosts: ZeroMQ ROUTER and DEALER over tcp.

The module is a `Network`: `serve` and `connect`. What it relies on in ZeroMQ: large frames are not copied, messages arrive whole
or not at all, heartbeats watch connections. What it does not rely on: reconnection (a DEALER is thrown away with its connection,
so that every connection is authenticated), routing ids that peers choose, and delivery.
"""

import contextlib
import ipaddress
import itertools
import os
import socket
from collections.abc import Collection

import zmq
from zmq.utils.monitor import recv_monitor_message

from halohop.errors import InputError, TransportError
from halohop.transport import curve
from halohop.transport.base import DEFAULT_LIMITS, Channel, Handler, Limits, Listener
from halohop.transport.client import PortChannel
from halohop.transport.curve import sealed_with
from halohop.transport.door import Door
from halohop.transport.messages import Codec
from halohop.transport.security import ENCRYPT_VARIABLE, TOKEN_VARIABLE, Token
from halohop.transport.server import PortListener
from halohop.transport.sockets import MESSAGES_PER_TURN, Waker, configure, poll, readable, send
from halohop.transport.wire import Admit, Frames, Lost

_SCHEME = "tcp://"
_MAX_FRAMES = 2**16
_LOST: dict[int, str] = {
    zmq.EVENT_CLOSED: "the connection was refused, or the address is out of reach",
    zmq.EVENT_DISCONNECTED: "the connection broke",
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL: "it does not speak halohop's protocol",
    zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL: "it does not speak halohop's protocol",
}

_ONE_SIDED = f"this side {{}}, the other does otherwise; give both the same token, and both {ENCRYPT_VARIABLE}=1 or neither"


def serve(
    handler: Handler,
    *,
    codec: Codec,
    token: Token | None = None,
    bind: str | None = None,
    limits: Limits = DEFAULT_LIMITS,
    waiting: Collection[type] = (),
) -> Listener:
    """Answers requests that arrive at a port of this host.

    Args:
        handler: called with a request, from `limits.handler_threads` threads; returns the reply. The reply's tensors must stay
            unchanged from then on.
        codec: the message types.
        token: whoever connects must know it. With ``encrypt`` in it, connections are encrypted.
        bind: ``"host:port"`` or ``"tcp://host:port"``; port 0 takes a free one. The loopback interface and a free port if None.
        waiting: types of requests whose handler asks other servers. They get threads of their own, as many: servers that ask
            each other would come to a stop if what they ask had to queue up behind those who wait for it.

    Raises:
        InputError: not such an address; one that others can reach, without a token; or a ZeroMQ that cannot encrypt.
        TransportError: the port is in use, or the interface is not this host's.

    Example:
        >>> import torch
        >>> from halohop.store.requests import LocateReply, LocateRequest
        >>> codec = Codec([LocateRequest, LocateReply])
        >>> with serve(lambda request: LocateReply(gid=request.raw * 2), codec=codec) as server:
        ...     with connect(server.address, codec=codec) as channel:
        ...         channel.call(LocateRequest(node_type="node", raw=torch.tensor([1, 2])))
        LocateReply(gid=tensor([2, 4]))
    """
    host, port = _parsed("127.0.0.1:0" if bind is None else bind)
    try:
        ip = socket.gethostbyname(host) if host != "*" else "0.0.0.0"
    except OSError as error:
        raise TransportError(
            f"cannot listen on {host}:{port}: the host name is unknown ({error}); give a name or address of this host"
        ) from error
    if token is None and not ipaddress.ip_address(ip).is_loopback:
        raise InputError(
            f"listening on {host}:{port} lets other hosts in, so it needs a token; set {TOKEN_VARIABLE}, or bind 127.0.0.1"
        )
    port_of_ip = _RouterPort(ip, port, limits, sealed_with(token))
    return PortListener(port_of_ip, handler, codec=codec, token=token, limits=limits, waiting=waiting)


def connect(
    address: str,
    *others: str,
    codec: Codec,
    token: Token | None = None,
    peer: str = "server",
    limits: Limits = DEFAULT_LIMITS,
) -> Channel:
    """A channel to whoever serves, or will serve, at `address` (``"host:port"`` or ``"tcp://host:port"``). Returns at once.

    Args:
        others: who answers in its place: each time a connection is lost, or cannot be made, the next in turn is tried.
        peer: what errors call the other side.

    Raises:
        InputError: not such an address, or a ZeroMQ that cannot encrypt.
    """
    addresses = []
    for each in (address, *others):
        host, port = _parsed(each)
        if not port:
            raise InputError(f"address {each!r} names no port to connect to")
        addresses.append(f"{_SCHEME}{host}:{port}")
    return PortChannel(_DealerPort(addresses, limits, sealed_with(token)), codec=codec, token=token, peer=peer, limits=limits)


class _DealerPort:
    """A client port: one DEALER per connection, and a monitor that tells when it is gone. Addresses take turns."""

    def __init__(self, addresses: list[str], limits: Limits, seal: Token | None) -> None:
        self.address = " or ".join(addresses)
        self._turns = itertools.cycle(addresses)
        self._dialled = addresses[0]
        self._limits = limits
        self._seal = seal
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._waker = Waker()
        self._dealer: zmq.Socket[bytes] | None = None
        self._monitor: zmq.Socket[bytes] | None = None

    def open(self) -> None:
        dealer = self._context.socket(zmq.DEALER)
        configure(dealer, self._limits)
        if self._seal is not None:
            curve.seal_client(dealer, self._seal)
        dealer.setsockopt(zmq.RECONNECT_IVL, -1)
        self._monitor = dealer.get_monitor_socket(sum(_LOST))
        self._dealer = dealer
        self._dialled = next(self._turns)
        dealer.connect(self._dialled)

    def send(self, frames: Frames) -> None:
        if self._dealer is not None:
            with contextlib.suppress(zmq.Again):  # the connection has just gone, and `wait` is about to say so
                send(self._dealer, frames)

    def wait(self, seconds: float | None) -> list[Frames | Lost]:
        if self._dealer is None or self._monitor is None:
            poll([self._waker.fileno()], seconds)
            self._waker.clear()
            return []
        poll([self._dealer, self._monitor, self._waker.fileno()], seconds)
        self._waker.clear()
        lost = [
            event for event in iter(self._event, None) if event[0] in _LOST
        ]  # before reading, so that nothing it sent is missed
        arrived: list[Frames | Lost] = []
        while (lost or len(arrived) < MESSAGES_PER_TURN) and readable(self._dealer):
            arrived.append([frame.buffer for frame in self._dealer.recv_multipart(zmq.NOBLOCK, copy=False)])
        return [*arrived, self._told(*lost[0])] if lost else arrived

    def _event(self) -> tuple[int, int] | None:
        assert self._monitor is not None
        if not readable(self._monitor):
            return None
        event = recv_monitor_message(self._monitor, zmq.NOBLOCK)
        return int(event["event"]), int(event["value"])

    def _told(self, event: int, value: int) -> Lost:
        """How a connection ended, by its first sign."""
        cut_off = event == zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
        one_sided = event == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL and value == zmq.PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH
        here = self._seal is not None
        there = curve.encrypts(self._dialled) if cut_off else not here if one_sided else None
        if there is (not here):
            return Lost(reason=_ONE_SIDED.format("encrypts" if here else "does not encrypt"), stranger=True)
        if there and cut_off:
            return Lost(reason="it hung up on this side's greeting, as one does that knows another token", doubtful=True)
        return Lost(reason=_LOST[event])

    def wake(self) -> None:
        self._waker.set()

    def drop(self) -> None:
        if self._dealer is not None and self._monitor is not None:
            self._dealer.disable_monitor()
            self._monitor.close(linger=0)
            self._dealer.close(linger=0)
            self._dealer = self._monitor = None

    def close(self) -> None:
        self.drop()
        self._context.term()
        self._waker.close()


class _RouterPort:
    """A server port: one ROUTER, bound at birth."""

    def __init__(self, ip: str, port: int, limits: Limits, seal: Token | None) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._router = self._context.socket(zmq.ROUTER)
        configure(self._router, limits)
        if seal is not None:
            curve.seal_server(self._router, seal)
        self._router.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self._router.setsockopt(zmq.BACKLOG, 1024)
        self._max_bytes = limits.max_message_bytes
        self._door = Door(self._context, self._router, limits)
        try:
            self._router.bind(f"{_SCHEME}{ip}:{port}")
        except zmq.ZMQError as error:
            self._door.close()
            self._context.destroy(linger=0)
            remedy = "end the process that holds it, choose another port, or 0 for a free one"
            if error.errno != zmq.EADDRINUSE:
                remedy = "give an address of this host, and a port that this user may open"
            raise TransportError(f"cannot listen on {ip}:{port}: {os.strerror(error.errno or 0)}; {remedy}") from error
        self.address = self._router.getsockopt_string(zmq.LAST_ENDPOINT)
        self._waker = Waker()

    def send(self, peer: bytes, frames: Frames) -> bool:
        try:
            send(self._router, [peer, *frames])
        except zmq.ZMQError as error:
            if error.errno not in (zmq.EHOSTUNREACH, zmq.EAGAIN):
                raise
            return error.errno == zmq.EAGAIN
        return True

    def wait(self, seconds: float | None, admit: Admit | None) -> list[tuple[bytes, Frames]]:
        always: list[zmq.Socket[bytes] | int] = [self._door.monitor, self._waker.fileno()]
        poll(always if admit is None else [self._router, *always], self._door.patience(seconds))
        self._waker.clear()
        self._door.look()
        arrived: list[tuple[bytes, Frames]] = []
        for _ in range(MESSAGES_PER_TURN if admit is not None else 0):
            if not readable(self._router):
                break
            assert admit is not None
            message = self._receive(admit)
            if message is not None:
                arrived.append(message)
        return arrived

    def _receive(self, admit: Admit) -> tuple[bytes, Frames] | None:
        """One message, None if its sender is not to be heard. It is there as a whole, so nothing here waits."""
        peer = self._router.recv(zmq.NOBLOCK)
        head = self._router.recv(zmq.NOBLOCK, copy=False)
        self._door.heard(peer, head)
        frames = [head.buffer]
        size, more = 0, head.more
        wanted = more and admit(peer, head.buffer)
        while more:
            frame = self._router.recv(zmq.NOBLOCK, copy=False)
            more = frame.more
            size += len(frame.buffer)
            if wanted and size <= self._max_bytes and len(frames) <= _MAX_FRAMES:
                frames.append(frame.buffer)
        # A name that the router made begins with 0. Peers may ask for a name of their own: they get no hearing.
        return (peer, frames) if peer[:1] == b"\0" else None

    def welcome(self, peer: bytes) -> None:
        self._door.welcome(peer)

    def wake(self) -> None:
        self._waker.set()

    def close(self) -> None:
        self._door.close()
        self._router.close(linger=0)
        self._context.term()
        self._waker.close()


def _parsed(address: str) -> tuple[str, int]:
    host, _, port = address.removeprefix(_SCHEME).rpartition(":")
    if not host or "/" in host or ":" in host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise InputError(
            f"{address!r} is not an address; write host:port, such as 10.0.0.7:5510 (host: a name or an IPv4 address)"
        )
    return host, int(port)
