import socket

from halohop.interfaces import interface_towards
from halohop.linux import addresses_of


def test_every_interface_has_its_addresses() -> None:
    assert "127.0.0.1" in addresses_of("lo")
    assert addresses_of("no-such-interface") == set()
    for _, name in socket.if_nameindex():
        for address in addresses_of(name):
            socket.getaddrinfo(address, 0)


def test_the_interface_towards_a_host_is_that_of_the_route() -> None:
    assert interface_towards("127.0.0.1") == "lo"
    assert interface_towards("") is None
    assert interface_towards("no-such-host.invalid") is None
