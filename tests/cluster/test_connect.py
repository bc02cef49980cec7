"""Trainers that hold no graph, and servers that come, go, and stand in for each other."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import torch

import halohop
from halohop import NeighborLoader, partition
from halohop.cluster.graph import Graph
from halohop.cluster.serve import Server
from halohop.errors import AuthenticationError, ClusterError, InputError, PeerLostError, TransportError
from halohop.testing.graphs import ring
from halohop.testing.worlds import TOKEN
from halohop.transport import Limits, Token

LIMITS = Limits(call_seconds=30, attempt_seconds=2, connect_seconds=20)


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("connect") / "parts"
    partition(ring(400), path, num_parts=3, method="random")
    return path


@contextmanager
def served(parts: Path, *shares: tuple[int, ...] | None) -> Iterator[list[Server]]:
    with ExitStack() as stack:
        yield [stack.enter_context(halohop.serve(parts, partitions=share, token=TOKEN, limits=LIMITS)) for share in shares]


def connected(servers: list[Server], **options) -> Graph:
    return halohop.connect([server.address for server in servers], token=TOKEN, limits=LIMITS, **options)


def loader(graph: Graph, **options) -> NeighborLoader:
    return NeighborLoader(graph, [3, 2], batch_size=50, shuffle=True, seed=5, **options)


def told(batches) -> list[tuple]:
    return [(batch.n_id.tolist(), batch.e_id.tolist(), batch.x.flatten().tolist()) for batch in batches]


@pytest.fixture(scope="module")
def undisturbed(parts) -> list[tuple]:
    with halohop.open(parts) as graph:
        return told(loader(graph, run="inline"))


@pytest.mark.parametrize("shares", [[None], [(0,), (1, 2)], [(2,), (0,), (1,)], [(0, 1), (1, 2), (0, 2)], [None, None]], ids=str)
@pytest.mark.parametrize("run", ["inline", "threads"])
def test_batches_are_those_of_the_opened_graph(parts, undisturbed, shares, run):
    with served(parts, *shares) as servers, connected(servers) as graph:
        assert told(loader(graph, run=run, num_workers=None if run == "inline" else 3)) == undisturbed
        statistics = graph.statistics()
        assert statistics["local_rows"] == 0 < statistics["remote_rows"]
        raw = torch.tensor([17, 3, 3])
        assert graph.select("train")[1].tolist() == sorted(graph.select("train")[1].tolist())
        with halohop.open(parts) as here:
            assert torch.equal(graph.locate(raw), here.locate(raw))


def test_several_clients_at_a_time(parts, undisturbed):
    with served(parts, (0, 1), (2,)) as servers, ExitStack() as stack:
        graphs = [stack.enter_context(connected(servers)) for _ in range(3)]
        iterators = [iter(loader(graph, run="threads", num_workers=2)) for graph in graphs]
        for expected in undisturbed:
            for iterator in iterators:
                assert told([next(iterator)]) == [expected]


def test_a_lost_server_is_stood_in_for_at_once(parts, undisturbed):
    """Every partition has two servers; one goes in mid-epoch. The other takes over long before any deadline."""
    with served(parts, None, (0, 1), (2,)) as servers, connected(servers) as graph:
        got = []
        for number, batch in enumerate(loader(graph, run="threads", num_workers=2)):
            got.append(batch)
            if number == 1:
                servers[0].close()
        assert told(got) == undisturbed


def test_a_server_that_comes_back_is_found_again(parts, undisturbed):
    with served(parts, (0,), (1, 2)) as servers, connected(servers) as graph:
        got = []
        for number, batch in enumerate(loader(graph, run="threads", num_workers=2)):
            got.append(batch)
            if number == 2:
                address = servers[0].address
                servers[0].close()
                servers[0] = halohop.serve(parts, partitions=[0], listen=address, token=TOKEN, limits=LIMITS)
        servers[0].close()
        assert told(got) == undisturbed


def test_servers_may_start_later(parts, undisturbed):
    with served(parts, (0,), (1, 2)) as servers:
        addresses = [server.address for server in servers]
        servers[1].close()
        late: list[Server] = []

        def start() -> None:
            late.append(halohop.serve(parts, partitions=(1, 2), listen=addresses[1], token=TOKEN, limits=LIMITS))

        timer = threading.Timer(1.0, start)
        timer.start()
        with halohop.connect(addresses, token=TOKEN, limits=LIMITS) as graph:
            timer.join()
            assert told(loader(graph, run="inline")) == undisturbed
        late[0].close()


def test_servers_outlive_their_clients(parts, undisturbed):
    with served(parts, None) as servers:
        for _ in range(3):
            with connected(servers) as graph:
                iterator = iter(loader(graph, run="threads", num_workers=2))
                assert told([next(iterator)]) == undisturbed[:1]
        with connected(servers) as graph:
            assert told(loader(graph)) == undisturbed


def test_what_does_not_fit_together_is_refused(parts, tmp_path):
    partition(ring(400), tmp_path / "other", num_parts=2, method="random", seed=1)
    with served(parts, (0,), (1,)) as servers:
        with pytest.raises(ClusterError, match=r"partitions \[2\] of 3 are held by no host"):
            connected(servers)
        with served(tmp_path / "other", None) as others, pytest.raises(ClusterError, match="another data set"):
            connected([*servers, *others])
        with pytest.raises(AuthenticationError, match="server 0"):
            halohop.connect([servers[0].address], token=Token("another token than theirs"), limits=LIMITS)


def test_a_server_that_does_not_come_is_named(parts):
    with served(parts, (0, 1, 2)) as servers:
        address = servers[0].address
    with pytest.raises(PeerLostError, match=f"server 0.*{address}.*could not be reached"):
        halohop.connect([address], token=TOKEN, limits=LIMITS, deadline=1.0)


@pytest.mark.parametrize("servers", ["localhost:1", [], ["nowhere"], ["localhost:0"]])
def test_what_is_no_list_of_addresses_is_refused(servers):
    with pytest.raises(InputError, match="address"):
        halohop.connect(servers, token=TOKEN)


def test_strangers_are_not_invited(parts, monkeypatch, tmp_path):
    monkeypatch.delenv("HALOHOP_TOKEN", raising=False)
    with pytest.raises(InputError, match="needs a token"):
        halohop.serve(parts, listen="0.0.0.0:0")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "manifest.json").write_bytes((parts / "manifest.json").read_bytes())
    with pytest.raises(InputError, match="no partition"):
        halohop.serve(tmp_path / "empty")
    with pytest.raises(InputError, match=r"partitions \[7\]"):
        halohop.serve(parts, partitions=[7])
    with served(parts, None) as servers, pytest.raises(TransportError, match="cannot listen"):
        halohop.serve(parts, listen=servers[0].address, token=TOKEN)
