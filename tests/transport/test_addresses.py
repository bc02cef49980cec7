"""Addresses of TCP as text, and IPv6 on real sockets."""

import socket

import pytest
import torch

from halohop.errors import InputError, TransportError
from halohop.store.requests import LocateReply, LocateRequest
from halohop.transport import Codec, Token, connect, serve
from halohop.transport.addresses import is_loopback_host, joined, parsed, parsed_peer, spelled
from tests.support.ipv6 import link_local_hosts, needs_ipv6

CODEC = Codec([LocateRequest, LocateReply])
TOKEN = Token("a token that tests share")


def answer(request: LocateRequest) -> LocateReply:
    return LocateReply(gid=request.raw + 1)


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("[::1]:5510", ("::1", 5510)),
        ("tcp://[::1]:0", ("::1", 0)),
        ("[::]:5510", ("::", 5510)),
        ("[fe80::fc:ff:fe00:1%eth0]:80", ("fe80::fc:ff:fe00:1%eth0", 80)),
        ("[::ffff:10.0.0.7]:80", ("::ffff:10.0.0.7", 80)),
        ("10.0.0.7:80", ("10.0.0.7", 80)),
        ("servers.jobs.svc:80", ("servers.jobs.svc", 80)),
    ],
)
def test_an_address_is_split_and_joined(address, place):
    assert parsed(address) == place
    assert joined(place) == address.removeprefix("tcp://")
    assert parsed(spelled(place)) == place


@pytest.mark.parametrize(
    ("address", "remedy"),
    [
        ("::1:5000", r"write \[::1\]:5000"),
        ("tcp://::1:5000", r"write \[::1\]:5000"),
        (":::5000", r"write \[::\]:5000"),
        ("fe80::1%eth0:5000", r"write \[fe80::1%eth0\]:5000"),
        ("::1", r"write \[::1\]:PORT"),
        ("fd00:1:2:3:4:5:6:7", r"write \[fd00:1:2:3:4:5:6:7\]:PORT"),
        *((bad, r"write host:port, such as .*\[fd00::7\]:5510") for bad in ("[::1]", "[::1]:", "[::1]:x", "[::1]:70000")),
        *((bad, "write host:port") for bad in ("[]:5", "[::1:5", "::1]:5", "[10.0.0.7]:5", "[host]:5", "[[::1]]:5", "[::g]:5")),
        *(
            (bad, "write host:port")
            for bad in ("a[b:5", "[::1]5", "[::1]x:5", "x[::1]:5", "[::1%a/b]:5", "[::1%]:5", "[::1%\0]:5")
        ),
    ],
)
def test_what_is_no_address_names_the_remedy(address, remedy):
    for use in (lambda: connect(address, codec=CODEC), lambda: serve(answer, codec=CODEC, bind=address)):
        with pytest.raises(InputError, match=remedy) as failure:
            use()
        assert repr(address) in str(failure.value)


def test_an_address_may_leave_out_the_host_only_where_there_is_a_default():
    assert parsed(":5", default_host="127.0.0.1") == ("127.0.0.1", 5)
    for address, default in ((":5", ""), ("5", "127.0.0.1"), ("", "127.0.0.1")):
        with pytest.raises(InputError, match="host:port"):
            parsed(address, default_host=default)
    with pytest.raises(InputError, match=r"'\[::1\]:0' names no port"):
        parsed_peer("[::1]:0")


@pytest.mark.parametrize(
    ("host", "alone"),
    [("127.0.0.1", True), ("::1", True), ("::", False), ("0.0.0.0", False), ("fe80::1%eth0", False), ("localhost", False)],
)
def test_what_only_this_host_reaches(host, alone):
    assert is_loopback_host(host) is alone


@needs_ipv6
@pytest.mark.parametrize("bind", ["[::1]:0", "tcp://[::1]:0", "[0:0:0:0:0:0:0:1]:0"])
def test_the_loopback_of_ipv6_needs_no_token(bind):
    with serve(answer, codec=CODEC, bind=bind) as listener:
        assert listener.address.startswith("tcp://[::1]:")
        with connect(listener.address, codec=CODEC) as channel:
            assert channel.call(LocateRequest(node_type="node", raw=torch.tensor([1]))).gid.tolist() == [2]
            assert channel.address == listener.address
        with pytest.raises(TransportError, match=r"cannot listen on \[::1\]:\d+: Address already in use"):
            serve(answer, codec=CODEC, bind=listener.address)


@needs_ipv6
def test_all_interfaces_of_ipv6_need_a_token_and_let_ipv4_in():
    with pytest.raises(InputError, match=r"listening on \[::\]:0 lets other hosts in.*HALOHOP_TOKEN"):
        serve(answer, codec=CODEC, bind="[::]:0")
    with serve(answer, codec=CODEC, bind="[::]:0", token=TOKEN) as listener:
        host, port = parsed(listener.address)
        assert host == "::"
        for near in ("[::1]", "127.0.0.1") if socket.has_dualstack_ipv6() else ("[::1]",):
            with connect(f"{near}:{port}", codec=CODEC, token=TOKEN) as channel:
                assert channel.call(LocateRequest(node_type="node", raw=torch.tensor([1]))).gid.tolist() == [2]


@needs_ipv6
def test_a_link_local_address_with_its_interface():
    host = next(iter(link_local_hosts()), None)
    if host is None:
        pytest.skip("no interface of this machine has a link-local address")
    with serve(answer, codec=CODEC, bind=f"[{host}]:0", token=Token("a token that tests share", encrypt=True)) as listener:
        assert parsed(listener.address)[0] == host
        with connect(listener.address, codec=CODEC, token=Token("a token that tests share", encrypt=True)) as channel:
            assert channel.call(LocateRequest(node_type="node", raw=torch.tensor([1]))).gid.tolist() == [2]


@needs_ipv6
def test_an_address_of_another_host_is_named():
    with pytest.raises(TransportError, match=r"cannot listen on \[2001:db8::7\]:0: .* address of this host"):
        serve(answer, codec=CODEC, token=TOKEN, bind="[2001:db8::7]:0")


def test_a_name_with_addresses_of_both_kinds_listens_with_ipv4(monkeypatch):
    found = [(socket.AF_INET6, 1, 6, "", ("::1", 0, 0, 0)), (socket.AF_INET, 1, 6, "", ("127.0.0.1", 0))]
    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        listener = serve(answer, codec=CODEC, bind="both:0")
    with listener:
        assert parsed(listener.address)[0] == "127.0.0.1"
