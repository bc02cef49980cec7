"""Streams of threads on a pretended GPU: what the host and streams wait for."""

import threading

import pytest
import torch

from halohop.errors import IdError
from halohop.ops.device import Fault
from halohop.ops.gpu_rows import gather_rows
from tests.support.pretend_gpu import PretendPool, PretendStream, current_stream, home


def in_thread(work):
    """What `work` returns or raises in a thread of its own."""
    found = []

    def run():
        try:
            found.append(work())
        except AssertionError as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[0]


def stream_of(pool):
    with pool.lane():
        return current_stream()


def test_a_thread_keeps_its_stream_and_another_gets_it_afterwards():
    pool = PretendPool()
    mine = stream_of(pool)
    assert stream_of(pool) is mine
    first, second = in_thread(lambda: (stream_of(pool), stream_of(pool)))
    assert first is second is not mine
    assert in_thread(lambda: stream_of(pool)) is first


def test_a_kernel_that_writes_is_seen_by_streams_that_do_not_wait():
    """The memory is the default stream's, but a kernel of a lane has written into it."""
    pool = PretendPool()
    with pool.for_all_lanes():
        source, rows, out = pool.put(torch.arange(3.0)), pool.put(torch.tensor([2, 0])), pool.zeros((2,), torch.float32)
    with pool.lane():
        gather_rows(source, rows, out, pool)
        event = pool.now()
    with pytest.raises(AssertionError, match="has not waited for it"):
        out + 1
    pool.join(event, [out])
    assert torch.equal(home(out + 1), torch.tensor([3.0, 1.0]))
    assert out.used_by == [current_stream()]


def test_what_is_made_for_all_lanes_needs_no_wait():
    pool = PretendPool()

    def read(made):
        with pool.lane():
            return made + 1

    alone = pool.put(torch.arange(3))
    assert isinstance(in_thread(lambda: read(alone)), AssertionError)
    with pool.for_all_lanes():
        shared = pool.put(torch.arange(3))
    assert isinstance(in_thread(lambda: read(shared)), torch.Tensor)


def test_faults_are_those_of_the_lane_up_to_the_mark():
    pool = PretendPool()
    with pool.lane():
        pool.faults[Fault.ROW :].fill_(7)
        wrong, right = pool.mark(), pool.mark()
    pool.check()
    pool.raise_faults(right)
    with pytest.raises(IdError, match="row 7 is not there"):
        pool.raise_faults(wrong)


def test_marks_use_their_memory_again(monkeypatch):
    pool = PretendPool()
    locked, lock = [], pool.page_locked
    monkeypatch.setattr(pool, "page_locked", lambda tensor: locked.append(tensor) or lock(tensor))
    for _ in range(5):
        marks = pool.mark(), pool.mark()
        for mark in marks:
            pool.wait_for(mark)
            pool.raise_faults(mark)
    assert len(locked) == 2


def test_a_wait_for_a_mark_is_counted(monkeypatch):
    pool = PretendPool()
    pool.wait_for(pool.mark())
    assert "device_waits" not in pool.counters.snapshot()
    monkeypatch.setattr("tests.support.pretend_gpu.PretendEvent.query", lambda event: False)
    pool.wait_for(pool.mark())
    assert pool.counters.snapshot()["device_waits"] == 1


def test_a_stream_waits_for_an_event_before_it_begins():
    pool, other = PretendPool(), PretendStream()
    with pool._upon(other):
        made, event = pool.arange(3), pool.now()
    with pool.lane(after=event):
        assert (made + 1).sum() is not None
