"""Trainers that hold no graph, and servers that come, go, and stand in for each other."""

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import halohop
from halohop import NeighborLoader, partition
from halohop.cluster.graph import Graph
from halohop.cluster.holding import Holding
from halohop.errors import (
    AuthenticationError,
    ClusterError,
    IncompleteDatasetError,
    InputError,
    PeerLostError,
    RemoteError,
    TransportError,
)
from halohop.net.serve import Server
from halohop.store.manifest import part_folder
from halohop.testing.graphs import ring
from halohop.testing.worlds import TOKEN, environment, free_addresses
from halohop.transport import Limits, Token
from tests.support.deadlines import within
from tests.support.strangers import wait_for

LIMITS = Limits(call_seconds=30, attempt_seconds=2, connect_seconds=20)


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("connect") / "parts"
    partition(ring(400), path, num_parts=3, method="random")
    return path


@pytest.fixture(scope="module")
def other_parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another data set of the same shape."""
    path = tmp_path_factory.mktemp("other") / "parts"
    partition(ring(400), path, num_parts=3, method="random", seed=1)
    return path


@contextmanager
def served(parts: Path, *shares: tuple[int, ...] | None) -> Iterator[list[Server]]:
    with ExitStack() as stack:
        addresses = free_addresses(len(shares))
        yield [
            stack.enter_context(
                halohop.serve(
                    parts, partitions=share, listen=address, peers=others(addresses, address), token=TOKEN, limits=LIMITS
                )
            )
            for share, address in zip(shares, addresses, strict=True)
        ]


def others(addresses: list[str], own: str) -> list[str]:
    return [address for address in addresses if address != own]


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
@pytest.mark.parametrize("sampling", ["client", "servers"])
@pytest.mark.parametrize("run", ["inline", "threads"])
def test_batches_are_those_of_the_opened_graph(parts, undisturbed, shares, run, sampling):
    with served(parts, *shares) as servers, connected(servers, sampling=sampling) as graph:
        assert told(loader(graph, run=run, num_workers=None if run == "inline" else 3)) == undisturbed
        statistics = graph.statistics()
        assert statistics["local_rows"] == 0
        assert (statistics["remote_rows"] > 0) == (sampling == "client")
        assert sum(server.statistics().get("batches", 0) for server in servers) == len(undisturbed) * (sampling == "servers")
        for counted in ("draw_calls", "load_calls", "gather_calls"):  # by the partitions themselves
            assert sum(server.statistics().get(counted, 0) for server in servers) >= len(undisturbed)
        raw = torch.tensor([17, 3, 3])
        assert graph.select("train")[1].tolist() == sorted(graph.select("train")[1].tolist())
        with halohop.open(parts) as here:
            assert torch.equal(graph.locate(raw), here.locate(raw))


@pytest.mark.parametrize(
    ("here", "run"),
    [((1,), "inline"), ((0, 2), "threads"), ((0, 1, 2), "inline"), ((0, 1, 2), "processes"), ((), "inline")],
    ids=str,
)
def test_partitions_in_a_folder_of_this_host_are_read_there(parts, undisturbed, tmp_path, here, run):
    shutil.copytree(parts, tmp_path / "mine")
    for part in {0, 1, 2} - {*here}:
        shutil.rmtree(tmp_path / "mine" / part_folder(part))
    with served(parts, (0, 1), (2,)) as servers, connected(servers, sampling="client", folder=tmp_path / "mine") as graph:
        assert told(loader(graph, run=run, num_workers=2)) == undisturbed
        assert sorted(graph.parts_here) == [*here]
        if run != "processes":
            assert (graph.statistics()["remote_rows"] > 0) == (len(here) < 3)
            assert (graph.statistics()["local_rows"] > 0) == bool(here)
        table = halohop.DistTensor(graph, (400, 2), name="table")
        table[torch.arange(400)] = torch.arange(800.0).view(400, 2)
        assert torch.equal(table[torch.tensor([399, 0])], torch.tensor([[798.0, 799.0], [0.0, 1.0]]))


def test_a_folder_of_another_data_set_or_for_servers_that_sample_is_refused(parts, other_parts, tmp_path):
    with served(parts, None) as servers:
        with pytest.raises(ClusterError, match="serves another data set than the others"):
            connected(servers, sampling="client", folder=other_parts)
        with pytest.raises(InputError, match="is of use where batches are made here; pass sampling='client', or leave it out"):
            connected(servers, folder=parts)
        with pytest.raises(IncompleteDatasetError, match=r"has no manifest\.json"):
            connected(servers, sampling="client", folder=tmp_path)


@pytest.mark.parametrize("sampling", ["client", "servers"])
def test_one_connection_to_each_server(parts, undisturbed, sampling):
    """For rows, batches and meetings alike; servers among each other have one, too."""
    with served(parts, (0,), (1,), (2,), (0, 1)) as servers:
        before = {thread.ident for thread in threading.enumerate()}
        with connected(servers, sampling=sampling) as graph:
            assert told(loader(graph, run="inline")) == undisturbed
            graph.check_peers()
            new = [thread.name for thread in threading.enumerate() if thread.ident not in before]
            to_servers = [name for name in new if name.startswith("halohop-channel-server")]
            assert set(graph.statistics_by_peer()) == {f"server {number}" for number in range(4)}
            assert sum(graph.statistics_by_peer()[f"server {number}"]["connections"] for number in range(4)) == 4
            assert len(to_servers) == 4, new
        # Of the client, and of the three others; those may have begun late.
        assert wait_for(lambda: [server.statistics()["transport_sessions"] for server in servers] == [4, 4, 4, 4])


def test_several_clients_at_a_time(parts, undisturbed):
    with served(parts, (0, 1), (2,)) as servers, ExitStack() as stack:
        graphs = [stack.enter_context(connected(servers)) for _ in range(3)]
        iterators = [iter(loader(graph, run="threads", num_workers=2)) for graph in graphs]
        for expected in undisturbed:
            for iterator in iterators:
                assert told([next(iterator)]) == [expected]


@pytest.mark.parametrize("sampling", ["client", "servers"])
def test_a_lost_server_is_stood_in_for_at_once(parts, undisturbed, sampling):
    """Every partition has two servers; one goes in mid-epoch. The other takes over long before any deadline."""
    with served(parts, None, (0, 1), (2,)) as servers, connected(servers, sampling=sampling) as graph:
        got = []
        for number, batch in enumerate(loader(graph, run="threads", num_workers=2)):
            got.append(batch)
            if number == 1:
                servers[0].close()
        assert told(got) == undisturbed


def test_a_lost_server_is_named_by_the_one_that_needed_it(parts):
    """Servers make the batches, and one is lost: the trainer asks the other, which answers, but cannot do without it."""
    short = replace(LIMITS, call_seconds=2, attempt_seconds=0.5)
    first, other = free_addresses(2)
    with ExitStack() as stack:
        servers = [
            stack.enter_context(halohop.serve(parts, partitions=share, listen=own, peers=[peer], token=TOKEN, limits=short))
            for share, own, peer in (((0,), first, other), ((1, 2), other, first))
        ]
        graph = stack.enter_context(halohop.connect([first, other], token=TOKEN, limits=short))
        batches = iter(loader(graph, run="inline"))
        next(batches), next(batches)  # both have made one, and know each other
        servers[1].close()
        with pytest.raises(
            PeerLostError,
            match=rf"peer 'server 0' at .*{first}.* waited for another: .*peer 'server {other}' at \S*{other} went away",
        ) as caught:
            list(batches)
        assert isinstance(caught.value.__cause__, RemoteError)


@pytest.mark.parametrize("sampling", ["client", "servers"])
def test_a_server_that_comes_back_is_found_again(parts, undisturbed, sampling):
    with served(parts, (0,), (1, 2)) as servers, connected(servers, sampling=sampling) as graph:
        got = []
        for number, batch in enumerate(loader(graph, run="threads", num_workers=2)):
            got.append(batch)
            if number == 2:
                address = servers[0].address
                servers[0].close()
                peers = [servers[1].address]
                servers[0] = halohop.serve(parts, partitions=[0], listen=address, peers=peers, token=TOKEN, limits=LIMITS)
        servers[0].close()
        assert told(got) == undisturbed


@pytest.mark.parametrize("sampling", ["client", "servers"])
@pytest.mark.parametrize("encrypt", [False, True])
def test_another_data_set_at_a_lost_servers_address_is_not_believed(parts, other_parts, sampling, encrypt):
    """In mid-epoch: its rows are of the same shapes."""
    limits, token = Limits(call_seconds=2, attempt_seconds=0.5), Token(TOKEN.key, encrypt=encrypt)
    with halohop.serve(parts, token=token) as server:
        address = server.address
        graph = halohop.connect([address], token=token, limits=limits, sampling=sampling)
        batches = iter(loader(graph, run="inline"))
        next(batches)
    with graph, halohop.serve(other_parts, listen=address, token=token) as other:
        named = [rf"data set {Holding.of(path).fingerprint} with partitions \[0, 1, 2\]" for path in (other_parts, parts)]
        named[1] = named[1] if sampling == "client" else named[1].partition(" with")[0]
        with pytest.raises(PeerLostError, match=f"'server 0'.*{named[0]} answers there, where a server of {named[1]}"):
            next(batches)
        assert other.statistics()["transport_calls"] == 0


@pytest.mark.parametrize("sampling", ["client", "servers"])
def test_another_data_set_at_a_stand_ins_address_is_passed_over(parts, other_parts, undisturbed, sampling):
    """The next server in turn is the wrong one; behind it the first is back. A client that has just found the wrong one's address
    closed may not look there again, so there are some tries."""
    assert any(sessions_of_a_wrong_stand_in(parts, other_parts, undisturbed, sampling) for _ in range(10))


def sessions_of_a_wrong_stand_in(parts, other_parts, undisturbed, sampling) -> float:
    """How often clients have looked at the wrong server. They ask it nothing, and their batches are the same."""
    with served(parts, None, None) as servers, connected(servers, sampling=sampling) as graph:
        batches = iter(loader(graph, run="inline"))  # no batch is made ahead of the changes
        got = [next(batches)]
        servers[1].close()
        with halohop.serve(other_parts, listen=servers[1].address, token=TOKEN) as other:
            servers[0].close()
            with halohop.serve(parts, listen=servers[0].address, token=TOKEN):
                got += batches
            found = other.statistics()
        assert found["transport_calls"] == 0
        assert told(got) == undisturbed
        return found["transport_sessions"]


def test_a_server_that_comes_back_with_other_partitions_is_not_asked(parts):
    limits = Limits(call_seconds=2, attempt_seconds=0.5)
    with served(parts, (0,), (1, 2)) as servers:
        addresses = [server.address for server in servers]
        with halohop.connect(addresses, token=TOKEN, limits=limits, sampling="client") as graph:
            servers[1].close()
            with (
                halohop.serve(parts, partitions=[2], listen=addresses[1], token=TOKEN),
                pytest.raises(PeerLostError, match=r"'server 1'.*partitions \[2\] answers there.*partitions \[1, 2\] was"),
            ):
                list(loader(graph, run="inline"))


@pytest.mark.parametrize("sampling", ["client", "servers"])
def test_a_server_that_is_not_needed_is_not_waited_for(parts, undisturbed, sampling, caplog):
    """One of three is down from the beginning: trainers connect, and servers find each other, without it."""
    with served(parts, None, (0, 1), (2,)) as servers:
        servers[0].close()
        with connected(servers, sampling=sampling) as graph:
            assert told(loader(graph, run="threads", num_workers=2)) == undisturbed
        assert f"going on without {servers[0].address}" in caplog.text


@pytest.mark.parametrize("sampling", ["client", "servers"])
def test_a_server_that_ends_well_answers_what_it_was_asked(parts, undisturbed, sampling):
    """In mid-epoch its clients turn to the other one; all go on, none waits for a deadline, and none comes any more."""
    short = replace(LIMITS, call_seconds=8, connect_seconds=8)
    with served(parts, None, None) as servers:
        addresses = [server.address for server in servers]
        with halohop.connect(addresses, token=TOKEN, limits=short, sampling=sampling) as graph:
            got = []
            for number, batch in enumerate(loader(graph, run="threads", num_workers=3)):
                got.append(batch)
                if number == 1:
                    assert servers[0].is_ready
                    assert servers[0].drain(20)
                    assert not servers[0].is_ready
                    answered = servers[0].statistics()["transport_calls"]
            assert told(got) == undisturbed
            assert servers[0].statistics()["transport_calls"] == answered
            with pytest.raises(PeerLostError, match="refused"):
                halohop.connect(addresses[:1], token=TOKEN, limits=LIMITS, deadline=within(0.5))


def test_servers_may_start_later(parts, undisturbed):
    with served(parts, (0,), (1, 2)) as servers:
        addresses = [server.address for server in servers]
        servers[1].close()
        late: list[Server] = []

        def start() -> None:
            peers = [addresses[0]]
            options = {"listen": addresses[1], "peers": peers, "token": TOKEN, "limits": LIMITS}
            late.append(halohop.serve(parts, partitions=(1, 2), **options))

        timer = threading.Timer(1.0, start)
        timer.start()
        with halohop.connect(addresses, token=TOKEN, limits=LIMITS) as graph:
            timer.join()
            assert told(loader(graph, run="inline")) == undisturbed
        late[0].close()


def test_a_server_that_is_only_heard_of_may_start_later(parts, undisturbed):
    """A trainer knows the server of one partition, and the others have not started yet: it waits until that one knows them."""
    quick = replace(LIMITS, attempt_seconds=0.5)
    first, other = free_addresses(2)
    with ExitStack() as stack:

        def serve(share: tuple[int, ...], address: str, peer: str) -> None:
            options = {"listen": address, "peers": [peer], "token": TOKEN, "limits": quick}
            stack.enter_context(halohop.serve(parts, partitions=share, **options))

        serve((0,), first, other)
        timer = threading.Timer(1.0, serve, ((1, 2), other, first))
        timer.start()
        with halohop.connect([first], token=TOKEN, limits=quick, deadline=30) as graph:
            timer.join()
            assert told(loader(graph, run="inline")) == undisturbed


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
    (free,) = free_addresses(1)
    with served(parts, (0,), (1,)) as servers:
        first, second = (server.address for server in servers)
        seconds = within(0.5)  # on a busy machine servers take a while to say what they serve
        expected = rf"partitions \[2\] were found at no server within {seconds:g} s: "
        expected += rf".*{first} serves \[0\], .*{second} serves \[1\];"
        with pytest.raises(ClusterError, match=expected):
            connected(servers, deadline=seconds)
        with pytest.raises(PeerLostError, match=rf"partitions \[2\] were found .*{free} does not answer"):
            halohop.connect([first, second, free], token=TOKEN, limits=LIMITS, deadline=seconds)
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


CLIENT = """
import sys
import halohop, torch
graph = halohop.connect(sys.argv[1:])
loader = halohop.NeighborLoader(graph, [3, 2], "train", batch_size=50, num_workers=2)
assert sum(batch.batch_size for batch in loader) > 100
graph.close()
"""


@pytest.mark.full
def test_trainers_without_a_graph_compile_what_picks_seeds_alone(parts, tmp_path):
    with served(parts, (0,), (1, 2)) as servers:
        variables = environment() | {"NUMBA_CACHE_DIR": str(tmp_path / "compiled")}
        command = [sys.executable, "-c", CLIENT, *(server.address for server in servers)]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    compiled = {file.name.split("-")[0] for file in tmp_path.rglob("*") if file.is_file()}
    assert [name for name in compiled if not name.startswith(("cpu_index.gather", "cpu_index._"))] == []


def test_a_server_that_cannot_sample_says_why(parts):
    with ExitStack() as stack:
        servers = [
            stack.enter_context(halohop.serve(parts, partitions=share, token=TOKEN, limits=LIMITS)) for share in ((0,), (1, 2))
        ]
        graph = stack.enter_context(connected(servers))
        with pytest.raises(InputError, match=r"server 0 at .* holds partitions \[0\] of 3 .*--peers.*--sampling client"):
            loader(graph)
        with connected(servers, sampling="client") as other:
            next(iter(loader(other)))
