"""Whether this machine has IPv6."""

import socket

import pytest


def has_ipv6() -> bool:
    """Whether a server can listen at ``::1`` here."""
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6: a server cannot listen at ::1")
