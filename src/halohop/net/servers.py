"""Where the servers of a data set are looked for, and what it takes to talk to them."""

from dataclasses import dataclass

from halohop.net.finders import Finder
from halohop.transport import Limits, Token


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """Some servers as seen from outside.

    Args:
        finder: their addresses.
        token: the secret that they share.
        limits: of every channel to them.
        label: what errors and statistics call them, with the number that all call them by; with the address until it is known.
    """

    finder: Finder
    token: Token | None
    limits: Limits
    label: str = "server"
