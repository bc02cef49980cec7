"""Servers that have numbers, meet at one address, and are known to clients by their numbers."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import halohop
from halohop import NeighborLoader, World
from halohop.errors import ClusterError, InputError, PeerLostError, TransportError
from halohop.net.places import Place, check_places
from halohop.net.serve import Server
from halohop.testing.graphs import ring
from halohop.testing.worlds import TOKEN, free_address
from halohop.transport import Limits
from tests.support.deadlines import within

FULL = pytest.mark.full
LIMITS = Limits(call_seconds=30, attempt_seconds=0.5, connect_seconds=20)


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("numbered") / "parts"
    halohop.partition(ring(100), path, num_parts=2, method="random")
    return path


Start = Callable[..., Server]


@pytest.fixture
def start(parts: Path) -> Iterator[Start]:
    """Starts a server of some at one address."""
    with ExitStack() as stack:

        def begin(master: str, rank: int, size: int, share: list[int], **options: Any) -> Server:
            world = World(rank=rank, size=size)
            options = {"token": TOKEN, "limits": LIMITS} | options
            return stack.enter_context(halohop.serve(parts, partitions=share, master=master, world=world, **options))

        yield begin


def joined(master: str, **options: Any) -> Any:
    return halohop.connect([master], token=TOKEN, limits=LIMITS, **options)


def test_a_client_finds_all_servers_by_one_address(start: Start, parts: Path, tmp_path: Path) -> None:
    """Also one that has what the others have already; seeds are those of the server that is named."""
    master = free_address()
    for number in range(3):
        (folder := tmp_path / str(number)).mkdir()
        np.save(folder / "train.npy", np.arange(number, number + 4))
        splits = {"train": torch.arange(10 * number, 10 * number + 3)}
        start(master, number, 3, [number % 2], seeds=folder, splits=splits, clients=2)
    with joined(master, num_servers=3) as graph, halohop.open(parts) as whole:
        cards = graph.servers()
        assert [(card.number, card.parts, card.clients) for card in cards] == [(0, (0,), 2), (1, (1,), 2), (2, (0,), 2)]
        assert cards[0].address.endswith(master)
        assert [card.gpus for card in cards] == [torch.cuda.device_count()] * 3
        for number in range(3):
            assert graph.seed_file("train.npy", server=number).tolist() == [*range(number, number + 4)]
            assert graph.seed_split("train", server=number).tolist() == [10 * number, 10 * number + 1, 10 * number + 2]
        with pytest.raises(InputError, match=r"there is no server 3; the numbers that servers were given are \[0, 1, 2\]"):
            graph.seed_file("train.npy", server=3)
        with pytest.raises(InputError, match=r"split 'test': this server was given \['train'\]"):
            graph.seed_split("test", server=1)
        made, expected = (NeighborLoader(one, [2], torch.arange(100), batch_size=20) for one in (graph, whole))
        assert [batch.n_id.tolist() for batch in made] == [batch.n_id.tolist() for batch in expected]


@pytest.mark.parametrize("clients", [pytest.param(1, marks=FULL), 2, pytest.param(3, marks=FULL), pytest.param(4, marks=FULL), 7])
def test_clients_share_servers_so_that_each_seed_occurs_once(start: Start, clients: int) -> None:
    master, seeds = free_address(), torch.arange(30).split(10)
    for number in range(3):
        start(master, number, 3, [number % 2], splits={"train": seeds[number]})
    found = []
    for rank in range(clients):
        with joined(master, num_servers=3) as graph:
            servers, sharing = graph.share_servers(World(rank=rank, size=clients))
            own = torch.cat([graph.seed_split("train", server=number) for number in servers])
            loader = NeighborLoader(graph, [1], own, batch_size=1, world=sharing)
            found += [int(seed) for batch in loader for seed in own[batch.input_id]]  # some step without a seed
    assert sorted(found) == list(range(30))


def test_servers_without_numbers_are_not_shared(parts: Path) -> None:
    unnumbered = pytest.raises(InputError, match="servers without numbers cannot be divided")
    with halohop.serve(parts, token=TOKEN) as server, joined(server.address) as graph, unnumbered:
        graph.share_servers(World())


def test_servers_meet_and_see_the_whole_graph(start: Start) -> None:
    master = free_address()
    servers = [start(master, number, 2, [number]) for number in range(2)]
    for server in servers:
        server.meet(deadline=within(20))
        assert server.graph.owners(torch.arange(100)).unique().tolist() == [0, 1]


def test_the_server_at_the_address_may_start_again_alone(start: Start) -> None:
    """It knows no other until one makes itself known; it does not take itself for one that has none."""
    master = free_address()
    first = start(master, 0, 2, [0])
    start(master, 1, 2, [1])
    with joined(master, num_servers=2) as graph:
        loader = NeighborLoader(graph, [2], torch.arange(100), batch_size=20)
        expected = [batch.n_id.tolist() for batch in loader]
        first.close()
        start(master, 0, 2, [0])
        loader.set_epoch(0)
        assert [batch.n_id.tolist() for batch in loader] == expected


def test_servers_and_clients_call_a_lost_server_by_one_number(start: Start) -> None:
    """Server 2 is the second that the others hear of, and the first that this client lists."""
    master = free_address()
    limits = Limits(call_seconds=2, attempt_seconds=0.5, connect_seconds=20)
    servers = [start(master, number, 3, [number % 2], limits=limits) for number in (0, 2, 1)]
    listed = [server.address for server in servers[::-1]]
    with halohop.connect(listed, token=TOKEN, limits=limits, num_servers=3, sampling="servers") as graph:
        loader = NeighborLoader(graph, [2], torch.arange(100), batch_size=5, run="inline")
        batches = iter(loader)
        for _ in range(3):  # each server makes one, and knows the others
            next(batches)
        assert set(graph.statistics_by_peer()) == {"server 0", "server 1", "server 2"}
        servers[2].close()
        with pytest.raises(PeerLostError, match=r"waited for another: .* 'server 1' at \S+ went away") as caught:
            list(batches)
        assert not re.search(rf"'server [02]' at \S*{re.escape(listed[0])}", str(caught.value))


def test_a_server_that_does_not_come(start: Start) -> None:
    master = free_address()
    server = start(master, 0, 2, [0, 1])
    server.meet(deadline=0.4)  # the one that the others come to
    seconds = within(0.4)
    expected = rf"1 of 2 servers have come within {seconds:g} s \(server 0 at .*\); start the others"
    with pytest.raises(PeerLostError, match=expected):
        joined(master, num_servers=2, deadline=seconds)
    late = start(free_address(), 1, 2, [0, 1])
    with pytest.raises(PeerLostError):
        late.meet(deadline=0.4)


def test_numbers_that_are_taken_and_other_numbers_of_servers(start: Start) -> None:
    master = free_address()
    start(master, 0, 2, [0, 1])
    with pytest.raises(TransportError, match="in use"):
        start(master, 0, 2, [0, 1])
    start(master, 1, 2, [0, 1])
    with joined(master, num_servers=2, deadline=within(20)):
        pass  # the first one knows the second
    with pytest.raises(ClusterError, match="was started as one of 2 servers, but 3 are expected here"):
        joined(master, num_servers=3, deadline=5)
    twin = start(master, 1, 2, [0, 1])
    with pytest.raises(ClusterError, match=r"the servers at .* and at .* both have the number 1; give each server a number"):
        twin.meet(deadline=within(20))


def test_what_contradicts_the_address(start: Start) -> None:
    with pytest.raises(InputError, match=r"master='.*' says where servers listen .*leave out listen and peers"):
        start(free_address(), 0, 1, [0], listen="127.0.0.1:0")
    with pytest.raises(InputError, match="leave out listen and peers"):
        start(free_address(), 0, 1, [0], peers=["127.0.0.1:1"])
    with pytest.raises(InputError, match="num_servers=0"):
        joined("127.0.0.1:1", num_servers=0)


def test_places() -> None:
    without = [Place(where="a", number=-1, size=0), Place(where="b", number=-1, size=0)]
    check_places([*without, Place(where="c", number=0, size=2), Place(where="d", number=1, size=2)], size=2)
    with pytest.raises(ClusterError, match="the servers at c and at d both have the number 0"):
        check_places([Place(where="c", number=0, size=2), Place(where="d", number=0, size=2)], size=None)
