"""Ranks that know their number, how many they are, and where to meet: who shares a host is found out."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch.distributed as dist

import halohop
from halohop import attempts
from halohop.errors import ClusterError, InputError
from halohop.net import rendezvous
from halohop.net.board import join_board
from halohop.net.rendezvous import Rendezvous
from halohop.testing.graphs import ring
from halohop.testing.worlds import free_addresses
from halohop.world import World
from tests.support.deadlines import within


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("meeting") / "parts"
    halohop.partition(ring(400), path, num_parts=3, method="random")
    return path


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing in the environment says who meets where, and there is no token."""
    for name in ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "HALOHOP_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def rows(graph: halohop.Graph) -> list[tuple]:
    loader = halohop.NeighborLoader(graph, [3, 2], batch_size=50, shuffle=True, seed=5, run="inline")
    return [(batch.n_id.tolist(), batch.e_id.tolist(), batch.x.flatten().tolist()) for batch in loader]


@pytest.mark.parametrize("last", [0, pytest.param(3, marks=pytest.mark.full)])
def test_ranks_meet_at_one_address(parts, last):
    """Of two simulated nodes with two ranks each; either rank may start last. Each holds some partitions, and asks the other."""
    with halohop.open(parts) as whole:
        expected = rows(whole)
    (master,) = free_addresses(1)
    held, late = [[0], [0], [1, 2], [1, 2]], threading.Event()

    def rank(number: int) -> list[tuple]:
        if number == last:
            assert not late.wait(0.5)
        world = World(rank=number, size=4)
        with halohop.open(parts, partitions=held[number], world=world, master=master, deadline=30) as graph:
            assert set(graph.statistics_by_peer()) == {"host 1" if number < 2 else "host 0"}
            assert graph.parts_here == tuple(held[number])
            return rows(graph)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(rank, range(4), timeout=60)) == [expected] * 4


def test_ranks_that_hold_everything_need_not_meet(parts):
    with halohop.open(parts, world=World(rank=1, size=2)) as graph:
        assert graph.is_local


def test_who_shares_a_host(monkeypatch):
    """Those on one machine with the same partitions; two machines with the same are two hosts, too."""
    board = dist.HashStore()
    machines = iter(["a", "a", "b", "a", "b"])
    monkeypatch.setattr(rendezvous, "_this_machine", lambda: next(machines))
    held = [(0,), (1,), (0,), (0,), (0,)]
    meetings = [Rendezvous(board, World(rank=rank, size=5), deadline=20) for rank in range(5)]
    with ThreadPoolExecutor(5) as pool:
        found = []
        for rank, meeting in enumerate(meetings):
            found.append(pool.submit(meeting.find_hosts, held[rank]))
            while not board.check([f"{meeting.prefix}/rank/{rank}"]):
                assert not found[-1].done() or found[-1].exception() is None
        worlds = [future.result(timeout=60) for future in found]
    assert [(world.host, world.local_rank, world.local_size) for world in worlds] == [
        (0, 0, 2),
        (1, 0, 1),
        (2, 0, 2),
        (0, 1, 2),
        (2, 1, 2),
    ]
    assert {world.num_hosts for world in worlds} == {3}


def test_ranks_with_different_world_sizes_are_refused():
    board = dist.HashStore()
    meetings = [Rendezvous(board, World(rank=0, size=2), deadline=20), Rendezvous(board, World(rank=1, size=3), deadline=2)]
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(meeting.find_hosts, ()) for meeting in meetings]
        with pytest.raises(ClusterError, match="rank 1 was started as one of 3 ranks, and rank 0 as one of 2; give all"):
            futures[0].result(timeout=60)
        with pytest.raises(ClusterError, match="rank 2 did not come"):
            futures[1].result(timeout=60)


def set_process(monkeypatch, name):
    for module in (attempts, rendezvous):
        monkeypatch.setattr(module, "this_process", name)


def test_two_processes_with_one_rank_are_refused(monkeypatch):
    board = dist.HashStore()
    other = f"{os.getppid()}-{Path(f'/proc/{os.getppid()}/stat').read_text().rpartition(')')[2].split()[19]}"
    mine = rendezvous.this_process()
    set_process(monkeypatch, lambda: other)
    with pytest.raises(ClusterError, match="rank 1 did not come"):
        Rendezvous(board, World(rank=0, size=2), deadline=0.2).find_hosts(())
    set_process(monkeypatch, lambda: mine)
    with pytest.raises(ClusterError, match="two processes are rank 0 of 2; give each process a rank of its own"):
        Rendezvous(board, World(rank=0, size=2), deadline=0.2).find_hosts(())


def test_one_that_takes_the_place_of_a_killed_rank_is_let_in(monkeypatch):
    board = dist.HashStore()
    mine = rendezvous.this_process()
    set_process(monkeypatch, lambda: "1-0")  # no process that runs
    with pytest.raises(ClusterError, match="rank 1 did not come"):
        Rendezvous(board, World(rank=0, size=2), deadline=0.2).find_hosts(())
    set_process(monkeypatch, lambda: mine)
    with ThreadPoolExecutor(2) as pool:
        worlds = pool.map(lambda rank: Rendezvous(board, World(rank=rank, size=2), deadline=20).find_hosts(()), range(2))
        assert [world.local_rank for world in worlds] == [0, 1]


def test_a_master_that_is_not_reached_is_named():
    (master,) = free_addresses(1)
    start = time.monotonic()
    with pytest.raises(ClusterError, match=f"no store answers at {master} within 1 s; was rank 0 started"):
        join_board(("127.0.0.1", int(master.split(":")[1])), rank=1, deadline=1.0)
    assert time.monotonic() - start < within(20)


def test_no_master_at_all_is_named(parts):
    with pytest.raises(ClusterError, match=r"MASTER_ADDR and MASTER_PORT in the environment, .*or master='HOST:PORT'"):
        halohop.open(parts, partitions=[0], world=World(rank=0, size=2))
    with pytest.raises(InputError, match="not an address"):
        halohop.open(parts, partitions=[0], world=World(rank=0, size=2), master="here")


def test_addresses_that_others_reach_need_a_token(parts):
    command = r"needs? a.*token; make one with `python -c 'import secrets; print\(secrets.token_hex\(32\)\)'`"
    with pytest.raises(InputError, match=command):
        halohop.open(parts, partitions=[0], world=World(size=2, num_hosts=2), board=dist.HashStore(), listen="0.0.0.0:0")
