"""`halohop.hosts.meet`: ranks that wait for each other and exchange values, without a graph."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import halohop
from halohop.errors import ClusterError, InputError
from halohop.testing.worlds import free_address
from halohop.world import World


def in_ranks(size, work):
    """What `work` returns on each of some ranks, which meet at one address."""
    master = free_address()

    def rank(number: int):
        with halohop.hosts.meet(world=World(rank=number, size=size), master=master, deadline=20) as meeting:
            return work(meeting)

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(rank, range(size), timeout=60))


def test_values_of_all_ranks_in_their_order():
    def work(meeting):
        first = meeting.all_gather((meeting.world.rank, "a"))
        meeting.barrier()
        return first, meeting.all_gather({"rank": meeting.world.rank})

    assert in_ranks(3, work) == [([[0, "a"], [1, "a"], [2, "a"]], [{"rank": 0}, {"rank": 1}, {"rank": 2}])] * 3


def test_no_rank_passes_a_barrier_before_all_have_come():
    late, passed = threading.Event(), threading.Event()

    def work(meeting):
        if meeting.world.rank == 1:
            assert not passed.wait(0.2)
            late.set()
        meeting.barrier()
        passed.set()
        return late.is_set()

    assert in_ranks(2, work) == [True, True]


def test_a_rank_that_does_not_come_is_named():
    master = free_address()
    with pytest.raises(ClusterError, match=r"rank 1 did not come within 0\.2 s"):
        halohop.hosts.meet(world=World(size=2), master=master, deadline=0.2)


def test_ranks_with_different_world_sizes_do_not_meet():
    master = free_address()

    def rank(number: int):
        with pytest.raises(ClusterError) as caught:
            halohop.hosts.meet(world=World(rank=number, size=2 + number), master=master, deadline=2)
        return str(caught.value)

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(rank, range(2), timeout=60)
    assert "rank 1 was started as one of 3 ranks, and rank 0 as one of 2; give all the same world size" in first
    assert "rank 2 did not come" in second


def test_what_json_lacks_is_refused():
    with halohop.hosts.meet(world=World(), master=free_address()) as meeting:
        with pytest.raises(InputError, match=r"Tensor cannot be exchanged .*give numbers, text, lists and dicts"):
            meeting.all_gather(torch.zeros(3))
        meeting.close()  # and again at the end


def test_one_that_leaves_without_waiting():
    """After an error: it does not wait for the others, now or at the end of the process."""
    master = free_address()
    with ThreadPoolExecutor(2) as pool:
        met = [pool.submit(halohop.hosts.meet, world=World(rank=rank, size=2), master=master, deadline=20) for rank in range(2)]
        for future in met:
            future.result(timeout=60).shut(wait=False)
