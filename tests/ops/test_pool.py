import gc
import threading

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from halohop.ops.pool import Pool, _size_class, empty
from tests.support.forked import run_script

LARGE = (300, 1000)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64])
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (5,), LARGE, (1, 100_000), (100_000, 1, 2)])
def test_tensors_are_ordinary(shape, dtype):
    tensor = Pool().empty(shape, dtype)
    assert tensor.shape == shape
    assert tensor.dtype == dtype
    assert tensor.is_contiguous()
    assert tensor.fill_(1).sum() == tensor.numel()


def test_what_is_kept_is_never_handed_out_again():
    pool = Pool()
    kept = []
    for number in range(20):
        tensor = pool.empty(LARGE, torch.int64).fill_(number)
        kept.append(tensor[number : number + 2] if number % 2 else tensor.view(-1).numpy()[:5])
    for number, view in enumerate(kept):
        assert (view == number).all()
    assert pool.statistics() == {"made": 20, "reused": 0, "idle_bytes": 0}


def test_what_is_dropped_is_used_again():
    pool = Pool()
    addresses = {pool.empty(LARGE, torch.float32).data_ptr() for _ in range(50)}
    assert len(addresses) == 1
    assert pool.statistics()["reused"] == 49


def test_autograd_keeps_what_it_needs():
    pool = Pool()
    weight = torch.ones(LARGE[1], requires_grad=True)
    x = pool.empty(LARGE, torch.float32).fill_(2)
    loss = (x * weight).sum()
    del x
    pool.empty(LARGE, torch.float32).fill_(7)
    loss.backward()
    assert weight.grad is not None
    assert (weight.grad == 2 * LARGE[0]).all()


def test_idle_memory_is_bounded():
    pool = Pool(limit_bytes=3_000_000)
    tensors = [pool.empty(LARGE, torch.float32) for _ in range(9)]
    del tensors
    gc.collect()
    assert 0 < pool.statistics()["idle_bytes"] <= 3_000_000


def test_idle_memory_makes_room_for_new() -> None:
    pool = Pool(limit_bytes=4_000_000)
    tensors = [pool.empty((size,), torch.uint8) for size in (800_000, 1_000_000, 1_100_000)]
    while tensors:
        del tensors[0]
    assert pool.statistics()["idle_bytes"] > 3_000_000
    kept = pool.empty((1_500_000,), torch.uint8)
    assert 0 < pool.statistics()["idle_bytes"] <= 4_000_000 - 1_500_000
    assert pool.empty((1_100_000,), torch.uint8).numel()
    assert pool.statistics()["reused"] == 1  # the size that came back last was the last to go
    assert pool.empty((9_000_000,), torch.uint8).numel()
    assert pool.statistics()["idle_bytes"] == 0  # a buffer over the limit leaves nothing idle, and is freed itself
    assert len(kept) == 1_500_000


def test_threads_never_share_a_buffer():
    pool = Pool()
    failures = []

    def work(number: int) -> None:
        for _ in range(300):
            tensor = pool.empty((20_000,), torch.int64).fill_(number)
            if not (tensor == number).all():
                failures.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []


def test_a_tensor_outlives_its_pool():
    tensor = Pool().empty(LARGE, torch.int64).fill_(3)
    gc.collect()
    assert (tensor == 3).all()


@given(st.integers(1, 2**50))
def test_size_classes_waste_little_and_are_few(num_bytes):
    size = _size_class(num_bytes)
    assert num_bytes <= size <= num_bytes * 1.25
    assert _size_class(size) == size


def test_buffers_are_made_by_whoever_is_named():
    made = []

    def make(num_bytes: int) -> np.ndarray:
        made.append(np.zeros(num_bytes, np.uint8))
        return made[-1]

    pool = Pool(make=make)
    tensor = pool.empty(LARGE, torch.float32)
    assert tensor.data_ptr() == made[0].ctypes.data
    pool.empty((10,), torch.float32)  # too small to be lent
    assert len(made) == 1


def test_starting_over_leaves_the_past_alone():
    pool = Pool()
    kept = pool.empty(LARGE, torch.int64).fill_(1)
    pool.empty(LARGE, torch.int64)
    pool._lock.acquire()  # as a thread of the parent may at the moment of a fork
    pool.start_over(lambda num_bytes: np.full(num_bytes, 9, np.uint8))
    assert pool.empty(LARGE, torch.uint8).eq(9).all()
    assert pool.statistics()["made"] == 1
    del kept
    idle = pool.statistics()["idle_bytes"]
    assert idle == _size_class(LARGE[0] * LARGE[1])  # the new buffer; those of the past are gone


@pytest.mark.parametrize("shape", [(), (0,), (5,), LARGE])
def test_another_allocator_can_take_over(shape):
    asked = []

    def allocate(num_bytes: int) -> torch.Tensor:
        asked.append(num_bytes)
        return torch.zeros(num_bytes, dtype=torch.uint8)

    pool = Pool()
    pool.delegate(allocate)
    tensor = empty(pool, shape, torch.bfloat16)
    assert (tensor.shape, tensor.dtype) == (shape, torch.bfloat16)
    assert asked == ([tensor.nbytes] if shape == LARGE else [])
    assert pool.statistics()["made"] == 0


def test_arrays_are_lent_like_tensors():
    pool = Pool()
    array = pool.array(LARGE, np.dtype(np.float32))
    assert array.shape == LARGE
    assert array.dtype == np.float32
    view = torch.from_numpy(array)[7]
    del array
    assert pool.statistics()["idle_bytes"] == 0
    del view
    assert pool.statistics()["idle_bytes"] > 0
    assert pool.array((3,), np.dtype(np.int64)).shape == (3,)


def test_what_is_allocated_by_others_holds_no_arrays():
    """Memory of a batch may be page-locked; that of scratch arrays is the process's own."""
    pool, asked = Pool(), []
    pool.delegate(lambda num_bytes: asked.append(num_bytes) or torch.empty(num_bytes, dtype=torch.uint8))
    pool.array(LARGE, np.dtype(np.int64))
    assert asked == []
    pool.empty(LARGE, torch.int64)
    assert asked == [300 * 1000 * 8]


FORKS = """
import os, signal, torch
from halohop.ops.pool import layer_pool
pool = layer_pool()
with pool._lock:  # as another thread may hold it at the moment of a fork
    pid = os.fork()
    if not pid:
        signal.alarm(60)
        pool.empty((1000, 1000), torch.float32).fill_(1)
        os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_the_layer_pool_is_free_in_a_forked_process():
    done = run_script(FORKS)
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_a_signal_handler_may_borrow_while_its_thread_does():
    pool, borrowed = Pool(), []
    plain = pool._welcome_back

    def interrupted() -> None:  # as by a signal while the lock is held
        pool._welcome_back = plain
        borrowed.append(pool.empty(LARGE, torch.int64).fill_(1))
        plain()

    pool._welcome_back = interrupted
    other = pool.empty(LARGE, torch.int64).fill_(2)
    assert borrowed[0].eq(1).all()
    assert other.eq(2).all()
