"""Requests and replies between peers: `serve` and `connect` across hosts, `InProcessNetwork` within a process."""

from halohop.transport.base import Channel, Handler, Limits, Listener, Network
from halohop.transport.inprocess import InProcessNetwork
from halohop.transport.messages import Codec
from halohop.transport.security import PROTOCOL_VERSION, TOKEN_VARIABLE, Token, load_token
from halohop.transport.zeromq import connect, serve

__all__ = [
    "PROTOCOL_VERSION",
    "TOKEN_VARIABLE",
    "Channel",
    "Codec",
    "Handler",
    "InProcessNetwork",
    "Limits",
    "Listener",
    "Network",
    "Token",
    "connect",
    "load_token",
    "serve",
]
