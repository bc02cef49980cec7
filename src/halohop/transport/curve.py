"""Encryption: CurveZMQ (ZeroMQ's own, after CurveCP), with the server's key pair made from the token.

Who knows the token knows the server's public key, so that no keys need to be handed out; who does not know it cannot even say
hello, since a hello is sealed with that key. The keys of a connection are fresh on both sides and forgotten with it: whoever
records the traffic and learns the token later cannot read it. The handshake of `security` follows inside, as it does without
encryption. See docs/security.md for what this does not protect from.
"""

import hmac
import socket
import time

import zmq
from zmq.utils import z85

from halohop.errors import InputError
from halohop.transport.security import ENCRYPT_VARIABLE, Token

_ASK_SECONDS = 1.0
_GREETING = b"\xff" + bytes(8) + b"\x7f" + b"\x03"  # of ZMTP 3: signature and version; what follows them is held back
_MECHANISM = slice(12, 32)
_PURPOSE = b"halohop: secret key of a server, CURVE, 1"


def sealed_with(token: Token | None) -> Token | None:
    """The token, if it asks for encryption.

    Raises:
        InputError: it does, but ZeroMQ was built without.
    """
    if token is None or not token.encrypt:
        return None
    if not zmq.has("curve"):
        raise InputError(
            f"this ZeroMQ was built without encryption (CURVE); install pyzmq from a wheel of PyPI, or drop {ENCRYPT_VARIABLE}"
        )
    return token


def seal_server(sock: "zmq.Socket[bytes]", token: Token) -> None:
    """Has a socket, not yet bound, take encrypted connections only, of those who know the token."""
    sock.setsockopt(zmq.CURVE_SERVER, 1)
    sock.setsockopt(zmq.CURVE_SECRETKEY, _server_key(token))


def seal_client(sock: "zmq.Socket[bytes]", token: Token) -> None:
    """Has a socket, not yet connected, talk to servers that know the token, encrypted, with a fresh key of its own."""
    public, secret = zmq.curve_keypair()
    sock.setsockopt(zmq.CURVE_SERVERKEY, zmq.curve_public(_server_key(token)))
    sock.setsockopt(zmq.CURVE_PUBLICKEY, public)
    sock.setsockopt(zmq.CURVE_SECRETKEY, secret)


def encrypts(address: str) -> bool | None:
    """Whether a ZeroMQ peer takes encrypted connections only; None if nobody says so within a second.

    Of two peers of which one encrypts, each hangs up as soon as it notices, often before it has said which one it is. So this
    begins a greeting and leaves the word about encryption to the other side.
    """
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    heard, until = b"", time.monotonic() + _ASK_SECONDS
    try:
        with socket.create_connection((host, int(port)), timeout=_ASK_SECONDS) as connection:
            connection.sendall(_GREETING)
            while len(heard) < _MECHANISM.stop and (data := connection.recv(_MECHANISM.stop)):
                heard += data
                connection.settimeout(max(0.001, until - time.monotonic()))
    except OSError:
        return None
    return {b"CURVE": True, b"NULL": False}.get(heard[_MECHANISM].rstrip(b"\0"))


def _server_key(token: Token) -> bytes:
    """The server's secret key, in ZeroMQ's spelling. HMAC derives it; nothing else is made from the token with this text."""
    return z85.encode(hmac.digest(token.key, _PURPOSE, "sha256"))
