"""Addresses of TCP, as text: ``HOST:PORT``, where an IPv6 host stands in brackets. All that splits an address does it here."""

import ipaddress

from halohop.errors import InputError

SCHEME = "tcp://"


def plain(address: str) -> str:
    """An address without its scheme: the same, however it was spelled.

    Example:
        >>> plain("tcp://10.0.0.7:5510"), plain("10.0.0.7:5510")
        ('10.0.0.7:5510', '10.0.0.7:5510')
    """
    return address.removeprefix(SCHEME)


def parsed(address: str, *, default_host: str = "") -> tuple[str, int]:
    """Host and port; the host without brackets.

    Args:
        address: ``"HOST:PORT"`` or ``"tcp://HOST:PORT"``. HOST: a name, an IPv4 address, or an IPv6 address in brackets.
        default_host: the host where the address names none, as in ``":9464"``; such an address is refused without it.

    Raises:
        InputError: it is no such address.

    Example:
        >>> parsed("10.0.0.7:5510"), parsed("tcp://[::1]:0")
        (('10.0.0.7', 5510), ('::1', 0))
    """
    text, colon, port = plain(address).rpartition(":")
    host = text or default_host
    if host.startswith("[") and host.endswith("]") and is_ipv6(host[1:-1]):
        host = host[1:-1]
    elif is_ipv6(host) or is_ipv6(plain(address)):
        raise InputError(
            f"{address!r} is not an address of the form host:port: an IPv6 address stands in brackets; "
            f"write {joined((host, port)) if is_ipv6(host) else f'[{plain(address)}]:PORT'}"
        )
    elif not colon or not _can_be_name(host):
        raise _no_address(address)
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise _no_address(address)
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


def joined(place: tuple[str, int | str]) -> str:
    """The address of a host and port, without a scheme: what `parsed` splits.

    Example:
        >>> joined(("10.0.0.7", 5510)), joined(("::1", 5510))
        ('10.0.0.7:5510', '[::1]:5510')
    """
    host, port = place
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def spelled(place: tuple[str, int]) -> str:
    """The address of a host and port, with its scheme."""
    return f"{SCHEME}{joined(place)}"


def is_ipv6(host: str) -> bool:
    """Whether a host is the literal of an IPv6 address, perhaps with the interface it belongs to (``fe80::1%eth0``)."""
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        return False
    return not set(host) & set("/[]\0")


def is_loopback_host(host: str) -> bool:
    """Whether a host is the literal of an address that only this host reaches.

    Example:
        >>> is_loopback_host("127.0.1.1"), is_loopback_host("::1"), is_loopback_host("::"), is_loopback_host("localhost")
        (True, True, False, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _no_address(address: str) -> InputError:
    return InputError(
        f"{address!r} is not an address; write host:port, such as 10.0.0.7:5510 or [fd00::7]:5510 "
        "(host: a name, an IPv4 address, or an IPv6 address in brackets)"
    )


def _can_be_name(host: str) -> bool:
    try:
        host.encode("idna")
    except UnicodeError:  # an empty part, or one that is too long
        return False
    return bool(host) and not set(host) & set("/:[]\0")
