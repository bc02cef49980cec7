"""Where servers are looked for: any callable that returns addresses, and those that come with halohop."""

import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

from halohop.errors import InputError
from halohop.files.whole import write_file
from halohop.transport.addresses import joined, parsed_peer
from halohop.transport.lookup import place_of

Finder: TypeAlias = Callable[[], Sequence[str]]
"""Returns ``"HOST:PORT"`` of the servers that it finds now; none is no error, they may still be starting. It is called at the
start, and again as long as a server is missing or lost. It may take its time: no thread that moves data calls it.
"""


@runtime_checkable
class Announcer(Protocol):
    """A finder where servers also leave their addresses: `halohop.serve` does so, if it is given one as `peers`."""

    def announce(self, name: str, address: str) -> None:
        """A server with this name, which no other has, is at this address; said again every few seconds."""
        ...

    def withdraw(self, name: str) -> None:
        """The server ends."""
        ...


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A folder that all hosts share, with one small file for each server.

    A server that was killed leaves its file behind. It is ignored when it was not written again for some time while others were.

    Args:
        path: of the folder; it is made when the first server comes.
        forget_seconds: how much older than the newest file a file may be.

    Example:
        >>> folder = Folder(path="servers")
        >>> folder()
        []
        >>> folder.announce("a", "10.0.0.7:5510")
        >>> folder()
        ['10.0.0.7:5510']
    """

    path: str | Path
    forget_seconds: float = 60.0

    def __call__(self) -> Sequence[str]:
        found: list[tuple[float, str]] = []
        for file in sorted(Path(self.path).glob("*.server")):
            try:
                found.append((file.stat().st_mtime, file.read_text().strip()))
            except FileNotFoundError:  # withdrawn meanwhile
                continue
        newest = max((written for written, _ in found), default=0.0)
        return [address for written, address in found if address and written >= newest - self.forget_seconds]

    def announce(self, name: str, address: str) -> None:
        Path(self.path).mkdir(parents=True, exist_ok=True)
        write_file(self._file(name), f"{address}\n".encode())

    def withdraw(self, name: str) -> None:
        self._file(name).unlink(missing_ok=True)

    def _file(self, name: str) -> Path:
        return Path(self.path) / f"{name}.server"


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """All addresses that a name has: of the pods behind a headless service of Kubernetes, or of the A and AAAA records of a
    DNS name.

    Example:
        >>> Name(host="127.0.0.1", port=5510)()
        ['127.0.0.1:5510']
    """

    host: str
    port: int

    def __call__(self) -> Sequence[str]:
        try:
            found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        except socket.gaierror:  # not yet, or not any more: it has no address
            return []
        return list(dict.fromkeys(joined(place_of(address)) for *_, address in found))


@dataclass(frozen=True, slots=True, kw_only=True)
class Awaited:
    """No server by itself: the others know where this one is, and make themselves known to it.

    Example:
        >>> Awaited()()
        ()
    """

    def __call__(self) -> Sequence[str]:
        return ()


class Store:
    """A store of torch's (`torch.distributed.TCPStore`, ...) that servers and clients share.

    Args:
        store: it is kept by a process that lives as long as it is needed.
        prefix: of the names in it.
    """

    def __init__(self, store: Any, *, prefix: str = "halohop/servers") -> None:
        self._store = store
        self._prefix = prefix
        self._places: dict[str, int] = {}

    def __call__(self) -> Sequence[str]:
        count = int(self._store.add(f"{self._prefix}/count", 0))
        keys = [key for key in (f"{self._prefix}/{place}" for place in range(1, count + 1)) if self._store.check([key])]
        return [address for address in (self._store.get(key).decode() for key in keys) if address]

    def announce(self, name: str, address: str) -> None:
        if name not in self._places:
            self._places[name] = int(self._store.add(f"{self._prefix}/count", 1))
        self._store.set(f"{self._prefix}/{self._places[name]}", address)

    def withdraw(self, name: str) -> None:
        if name in self._places:
            self._store.set(f"{self._prefix}/{self._places.pop(name)}", "")


def named_servers(text: str) -> Sequence[str] | Finder:
    """What an option spells: ``HOST:PORT,HOST:PORT``, ``folder:PATH`` (a `Folder`), or ``dns:NAME:PORT`` (a `Name`).

    Raises:
        InputError: a folder or a name without a port, where one is announced.

    Example:
        >>> named_servers("a:5510,b:5510"), named_servers("dns:graph.svc:5510")
        (('a:5510', 'b:5510'), Name(host='graph.svc', port=5510))
        >>> named_servers("folder:/shared/servers")
        Folder(path='/shared/servers', forget_seconds=60.0)
    """
    kind, _, rest = text.partition(":")
    if kind == "folder" and not rest.isdecimal():  # a host may have that name
        if not rest:
            raise InputError(f"{text!r} names no folder; write folder:PATH, of a folder that all hosts share")
        return Folder(path=rest)
    if kind == "dns" and not rest.isdecimal():
        host, port = parsed_peer(rest)
        return Name(host=host, port=port)
    return tuple(address for address in text.split(",") if address)


def found_by(finder: Finder) -> tuple[str, ...]:
    """The addresses that a finder returns now.

    Raises:
        InputError: it returns no list of texts.
    """
    found: Any = finder()
    addresses: list[Any] = [*found] if isinstance(found, Iterable) and not isinstance(found, str) else [None]
    if not all(isinstance(address, str) for address in addresses):
        raise InputError(f"{finder!r} returned {found!r}, which is no list of addresses; return one 'HOST:PORT' for each server")
    return tuple(addresses)


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
