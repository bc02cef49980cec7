"""Peers across hosts: plain TCP, encrypted by TLS if the token asks for it."""

import errno
import os
import socket
from collections.abc import Collection

from halohop.errors import InputError, TransportError
from halohop.transport.addresses import is_loopback_host, joined, parsed
from halohop.transport.base import DEFAULT_LIMITS, Channel, Handler, Limits, Listener
from halohop.transport.client import PortChannel
from halohop.transport.client_port import ClientPort
from halohop.transport.handshake import NO_IDENTITY, Identity
from halohop.transport.lookup import listening_target, place_of
from halohop.transport.messages import Codec
from halohop.transport.security import TOKEN_VARIABLE, Token
from halohop.transport.server import PortListener
from halohop.transport.server_port import ServerPort
from halohop.transport.tls import seal_of

_BACKLOG = 1024


def serve(
    handler: Handler,
    *,
    codec: Codec,
    token: Token | None = None,
    bind: str | None = None,
    limits: Limits = DEFAULT_LIMITS,
    waiting: Collection[type] = (),
    identity: Identity = NO_IDENTITY,
) -> Listener:
    """Answers requests that arrive at a port of this host.

    Args:
        handler: called with a request, from `limits.handler_threads` threads; returns the reply. The reply's tensors must stay
            unchanged from then on.
        codec: the message types.
        token: clients must know it. With ``encrypt`` in it, connections are encrypted.
        bind: ``"host:port"`` or ``"tcp://host:port"``, an IPv6 host in brackets; port 0 takes a free one. ``0.0.0.0`` and ``*``
            are all interfaces with IPv4, ``[::]`` those with IPv6 and, where the system can do both at once, IPv4. The loopback
            interface and a free port if None.
        waiting: types of requests whose handler asks other servers, or waits for anything else. They get threads of their own,
            as many: servers that ask each other would come to a stop if what they ask had to queue up behind those who wait for
            it.
        identity: what this server serves; shown to every client that has proven the token.

    Raises:
        InputError: not such an address; one that others can reach, without a token; or no means to encrypt.
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
    host, port = place = parsed("127.0.0.1:0" if bind is None else bind)
    try:
        family, address = listening_target(("0.0.0.0", port) if host == "*" else place)
    except OSError as error:
        raise TransportError(
            f"cannot listen on {joined(place)}: the host name is unknown ({error}); give a name or address of this host"
        ) from error
    if token is None and not is_loopback_host(address[0]):
        raise InputError(
            f"listening on {joined(place)} lets other hosts in, so it needs a token; "
            f"set {TOKEN_VARIABLE}, or bind 127.0.0.1 or [::1]"
        )
    seal = seal_of(token, server=True)
    try:
        both = address[0] == "::" and socket.has_dualstack_ipv6()
        listening = socket.create_server(address, family=family, backlog=_BACKLOG, dualstack_ipv6=both)
    except OSError as error:
        remedy = "end the process that holds it, choose another port, or 0 for a free one"
        if error.errno != errno.EADDRINUSE:
            remedy = "give an address of this host, and a port that this user may open"
        raise TransportError(
            f"cannot listen on {joined(place_of(address))}: {os.strerror(error.errno or 0)}; {remedy}"
        ) from error
    return PortListener(
        ServerPort(listening, limits, seal),
        handler,
        codec=codec,
        token=token,
        limits=limits,
        waiting=waiting,
        identity=identity,
    )


def connect(
    address: str,
    *others: str,
    codec: Codec,
    token: Token | None = None,
    peer: str = "server",
    limits: Limits = DEFAULT_LIMITS,
    expected: Identity | None = None,
) -> Channel:
    """A channel to the server that is, or will be, at `address` (``"host:port"`` or ``"tcp://host:port"``). Returns at once.

    A host's name is looked up with each connection that is opened, and all addresses that it has are tried in turn.

    Args:
        others: who answers in its place: each time a connection is lost, or cannot be made, the next in turn is tried.
        peer: what errors call the other side.
        expected: which data set the server must have, and at least which of its partitions. With every connection the server
            shows what it has; another one counts as not there, and nothing is asked of it. None: that of the first connection.

    Raises:
        InputError: not such an address, or no means to encrypt.
    """
    port = ClientPort((address, *others), limits, seal_of(token, server=False))
    return PortChannel(port, codec=codec, token=token, peer=peer, limits=limits, expected=expected)
