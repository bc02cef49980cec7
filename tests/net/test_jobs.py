"""Servers that know their clients' jobs."""

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import halohop
from halohop import Graph, LinkNeighborLoader, NeighborLoader, World
from halohop.errors import ClusterError, InputError
from halohop.net.serve import Server
from halohop.net.service import Keeping
from halohop.testing.graphs import ring
from halohop.testing.worlds import TOKEN, free_addresses
from halohop.transport import Limits
from tests.support.deadlines import within

LIMITS = Limits(call_seconds=30, attempt_seconds=1, connect_seconds=20)
SEEDS = torch.arange(0, 400, 4)


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("jobs") / "parts"
    halohop.partition(ring(400), path, num_parts=2, method="random")
    return path


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("jobs") / "seeds"
    (path / "papers").mkdir(parents=True)
    np.save(path / "papers" / "train.npy", SEEDS.numpy())
    np.save(path / "links.npy", np.stack([np.arange(50), np.arange(1, 51)]))
    np.save(path.parent / "secret.npy", np.arange(3))
    return path


Start = Callable[..., list[Server]]


@pytest.fixture
def start(parts: Path) -> Iterator[Start]:
    """Starts servers, each with some partitions; they know each other."""
    with ExitStack() as stack:

        def begin(*shares: list[int], lease: float = 60.0, **options: Any) -> list[Server]:
            addresses = free_addresses(len(shares))
            return [
                stack.enter_context(
                    halohop.serve(
                        parts,
                        partitions=share,
                        listen=address,
                        peers=[other for other in addresses if other != address],
                        token=TOKEN,
                        limits=LIMITS,
                        keeping=Keeping(lease_seconds=lease),
                        **options,
                    )
                )
                for share, address in zip(shares, addresses, strict=True)
            ]

        yield begin


@contextmanager
def clients_of(servers: list[Server], count: int, **options: Any) -> Iterator[list[Graph]]:
    with ExitStack() as stack:
        addresses = [server.address for server in servers]
        yield [stack.enter_context(halohop.connect(addresses, token=TOKEN, limits=LIMITS, **options)) for _ in range(count)]


@pytest.mark.parametrize("sampling", ["servers", "client"])
def test_clients_share_a_list(start: Start, seeds: Path, parts: Path, sampling: str) -> None:
    """Equal numbers of steps, each seed once an epoch, and the batches that ranks of a world get."""
    servers = start([0], [1], seeds=seeds)
    options = {"batch_size": 9, "shuffle": True, "seed": 3}
    with clients_of(servers, 3, sampling=sampling) as graphs, halohop.open(parts) as whole:
        worlds = [graph.join("papers", clients=3) for graph in graphs]
        assert sorted(world.rank for world in worlds) == [0, 1, 2]
        loaders = [
            NeighborLoader(graph, [2], graph.seed_file("papers/train.npy"), world=world, **options)
            for graph, world in zip(graphs, worlds, strict=True)
        ]
        assert len({len(loader) for loader in loaders}) == 1
        for _ in range(2):
            dealt = [list(loader) for loader in loaders]
            taken = torch.cat([batch.n_id[: batch.batch_size] for batches in dealt for batch in batches])
            assert sorted(taken.tolist()) == SEEDS.tolist()
        expected = NeighborLoader(whole, [2], SEEDS, world=World(rank=worlds[2].rank, size=3), **options)
        expected.set_epoch(1)
        assert [batch.n_id.tolist() for batch in dealt[2]] == [batch.n_id.tolist() for batch in expected]


def test_files_of_edges_and_stored_splits(start: Start, seeds: Path) -> None:
    (server,) = start([0, 1], seeds=seeds)
    with clients_of([server], 1) as (graph,):
        links = LinkNeighborLoader(graph, [1], graph.seed_file("links.npy"), batch_size=50)
        assert next(iter(links)).edge_label_index.shape == (2, 50)
        assert len(graph.select()[1]) == 400


def test_a_file_of_any_server(start: Start, seeds: Path, parts: Path) -> None:
    """Only one of them names a folder."""
    (without,) = start([0])
    (named,) = start([1], seeds=seeds)
    with clients_of([without, named], 1, sampling="client") as (graph,):
        assert graph.seed_file("papers/train.npy").tolist() == SEEDS.tolist()
        with pytest.raises(InputError, match=r"this server has no folder of them.*; there is no seed file 'other\.npy'"):
            graph.seed_file("other.npy")


@pytest.mark.parametrize("file", ["../secret.npy", "papers/../../secret.npy", "{folder}/../secret.npy"])
def test_a_path_outside_of_the_folder(start: Start, seeds: Path, file: str) -> None:
    (server,) = start([0, 1], seeds=seeds)
    with (
        clients_of([server], 1) as (graph,),
        pytest.raises(InputError, match="lies outside the folder that the server names; give a path below it"),
    ):
        graph.seed_file(file.format(folder=seeds))


def test_what_a_job_refuses(start: Start) -> None:
    servers = start([0], [1])
    with clients_of(servers, 3, sampling="client") as (one, other, third):
        assert one.join("papers", clients=2, rank=1).rank == 1
        assert one.join("papers", clients=2).rank == 1  # again
        with pytest.raises(InputError, match=r"rank=1 of job 'papers' is another client's, which is there; leave it out"):
            other.join("papers", clients=2, rank=1)
        with pytest.raises(InputError, match="job 'papers' has 2 clients, but this one says 3"):
            other.join("papers", clients=3)
        assert other.join("papers", clients=2).rank == 0
        with pytest.raises(InputError, match="job 'papers' has its 2 clients"):
            third.join("papers", clients=2)
        with pytest.raises(InputError, match="give a job a name, and at least one client"):
            third.join("", clients=2)
        with pytest.raises(InputError, match="at most 300 characters and 65536 clients"):
            third.join("x" * 301, clients=2)
        other.close()
        assert third.join("papers", clients=2).rank == 0  # who leaves makes room at once


def test_a_graph_that_is_not_on_servers(parts: Path) -> None:
    with halohop.open(parts) as graph:
        with pytest.raises(InputError, match=r"this graph is not on servers.*connect to some"):
            graph.join("papers", clients=1)
        with pytest.raises(InputError, match="this graph is not on servers"):
            graph.seed_file("train.npy")


def lose(graph: Graph) -> None:
    """What a killed client does: it says nothing more, and does not leave."""
    attending: Any = graph._connections.jobs  # type: ignore[union-attr]
    attending._thread.close()
    attending._thread = None


def test_a_number_of_a_lost_client_is_the_next_ones(start: Start) -> None:
    servers = start([0], [1], lease=0.8)
    with clients_of(servers, 3, sampling="client") as (lost, other, third):
        assert lost.join("papers", clients=2, rank=0).rank == 0
        assert other.join("papers", clients=2).rank == 1
        lose(lost)
        gauge = "clients"
        wait_until(lambda: servers[0].statistics()[gauge] == 1)
        assert third.join("papers", clients=2).rank == 0
        wait_until(lambda: servers[1].statistics()[gauge] == 2)  # the others were heard of all the time


def test_a_client_that_was_too_slow_is_warned(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    (server,) = start([0, 1], lease=0.8)
    with clients_of([server], 2) as (slow, other):
        assert slow.join("papers", clients=1).rank == 0
        lose(slow)
        wait_until(lambda: server.statistics()["clients"] == 0)
        assert other.join("papers", clients=1).rank == 0
        slow._connections.jobs.begin(0.8)  # type: ignore[union-attr]
        wait_until(lambda: "this client has lost its number in a job: rank=0 of job 'papers'" in caplog.text)


def wait_until(holds: Callable[[], bool]) -> None:

    end = time.monotonic() + within(20)
    while not holds():
        assert time.monotonic() < end, "it does not come true"
        threading.Event().wait(0.05)


def test_a_server_ends_when_its_clients_are_gone(start: Start) -> None:
    """One leaves, one is lost; and both servers hear of it, whichever the clients ask."""
    servers = start([0], [1], lease=0.8, clients=2)
    with clients_of(servers, 1):
        assert not servers[0].wait(1.0)  # it is there, longer than a lease
    assert not servers[0].wait(0.5)  # another one is expected
    with clients_of(servers, 1) as (lost,):
        assert not servers[1].wait(1.0)
        lose(lost)
        assert all(server.wait(within(20)) for server in servers)


def test_all_servers_know_at_once_who_has_joined(start: Start) -> None:
    """Also those that give out no numbers, where the client is killed before it says so again."""
    servers = start([0], [1], lease=4.0, clients="jobs")
    with clients_of(servers, 1) as (graph,):
        graph.join("papers", clients=1)
        lose(graph)
        assert all(server.wait(within(20)) for server in servers)


def test_a_server_that_expects_no_number_of_clients_never_ends(start: Start) -> None:
    (server,) = start([0, 1], lease=0.2)
    with clients_of([server], 1):
        pass
    assert not server.wait(0.5)


@pytest.mark.parametrize("sampling", ["servers", "client"])
def test_which_server_is_asked_first(start: Start, sampling: str) -> None:
    """For batches and for rows of what it has; another one stands in for it where it is lost."""
    servers = start([0, 1], [0, 1], [1])
    with clients_of(servers, 1, sampling=sampling, first=servers[1].address) as (graph,):
        loader = NeighborLoader(graph, [2], torch.arange(400), batch_size=40, num_workers=1, prefetch_factor=1)
        expected = [batch.n_id.tolist() for batch in loader]
        batches = [server.statistics().get("batches", 0) for server in servers]
        asked = [server.statistics().get("local_rows", 0) for server in servers]
        assert asked[1] > 0
        assert batches[0] == batches[2] == 0
        assert asked[0] == asked[2] == 0
        servers[1].close()
        loader.set_epoch(0)
        assert [batch.n_id.tolist() for batch in loader] == expected
    with pytest.raises(InputError, match=r"first='10\.0\.0\.1:1' is none of the servers, .*give the address of one"):
        halohop.connect([servers[0].address], token=TOKEN, limits=LIMITS, first="10.0.0.1:1")


def forked(work: Callable[[], object]) -> int:
    """How a forked process ends that does some work: its exit code is 0, or the number of a signal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        child = os.fork()
    if not child:
        signal.alarm(10)
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1]


def test_a_forked_process_asks_nothing_and_ends_nothing(start, seeds):
    (server,) = start([0, 1], seeds=seeds, clients=1)
    with clients_of([server], 1) as (graph,):
        reading, writing = os.pipe()

        def ask() -> None:
            for question in (lambda: graph.join("papers", clients=2), lambda: graph.seed_file("links.npy")):
                with pytest.raises(ClusterError, match="a forked process cannot ask server 0"):
                    question()
                os.write(writing, b"refused ")

        assert forked(ask) == 0
        assert os.read(reading, 99) == b"refused refused "
        assert forked(graph.close) == forked(server.close) == 0
        assert graph.seed_file("links.npy").shape == (2, 50)
        assert not server.wait(0.2)
        assert server.statistics()["clients"] == 1
    for end in (reading, writing):
        os.close(end)
    assert server.wait(60)
