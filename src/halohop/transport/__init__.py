"""Requests and replies between peers: `serve` and `connect`."""

from halohop.transport.base import Channel, Handler, Limits, Listener
from halohop.transport.handshake import PROTOCOL_VERSION, Identity
from halohop.transport.messages import Codec
from halohop.transport.peer_errors import ConnectionLostError
from halohop.transport.security import TOKEN_VARIABLE, Certificate, Token, load_token
from halohop.transport.tcp import connect, serve

__all__ = [
    "PROTOCOL_VERSION",
    "TOKEN_VARIABLE",
    "Certificate",
    "Channel",
    "Codec",
    "ConnectionLostError",
    "Handler",
    "Identity",
    "Limits",
    "Listener",
    "Token",
    "connect",
    "load_token",
    "serve",
]
