"""The addresses under which other hosts reach this one."""

import os
import socket

from halohop.errors import ClusterError


def own_address() -> str:
    """The IPv4 address under which other hosts reach this one: that of the interface towards MASTER_ADDR.

    Raises:
        ClusterError: MASTER_ADDR has no IPv4 address, no interface leads there, or only this host's own loopback.
    """
    master = os.environ.get("MASTER_ADDR", "127.0.0.1")
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


def address_towards(host: str) -> str:
    """The IPv4 address of the interface that leads to a host.

    Raises:
        OSError: the host has none, or no interface leads there.
    """
    target = socket.getaddrinfo(host, 9, family=socket.AF_INET, type=socket.SOCK_DGRAM)[0][4]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:  # connecting it chooses an interface and sends nothing
        probe.connect(target)
        return str(probe.getsockname()[0])
