"""Addresses under which other hosts reach this one."""

import socket

import pytest

from halohop.errors import ClusterError
from halohop.net.interfaces import is_loopback, own_address


def test_own_address_is_one_that_the_transport_can_bind(monkeypatch):
    resolve = socket.getaddrinfo

    def ipv6_first(host, port, family=0, **options):
        sixth = (socket.AF_INET6, socket.SOCK_DGRAM, 17, "", ("::1", port, 0, 0))
        return [*([sixth] if family != socket.AF_INET else []), *resolve(host, port, family=family, **options)]

    monkeypatch.setattr(socket, "getaddrinfo", ipv6_first)
    assert own_address("localhost") == "127.0.0.1"
    with pytest.raises(ClusterError, match=r"MASTER_ADDR='no such host'.*give `listen`"):
        own_address("no such host")


def test_an_address_that_others_cannot_reach_is_refused(monkeypatch):
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(socket.AF_INET, socket.SOCK_DGRAM, 17, "", ("127.0.1.1", 9))])
    with pytest.raises(ClusterError, match="listen"):
        own_address("trainer-0")
    assert own_address("localhost").startswith("127.")


@pytest.mark.parametrize(
    ("address", "alone"),
    [("127.0.0.1:0", True), ("tcp://127.0.1.1:5", True), ("localhost:5", True), ("0.0.0.0:5", False), ("*:5", False)],
)
def test_what_only_this_host_reaches(address, alone):
    assert is_loopback(address) is alone
