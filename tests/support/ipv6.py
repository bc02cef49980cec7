"""Whether this machine has IPv6."""

import ipaddress
import socket
from pathlib import Path

import pytest


def has_ipv6() -> bool:
    """Whether a server can listen at ``::1`` here."""
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


def link_local_hosts() -> list[str]:
    """The link-local addresses of this machine, with the interfaces they belong to."""
    table = Path("/proc/net/if_inet6")
    lines = [line.split() for line in table.read_text().splitlines()] if table.exists() else []
    found = [(ipaddress.IPv6Address(bytes.fromhex(line[0])), line[5]) for line in lines]
    return [f"{address}%{interface}" for address, interface in found if address.is_link_local]


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6: a server cannot listen at ::1")
