"""Requests and replies between peers: `serve` and `connect` across hosts, `InProcessNetwork` within a process."""

from halohop.transport.base import Channel, Handler, Limits, Listener, Network
from halohop.transport.handshake import PROTOCOL_VERSION, Identity
from halohop.transport.inprocess import InProcessNetwork
from halohop.transport.messages import Codec
from halohop.transport.security import TOKEN_VARIABLE, Certificate, Token, load_token
from halohop.transport.tcp import connect, serve

__all__ = [
    "PROTOCOL_VERSION",
    "TOKEN_VARIABLE",
    "Certificate",
    "Channel",
    "Codec",
    "Handler",
    "Identity",
    "InProcessNetwork",
    "Limits",
    "Listener",
    "Network",
    "Token",
    "connect",
    "load_token",
    "serve",
]
