"""Requests and replies between peers: `serve` and `connect`.

Names are loaded when they are first used: addresses and tokens are read by commands that need neither torch nor kernels.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_HOMES = {
    "PROTOCOL_VERSION": "handshake",
    "TOKEN_VARIABLE": "security",
    "Certificate": "security",
    "Channel": "base",
    "Codec": "messages",
    "ConnectionLostError": "peer_errors",
    "Handler": "base",
    "Identity": "handshake",
    "Limits": "base",
    "Listener": "base",
    "Token": "security",
    "connect": "tcp",
    "load_token": "security",
    "serve": "tcp",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
