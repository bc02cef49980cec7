"""The addresses under which other hosts reach this one."""

import ipaddress
import socket

from halohop.errors import ClusterError
from halohop.transport.addresses import parsed

_ANYWHERE = ("0.0.0.0", "*")


def own_address(master: str) -> str:
    """The IPv4 address under which other hosts reach this one: that of the interface towards the host of torch's store.

    Raises:
        ClusterError: that host has no IPv4 address, no interface leads there, or only this host's own loopback.
    """
    try:
        address = address_towards(master)
    except OSError as error:
        raise ClusterError(
            f"no IPv4 interface leads to MASTER_ADDR={master!r} ({error}); give `listen`, the address for the other hosts"
        ) from error
    if address.startswith("127.") and not master.startswith(("127.", "localhost")):
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
    return f"{address_towards(towards)}:{port}" if host in _ANYWHERE else address


def is_loopback(address: str) -> bool:
    """Whether nothing but this host reaches what listens at an address."""
    host, _ = parsed(address)
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def address_towards(host: str) -> str:
    """The IPv4 address of the interface that leads to a host.

    Raises:
        OSError: the host has none, or no interface leads there.
    """
    target = socket.getaddrinfo(host, 9, family=socket.AF_INET, type=socket.SOCK_DGRAM)[0][4]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:  # connecting it chooses an interface and sends nothing
        probe.connect(target)
        return str(probe.getsockname()[0])
