"""The network interfaces of this host, by what they lead to: gloo connects ranks by the one that it is given."""

import socket

from halohop.linux import addresses_of

GLOO_INTERFACE = "GLOO_SOCKET_IFNAME"
"""Environment variable: the interface by which gloo connects the ranks. Without it gloo takes the address that the host's own
name resolves to, which on many hosts is the loopback's."""


def interface_towards(host: str) -> str | None:
    """The name of the interface that leads to a host; None if that is not known, as on other systems than Linux.

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
