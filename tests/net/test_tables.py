"""Tables where several processes meet: hosts with several trainers, one host with several, and servers."""

import pickle
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

import halohop
from halohop import init
from halohop.errors import ClusterError, PeerLostError
from halohop.net.rendezvous import Rendezvous
from halohop.testing.worlds import TOKEN
from halohop.transport import Limits
from halohop.typing import NODE
from tests.support.table_contract import RAW, TableContract, filled, met, tables, trainers

LIMITS = Limits(call_seconds=2, attempt_seconds=0.3, connect_seconds=5)


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables") / "parts"
    halohop.partition(tables(), folder, num_parts=3, method="random")
    return folder


def serve(path: Path, partitions: list[int], stack: ExitStack, **options: object) -> halohop.net.serve.Server:
    return stack.enter_context(halohop.serve(path, partitions=partitions, token=TOKEN, limits=LIMITS, **options))


def clients(addresses: list[str], stack: ExitStack) -> list[halohop.Graph]:
    """Two, which are given the addresses in different orders; owners have the threads that they need."""
    graphs = [stack.enter_context(halohop.connect(order, token=TOKEN, limits=LIMITS)) for order in (addresses, addresses[::-1])]
    filled(graphs)
    return graphs


class TestServers(TableContract):
    """Two servers, and a client of each order of their addresses."""

    @pytest.fixture(scope="class")
    @classmethod
    def graphs(cls, parts: Path) -> Iterator[list[halohop.Graph]]:
        with ExitStack() as stack:
            addresses = [serve(parts, share, stack).address for share in ([0], [1, 2])]
            yield clients(addresses, stack)


class TestServersThatStandInForEachOther(TableContract):
    """Each partition is on two servers."""

    @pytest.fixture(scope="class")
    @classmethod
    def graphs(cls, parts: Path) -> Iterator[list[halohop.Graph]]:
        with ExitStack() as stack:
            addresses = [serve(parts, share, stack).address for share in ([0, 1], [1, 2], [2, 0])]
            yield clients(addresses, stack)

    def test_each_partition_has_one_owner_for_all_clients(self, graphs: list[halohop.Graph]) -> None:
        one, other = ({part: name.split(" at ")[1] for part, name in graph.tables.owners.items()} for graph in graphs)
        assert one == other
        assert sorted(one) == [0, 1, 2]


@pytest.mark.full
class TestHosts(TableContract):
    """Two hosts with two trainers each, one of which serves."""

    @pytest.fixture(scope="class")
    @classmethod
    def graphs(cls, parts: Path) -> Iterator[list[halohop.Graph]]:
        with trainers(parts, [[0, 1], [1, 2]], each=2) as graphs:
            met(graphs)
            filled(graphs)
            yield graphs


@pytest.mark.full
class TestOneHost(TableContract):
    """Three trainers of one host, which has no server before they use tables."""

    @pytest.fixture(scope="class")
    @classmethod
    def graphs(cls, parts: Path) -> Iterator[list[halohop.Graph]]:
        with trainers(parts, [[0, 1, 2]], each=3) as graphs:
            met(graphs)
            filled(graphs)
            yield graphs


def test_rows_of_an_owner_on_this_machine_are_read_in_its_memory(parts: Path) -> None:
    """No byte crosses the network for rows that were written, nor for beginnings where the ids are here, too."""
    with trainers(parts, [[0, 1], [2]], each=2) as graphs:
        met(graphs)
        neighbour = graphs[1]
        local = RAW[neighbour.owners(RAW) < 2]
        table = halohop.DistTensor(neighbour, (None, 4), name="v", init=init.normal(), node_type=NODE)
        written = halohop.DistTensor(graphs[3], (None, 4), name="v", init=init.normal(), node_type=NODE)
        written[local[:5]] = torch.arange(20.0).view(5, 4)
        whole = halohop.DistTensor.attach(graphs[0], "v")
        gid, expected = table.gid(local), whole[local]
        before = neighbour.statistics()
        assert torch.equal(neighbour.tables.read("v", gid), expected)
        after = neighbour.statistics()
        assert after["table_shared_rows"] - before.get("table_shared_rows", 0) == len(local)
        assert after["table_shared_bytes"] > before.get("table_shared_bytes", 0)
        assert after.get("table_remote_rows", 0) == before.get("table_remote_rows", 0)
        assert after["transport_calls"] == before["transport_calls"]
        other = graphs[2]
        attached, before = halohop.DistTensor.attach(other, "v"), other.statistics()
        assert torch.equal(attached[local[:5]], expected[:5])
        assert other.statistics()["table_shared_rows"] - before.get("table_shared_rows", 0) == 5
        table.drop()


def test_beginnings_that_a_client_cannot_compute_are_asked_of_the_owner(parts: Path) -> None:
    """It reads what was written in the owner's memory, and the rest over the network."""
    with ExitStack() as stack:
        server = serve(parts, [0, 1, 2], stack)
        (graph, _) = clients([server.address], stack)
        table = halohop.DistTensor(graph, (None, 2), name="v", init=init.uniform(), node_type=NODE)
        table[RAW[:9]] = 7
        before = graph.statistics()
        rows = table[RAW]
        after = graph.statistics()
        assert (rows[:9] == 7).all()
        assert ((rows[9:] > 0) & (rows[9:] < 1)).all()
        assert after["table_shared_rows"] - before.get("table_shared_rows", 0) == 9
        assert after["table_remote_rows"] - before.get("table_remote_rows", 0) == 51


def test_trainers_of_one_host_end_in_order(parts: Path) -> None:
    """The owner stays until the others have closed, and a rank that never used tables is not waited for."""
    with trainers(parts, [[0, 1, 2]], each=3, deadline=20) as graphs:
        met(graphs[:2])
        table = halohop.DistTensor(graphs[1], (None,), name="v", node_type=NODE)
        with ThreadPoolExecutor(3) as pool:
            owner = pool.submit(graphs[0].close)
            table[RAW] = 1
            assert table[RAW].sum() == 60
            assert not owner.done()
            graphs[1].close()
            owner.result(timeout=10)
            graphs[2].close()


def test_a_rank_whose_owner_does_not_use_tables_hears_it(parts: Path) -> None:
    with trainers(parts, [[0, 1, 2]], each=2, deadline=0.5) as graphs:
        with pytest.raises(ClusterError, match=r"first trainer of this host did not use graph.tables within 0.5 s"):
            _ = graphs[1].tables
        graphs[0].close()


@pytest.mark.full
def test_an_owner_that_is_lost_in_a_change_is_named_and_the_change_happens_nowhere(parts: Path) -> None:
    with ExitStack() as stack:
        servers = [serve(parts, share, stack) for share in ([0], [1, 2])]
        graph, _ = clients([server.address for server in servers], stack)
        table = halohop.DistTensor(graph, (30,), name="v")
        lost = re.escape(servers[1].address)
        servers[1].close()
        with pytest.raises(PeerLostError, match=lost):
            table[torch.arange(30)] = 1
        assert not table[torch.arange(10)].any()
        with pytest.raises(PeerLostError, match=lost):
            table[torch.arange(30)]


@pytest.mark.full
def test_changes_survive_broken_connections(parts: Path) -> None:
    """Clients add ones to rows of both servers while every connection breaks again and again: the sums are exact."""
    with ExitStack() as stack:
        limits = replace(LIMITS, call_seconds=40)
        servers = [
            stack.enter_context(halohop.serve(parts, partitions=share, token=TOKEN, limits=limits)) for share in ([0], [1, 2])
        ]
        addresses = [server.address for server in servers]
        graphs = [stack.enter_context(halohop.connect(addresses, token=TOKEN, limits=limits)) for _ in range(3)]
        count = halohop.DistTensor(graphs[0], (60,), torch.int64, "count")
        gid, ones = torch.arange(60), torch.ones(60, dtype=torch.int64)

        def add(graph: halohop.Graph) -> None:
            for turn in range(10):
                graph.tables.add("count", gid, ones)
                if turn % 5 == 0:
                    for server in servers:
                        server._listener._clients.clear()  # type: ignore[attr-defined]  # it forgets all of them, in mid-call

        with ThreadPoolExecutor(3) as pool:
            for done in [pool.submit(add, graph) for graph in graphs]:
                done.result(timeout=100)
        assert count[gid].tolist() == [30] * 60
        assert sum(graph.statistics()["transport_retries"] for graph in graphs) > 0


def test_trainers_that_do_not_know_who_shares_their_host_find_out(parts: Path) -> None:
    """As under MPI or Ray: otherwise each would be the first of its host, and have tables of its own."""
    board = dist.HashStore()
    worlds = [halohop.World(rank=rank, size=2) for rank in range(2)]
    with ExitStack() as stack, ThreadPoolExecutor(2) as pool:
        opened = [halohop.open(parts, world=world) for world in worlds]
        for graph in opened:
            stack.callback(graph.shut, wait=False)
            host = graph._find_owners.__self__  # type: ignore[union-attr]
            meets = partial(Rendezvous, board, host.world, deadline=20)
            graph._find_owners = replace(host, meets=meets).owners
        first, other = pool.map(lambda graph: halohop.DistTensor(graph, (60,), name="v"), opened)
        first[RAW[:3] % 60] = 5
        assert torch.equal(other[torch.arange(60)], first[torch.arange(60)])
        assert other[torch.arange(60)].any()


def test_a_graph_of_several_hosts_brings_its_tables_to_another_process(parts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It finds the same owners, though it meets the hosts as servers."""
    monkeypatch.setenv("HALOHOP_TOKEN", TOKEN.key.decode())
    with trainers(parts, [[0, 1], [1, 2]], each=1) as graphs:
        table = halohop.DistTensor(graphs[1], (None, 2), name="v", node_type=NODE)
        table[RAW] = torch.arange(120.0).view(60, 2)
        other = pickle.loads(pickle.dumps(table))
        try:
            assert torch.equal(other[RAW], table[RAW])
            made = halohop.DistTensor(other.graph, (60,), name="w")
            made[torch.arange(60)] = 3
            assert (halohop.DistTensor.attach(graphs[0], "w")[torch.arange(60)] == 3).all()
        finally:
            other.graph.close()
