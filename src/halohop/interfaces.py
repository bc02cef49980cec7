"""The network interfaces of this host, by what they lead to: gloo connects ranks by the one that it is given."""

import fcntl
import socket
import struct
from contextlib import suppress
from pathlib import Path

GLOO_INTERFACE = "GLOO_SOCKET_IFNAME"
"""Environment variable: the interface by which gloo connects the ranks. Without it gloo takes the address that the host's own
name resolves to, which on many hosts is the loopback's."""

_SIOCGIFADDR = 0x8915
"""Linux's number of the request for the IPv4 address of an interface."""


def interface_towards(host: str) -> str | None:
    """The name of the interface that leads to a host; None where that is not known.

    Example:
        >>> interface_towards("127.0.0.1"), interface_towards("")
        ('lo', None)
    """
    if not host:
        return None
    try:
        family, kind, _, _, target = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:  # connecting it chooses an interface and sends nothing
            probe.connect(target)
            own = probe.getsockname()[0].partition("%")[0]
    except OSError:  # joining the group says what is wrong with the name
        return None
    return next((name for _, name in socket.if_nameindex() if own in addresses_of(name)), None)


def addresses_of(interface: str) -> set[str]:
    """The IP addresses of an interface of this host; none of one that is not there."""
    found = set()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):  # it has no IPv4 address
        answer = fcntl.ioctl(probe, _SIOCGIFADDR, struct.pack("256s", interface.encode()))
        found.add(socket.inet_ntoa(answer[20:24]))
    with suppress(OSError):  # a system without IPv6
        lines = [line.split() for line in Path("/proc/net/if_inet6").read_text().splitlines()]
        found |= {socket.inet_ntop(socket.AF_INET6, bytes.fromhex(line[0])) for line in lines if line[5] == interface}
    return found
