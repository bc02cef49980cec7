"""Where servers are looked for: any callable that returns addresses, and those that come with halohop."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from halohop.errors import InputError

Finder: TypeAlias = Callable[[], Sequence[str]]
"""Returns ``"HOST:PORT"`` of the servers that it finds now. It may take its time: no thread that moves data calls it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A fixed list of addresses.

    Example:
        >>> Listed(addresses=("10.0.0.7:5510",))()
        ('10.0.0.7:5510',)
    """

    addresses: tuple[str, ...]

    def __call__(self) -> Sequence[str]:
        return self.addresses


def finder_of(servers: Sequence[str] | Finder) -> Finder:
    """What a user gave, as a finder.

    Raises:
        InputError: neither a finder nor a list of addresses.
    """
    if callable(servers):
        return servers
    if isinstance(servers, str):
        raise InputError(f"servers={servers!r} is no list of addresses; give one 'HOST:PORT' for each server")
    return Listed(addresses=tuple(servers))
