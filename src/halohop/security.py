"""Tokens and certificates: who may connect, and encryption."""

from halohop.transport.security import Certificate, Token, load_token

__all__ = [
    "Certificate",
    "Token",
    "load_token",
]
