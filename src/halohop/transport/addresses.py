"""Addresses of TCP, as text."""

from halohop.errors import InputError

SCHEME = "tcp://"


def plain(address: str) -> str:
    """An address without its scheme: the same, however it was spelled.

    Example:
        >>> plain("tcp://10.0.0.7:5510"), plain("10.0.0.7:5510")
        ('10.0.0.7:5510', '10.0.0.7:5510')
    """
    return address.removeprefix(SCHEME)


def parsed(address: str) -> tuple[str, int]:
    """Host and port.

    Raises:
        InputError: it is neither ``"host:port"`` nor ``"tcp://host:port"``.
    """
    host, _, port = plain(address).rpartition(":")
    if not _can_be_name(host) or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise InputError(
            f"{address!r} is not an address; write host:port, such as 10.0.0.7:5510 (host: a name or an IPv4 address)"
        )
    return host, int(port)


def parsed_peer(address: str) -> tuple[str, int]:
    """Host and port of a server to connect to.

    Raises:
        InputError: not an address, or without a port.
    """
    host, port = parsed(address)
    if not port:
        raise InputError(f"address {address!r} names no port to connect to")
    return host, port


def spelled(place: tuple[str, int]) -> str:
    """The address of a host and port."""
    host, port = place
    return f"{SCHEME}{host}:{port}"


def _can_be_name(host: str) -> bool:
    try:
        host.encode("idna")
    except UnicodeError:  # an empty part, or one that is too long
        return False
    return bool(host) and not set(host) & set("/:\0")
