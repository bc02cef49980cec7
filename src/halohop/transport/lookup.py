"""The addresses that a host has: at once where it is given by number, from a thread where its name must be looked up."""

import math
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, TypeAlias

Target: TypeAlias = tuple[socket.AddressFamily, Any]
"""An address family, and an address of it as the system's calls take it."""


def numeric(place: tuple[str, int]) -> list[Target]:
    """The address of a host that is given by number; none where it is a name."""
    try:
        return _targets(place, socket.AI_NUMERICHOST)
    except OSError:
        return []


def listening_target(place: tuple[str, int]) -> Target:
    """Where a server listens that is given a host and port. A name that has addresses of both kinds counts as its IPv4 address.

    Raises:
        OSError: the name has no address.
    """
    return min(_targets(place), key=lambda target: target[0] != socket.AF_INET)


def place_of(address: Any) -> tuple[str, int]:
    """Host and port of an address as the system's calls return it; a link-local host with the interface it belongs to.

    Example:
        >>> place_of(("10.0.0.7", 5510)), place_of(("fd00::7", 5510, 0, 0)), place_of(("fe80::7", 5510, 0, 1))
        (('10.0.0.7', 5510), ('fd00::7', 5510), ('fe80::7%lo', 5510))

    Raises:
        OSError: the interface is gone.
    """
    host, port, *rest = address
    scope = rest[1] if rest else 0
    return f"{host}%{socket.if_indextoname(scope)}" if scope and "%" not in host else host, port


class Lookup:
    """One look-up of a name, in a daemon thread of its own: the system may take many seconds, and cannot be interrupted.

    Args:
        place: host and port.
        done: called by that thread at the end.

    Attributes:
        place: as given.
        targets: what was found; None as long as it is looked up.
        reason: why nothing was found.
        ended: when it ended, on the monotonic clock; infinity before that.
    """

    def __init__(self, place: tuple[str, int], done: Callable[[], None]) -> None:
        self.place = place
        self.targets: list[Target] | None = None
        self.reason = ""
        self.ended = math.inf
        thread = threading.Thread(target=self._run, args=(done,), name=f"halohop-lookup-{place[0]}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            self._end([], f"this process cannot look up the name {place[0]!r}: {error}")

    def _run(self, done: Callable[[], None]) -> None:
        try:
            self._end(_targets(self.place), "")
        except OSError as error:
            self._end([], f"the name {self.place[0]!r} has no address ({error.strerror or error})")
        done()

    def _end(self, targets: list[Target], reason: str) -> None:
        self.reason, self.ended = reason, time.monotonic()
        self.targets = targets  # the last: from now on, the thread that waits reads


def _targets(place: tuple[str, int], flags: int = 0) -> list[Target]:
    """All addresses, in the system's order of preference, each once."""
    found = socket.getaddrinfo(*place, type=socket.SOCK_STREAM, flags=flags)
    return list(dict.fromkeys((family, address) for family, _, _, _, address in found))
