"""Servers, clients and ranks that reach each other with IPv6."""

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import halohop
from halohop.collectives import free_port
from halohop.errors import ClusterError, InputError, PeerLostError
from halohop.loading.metrics import address_of, scrape
from halohop.net.board import join_board, master_of
from halohop.net.finders import Folder, Listed, Name
from halohop.net.interfaces import address_towards, is_loopback, own_address, reached_at
from halohop.recipes.checks import servers_of
from halohop.testing.graphs import ring
from halohop.testing.worlds import TOKEN
from halohop.transport import Limits
from halohop.transport.addresses import joined, parsed
from halohop.world import World
from tests.support.ipv6 import needs_ipv6

LIMITS = Limits(call_seconds=20, attempt_seconds=0.3, connect_seconds=20)


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ipv6") / "parts"
    halohop.partition(ring(400), path, num_parts=2, method="random")
    return path


def rows(graph: halohop.Graph) -> list[tuple]:
    loader = halohop.NeighborLoader(graph, [3, 2], batch_size=50, shuffle=True, seed=5, run="inline")
    return [(batch.n_id.tolist(), batch.e_id.tolist(), batch.x.flatten().tolist()) for batch in loader]


@needs_ipv6
def test_batches_of_servers_with_ipv6_are_the_same(parts):
    """One server knows the other as its peer, and the client is given the address of that one alone."""
    with halohop.open(parts) as whole:
        expected = rows(whole)
    options = {"token": TOKEN, "limits": LIMITS}
    with (
        halohop.serve(parts, partitions=[0], listen="[::1]:0", **options) as first,
        halohop.serve(parts, partitions=[1], listen="tcp://[::1]:0", peers=[first.address], **options) as second,
        halohop.connect([second.address], sampling="client", first=second.address, deadline=20, **options) as graph,
    ):
        assert first.address.startswith("tcp://[::1]:")
        assert rows(graph) == expected


@needs_ipv6
def test_a_server_at_all_interfaces_leaves_an_address_that_is_found(parts, tmp_path, monkeypatch):
    """Where no way leads out with IPv4, it is that with IPv6."""
    finder = Folder(path=tmp_path / "servers")
    monkeypatch.setattr("halohop.net.directory._OUTSIDE", ("no such host.invalid", "::1"))
    with (
        halohop.serve(parts, listen="[::]:0", peers=finder, token=TOKEN, limits=LIMITS) as server,
        halohop.connect(finder, token=TOKEN, limits=LIMITS, deadline=20) as graph,
    ):
        assert finder() == [f"[::1]:{parsed(server.address)[1]}"]
        assert len(rows(graph)) == 8


@needs_ipv6
def test_ranks_meet_at_an_address_of_ipv6(parts):
    master = f"[::1]:{free_port('::1')}"
    with halohop.open(parts) as whole:
        expected = rows(whole)
    options = {"master": master, "deadline": 30, "token": TOKEN}

    def rank(number: int) -> list[tuple]:
        world = World(rank=number, size=2)
        with halohop.open(parts, partitions=[number], world=world, **options) as graph:
            return rows(graph)

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(rank, range(2), timeout=60)) == [expected] * 2


@pytest.mark.parametrize("bad", ["::1:5000", "tcp://::1:5000"])
def test_an_address_without_brackets_names_the_remedy_everywhere(parts, bad):
    remedy = r"write \[::1\]:5000"
    for use in (
        lambda: halohop.serve(parts, listen=bad),
        lambda: halohop.serve(parts, peers=[bad], token=TOKEN),
        lambda: halohop.connect([bad]),
        lambda: halohop.connect(servers_of(bad)),
        lambda: halohop.connect(Listed(addresses=(bad,))),
        lambda: halohop.open(parts, partitions=[0], world=World(rank=0, size=2), master=bad),
        lambda: address_of(bad),
    ):
        with pytest.raises(InputError, match=remedy):
            use()


def test_the_store_of_a_master_with_ipv6_is_named():
    assert master_of("[::1]:29500") == ("::1", 29500)
    with pytest.raises(ClusterError, match=r"no store answers at \[::1\]:1 within 1 s"):
        join_board(("::1", 1), rank=1, deadline=1.0)


@needs_ipv6
def test_where_another_host_reaches_this_one(monkeypatch):
    assert reached_at("[fd00::7]:5510", "10.0.0.8") == "[fd00::7]:5510"
    assert reached_at("[::]:5510", "::1") == "[::1]:5510"
    assert reached_at("[::]:5510", "127.0.0.1") == "127.0.0.1:5510"
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    for listens, towards in (("[::]:5510", "127.0.0.1"), ("0.0.0.0:5510", "::1")):
        with pytest.raises(socket.gaierror):
            reached_at(listens, towards)
    assert address_towards("::1") == own_address("::1") == "::1"


def test_what_only_this_host_reaches_with_ipv6():
    assert is_loopback("[::1]:0")
    assert is_loopback("tcp://[::1]:5")
    assert not is_loopback("[::]:5")
    assert not is_loopback("[fe80::1%eth0]:5")


def test_a_name_is_its_addresses_of_both_kinds_each_once(monkeypatch):
    fourth, sixth = (socket.AF_INET, ("10.0.0.1", 5510)), (socket.AF_INET6, ("fd00::1", 5510, 0, 0))

    def resolve(*_, family=0, **__):
        return [(kind, None, None, None, place) for kind, place in (fourth, sixth, fourth) if family in (0, kind)]

    monkeypatch.setattr("socket.getaddrinfo", resolve)
    assert Name(host="servers", port=5510)() == ["10.0.0.1:5510", "[fd00::1]:5510"]


@needs_ipv6
def test_metrics_are_read_with_ipv6(parts):
    with halohop.open(parts) as graph, halohop.metrics(graph, listen="[::1]:0") as endpoint:
        host, port = parsed(endpoint.address)
        assert (host, endpoint.address) == ("::1", f"[::1]:{port}")
        assert "pool_made" in scrape(endpoint.address).sums
    assert joined(address_of("[::1]:9464", ahead=2)) == "[::1]:9466"


def test_servers_with_ipv6_are_told_from_folders():
    for servers in ("[::1]:5510", "tcp://[::1]:5510", "[fe80::1%eth0]:5510", "::1:5510"):
        assert servers_of(f"{servers},10.0.0.7:5510") == (servers, "10.0.0.7:5510")
    for folder in ("./[a]:1", "[a]/b:1", "runs/parts", "pyg:Amazon/Computers?root=data"):
        assert servers_of(folder) == ()


def test_a_name_that_is_slow_to_resolve_does_not_hold_up_calls_to_another_server(parts, monkeypatch):
    """The server that is there answers all the while; the other one is missed after an attempt's time."""
    resolve, released = socket.getaddrinfo, threading.Event()

    def slow(host, *rest, **options):
        if host == "slow.test" and not options.get("flags"):
            assert released.wait(60)
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return resolve(host, *rest, **options)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    try:
        with halohop.serve(parts, listen="127.0.0.1:0", limits=LIMITS) as server:
            with halohop.connect(["slow.test:5510", server.address], limits=LIMITS, deadline=10) as graph:
                assert len(rows(graph)) == 8
            with pytest.raises(PeerLostError, match=r"'slow\.test' was not resolved in time"):
                halohop.connect(["slow.test:5510"], limits=LIMITS, deadline=1)
    finally:
        released.set()
