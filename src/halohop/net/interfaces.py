"""The addresses under which other hosts reach this one."""

import socket
from collections.abc import Sequence
from contextlib import suppress

from halohop.errors import ClusterError, InputError
from halohop.transport.addresses import is_loopback_host, joined, parsed, spelled
from halohop.transport.lookup import place_of

_ANYWHERE = ("0.0.0.0", "*", "::")
_BOTH = (socket.AF_INET, socket.AF_INET6)


def own_address(master: str) -> str:
    """The address under which other hosts reach this one: that of the interface towards the host of torch's store; with IPv4, if
    that leads there.

    Raises:
        ClusterError: that host has no address, no interface leads there, or only this host's own loopback.
    """
    try:
        address = address_towards(master)
    except OSError as error:
        raise ClusterError(
            f"no interface leads to MASTER_ADDR={master!r} ({error}); give `listen`, the address for the other hosts"
        ) from error
    if is_loopback_host(address) and not is_loopback_host(master) and not master.startswith("localhost"):
        raise ClusterError(
            f"MASTER_ADDR={master!r} is {address} here, where other hosts cannot reach it (see /etc/hosts); "
            "give `listen`, the address for the other hosts"
        )
    return address


def reached_at(address: str, towards: str) -> str:
    """Where a server that listens at an address is reached by another host.

    Raises:
        OSError: it listens on all interfaces, and none leads there.

    Example:
        >>> reached_at("10.0.0.7:5510", "10.0.0.8"), reached_at("0.0.0.0:5510", "127.0.0.1")
        ('10.0.0.7:5510', '127.0.0.1:5510')
    """
    host, port = parsed(address)
    if host not in _ANYWHERE:
        return address
    families: Sequence[socket.AddressFamily] = (socket.AF_INET,)
    if host == "::":
        families = _BOTH if socket.has_dualstack_ipv6() else (socket.AF_INET6,)
    return joined((address_towards(towards, families), port))


def reached_as(advertised: str, address: str) -> str:
    """The address that a server gives to others, where it is not what it listens at.

    Args:
        advertised: ``HOST:PORT``; port 0 stands for that of `address`.
        address: where it listens.

    Raises:
        InputError: not an address, or one that means all interfaces, where others find nothing.

    Example:
        >>> reached_as("graph-0.graph:0", "0.0.0.0:5510"), reached_as("10.0.0.7:15510", "172.17.0.2:5510")
        ('tcp://graph-0.graph:5510', 'tcp://10.0.0.7:15510')
    """
    host, port = parsed(advertised)
    if host in _ANYWHERE:
        raise InputError(
            f"advertise={advertised!r} means all interfaces; give a name or an address under which others find this host"
        )
    return spelled((host, port or parsed(address)[1]))


def is_loopback(address: str) -> bool:
    """Whether nothing but this host reaches what listens at an address."""
    host, _ = parsed(address)
    return host == "localhost" or is_loopback_host(host)


def address_towards(host: str, families: Sequence[socket.AddressFamily] = _BOTH) -> str:
    """The address of the interface that leads to a host.

    Args:
        host: a name or an address.
        families: of the address, the preferred one first.

    Raises:
        OSError: the host has no such address, or no interface leads there.
    """
    *others, last = families
    for family in others:
        with suppress(OSError):  # the next one may lead there
            return _address_towards(host, family)
    return _address_towards(host, last)


def _address_towards(host: str, family: socket.AddressFamily) -> str:
    target = socket.getaddrinfo(host, 9, family=family, type=socket.SOCK_DGRAM)[0][4]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:  # connecting it chooses an interface and sends nothing
        probe.connect(target)
        return place_of(probe.getsockname())[0]
