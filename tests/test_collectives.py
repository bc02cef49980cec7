"""Ports that are handed out."""

import random
import socket

import pytest

from halohop import collectives
from halohop.errors import ClusterError


@pytest.fixture
def in_order(monkeypatch):
    """Ports are tried in their order, as by processes that happen to choose alike."""
    own = random.randrange(16384, 32000)
    monkeypatch.setattr(random.SystemRandom, "sample", lambda self, ports, count: list(range(own, own + count)))


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_port_that_was_given_to_one_is_given_to_no_other_and_can_be_listened_at(in_order, host):
    ports = [collectives.free_port(host) for _ in range(5)]
    assert len(set(ports)) == 5
    for port in ports:
        with socket.create_server((host, port)):
            pass


def test_a_port_at_which_somebody_listens_is_not_free(in_order):
    with socket.create_server(("127.0.0.1", collectives.free_port("127.0.0.1"))) as taken:
        assert collectives.free_port("127.0.0.1") != taken.getsockname()[1]


def test_an_address_of_another_host_has_no_ports_here():
    with pytest.raises(ClusterError, match=r"100 ports of '192\.0\.2\.1' were tried"):
        collectives.free_port("192.0.2.1")
