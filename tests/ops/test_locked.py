"""Memory that is locked where it lies: kept once, and unlocked in the end, whatever that is."""

import gc
import os
from contextlib import nullcontext

import pytest
import torch

from halohop.errors import InputError
from halohop.ops import locked
from halohop.ops.device import DevicePool
from halohop.ops.device_pieces import DevicePieces
from halohop.ops.pieces import Pieces
from tests.support.pretend_gpu import PretendPool


class Cudart:
    """Registers what its flags allow."""

    def __init__(self, allowed):
        self.allowed, self.calls, self.registered = allowed, [], []

    def cudaHostRegister(self, address, num_bytes, flags):  # noqa: N802
        self.calls.append(flags)
        if flags not in self.allowed:
            return 801
        self.registered.append(address)
        return 0

    def cudaHostUnregister(self, address):  # noqa: N802
        self.registered.remove(address)
        return 0


@pytest.fixture
def cudart(monkeypatch):
    """Of a machine whose CUDA does what `allowed` says; torch's own calls do nothing."""

    def made(*allowed):
        there = Cudart(allowed)
        monkeypatch.setattr(torch.cuda, "cudart", lambda: there)
        monkeypatch.setattr(torch.cuda, "synchronize", lambda *_: None)
        monkeypatch.setattr(torch.cuda, "device", lambda _: nullcontext())
        return there

    return made


@pytest.mark.parametrize(("allowed", "flags", "done"), [((8, 0), [8], True), ((0,), [8, 0], True), ((), [8, 0], False)], ids=str)
def test_memory_is_locked_as_read_only_or_else_as_any(cudart, monkeypatch, allowed, flags, done):
    there = cudart(*allowed)
    cleared = []
    monkeypatch.setattr(locked.torch, "empty", lambda *_, **__: cleared.append(1) or torch.zeros(1))
    assert locked.lock_in_place(torch.device("cuda", 0), 4096, 100) is done
    assert there.calls == flags
    assert len(cleared) == len(flags) - done
    if done:
        locked.unlock_in_place(torch.device("cuda", 0), [4096])
        assert there.registered == []


def test_a_tensor_is_kept_once_and_lies_where_it_did():
    pool, tensor = PretendPool(), torch.rand(5, 2)
    assert pool.lock(tensor) is pool.lock(tensor) is tensor
    assert pool.locked == {tensor.data_ptr(): 40}
    pieces = DevicePieces.of(Pieces([tensor], [0, 5]), pool, on_device=False)
    assert pieces.tensors[0] is tensor
    pool.close()
    assert pool.locked == {}
    assert pool.finished == 1


def test_what_the_system_does_not_lock_in_place_is_copied():
    pool, tensor = PretendPool(locks=False), torch.rand(5, 2)
    copy = pool.lock(tensor)
    assert copy.data_ptr() in pool.page_locked_at
    assert copy is not tensor
    assert torch.equal(copy, tensor)


def test_a_copy_is_locked_in_its_place_and_has_no_more_bytes_than_the_tensor(monkeypatch):
    """Torch's own page-locked memory would be of the next power of two of bytes, for ever."""
    pool, tensor, at = PretendPool(), torch.rand(5, 2), list[int]()
    locking = locked.LockedMemory(lambda address, _: at.append(address) or len(at) > 1, lambda addresses: at.clear())
    monkeypatch.setattr(pool, "_locked", locking)
    copy = pool.lock(tensor)
    assert torch.equal(copy, tensor)
    assert at == [tensor.data_ptr(), copy.data_ptr()]
    assert pool.page_locked_at == set()
    pool.close()
    assert at == []


def test_small_tensors_are_copied():
    assert DevicePool.least_locked > 1
    pool = PretendPool()
    pool.least_locked = 100
    assert pool.lock(torch.rand(5, 2)).data_ptr() in pool.page_locked_at
    assert pool.locked == {}


def test_memory_is_unlocked_when_nobody_refers_to_the_pool():
    pool = PretendPool()
    pool.lock(torch.rand(5, 2))
    held = pool.locked
    assert held
    del pool
    gc.collect()
    assert held == {}


def test_what_cannot_be_locked_is_said_with_the_limit(monkeypatch):
    pool = PretendPool(locks=False)

    def refused(num_bytes):
        raise RuntimeError("CUDA error: out of memory")

    monkeypatch.setattr(pool, "page_locked_bytes", refused)
    monkeypatch.setattr("halohop.ops.device.locked_limit", lambda: "65536 bytes")
    with pytest.raises(InputError, match=r"40 bytes of memory cannot be locked for cuda:0 .*may lock 65536 bytes; .*ulimit -l"):
        pool.lock(torch.rand(5, 2))


def test_the_limit_is_the_systems():
    import resource

    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    assert locked.locked_limit() == ("without a limit" if limit == resource.RLIM_INFINITY else f"{limit} bytes")


def test_a_process_that_was_forked_unlocks_nothing():
    pool = PretendPool()
    pool.lock(torch.rand(5, 2))
    if (child := os.fork()) == 0:
        pool.close()
        pool._locked.release()
        os._exit(len(pool.locked) + 10 * pool.finished)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    pool.close()
    assert pool.locked == {}
