import gc
import mmap
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data, HeteroData

from halohop.loading.channel import Borrower, Lender, Loan, pack, unpack
from halohop.ops import Pool

LARGE = (300, 100)
TEXT = st.text("a\0\n é𝄞")


class Pair:
    """A worker's and a trainer's side in one process."""

    def __init__(self, limit_bytes: int = 4 << 30) -> None:
        self.pool = Pool(limit_bytes)
        self.borrower = Borrower()
        self.lender = Lender(self.pool, self._announce)

    def _announce(self, loan: Loan, descriptor: int) -> None:
        self.borrower.map(loan, os.dup(descriptor))

    def send(self, value: Any) -> Any:
        packed = self.lender.pack(value)
        del value
        self.borrower.forget(self.lender.forgotten())
        return self.borrower.unpack(packed)

    def settle(self) -> None:
        """What is dropped goes back, as with the next order."""
        gc.collect()
        self.lender.take_back(self.borrower.returned())


@pytest.fixture
def pair() -> Pair:
    return Pair()


def same(got: torch.Tensor, expected: torch.Tensor) -> bool:
    """Equal, bit for bit, and told apart by nothing else either."""
    traits = [(type(x), x.dtype, x.shape, x.layout, x.requires_grad) for x in (got, expected)]
    return traits[0] == traits[1] and torch.equal(got.to_dense(), expected.to_dense())


DTYPES = [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64, torch.float16, torch.uint8]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (5,), LARGE, (1, 100_000)])
@pytest.mark.parametrize("pooled", [False, True])
def test_tensors_arrive_as_they_were(pair, dtype, shape, pooled):
    tensor = pair.pool.empty(shape, dtype) if pooled else torch.empty(shape, dtype=dtype)
    tensor.copy_((torch.arange(tensor.numel()) % 2).view(shape))
    got = pair.send({"x": tensor})["x"]
    assert same(got, tensor)
    assert got.stride() == tensor.stride()


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.t(),
        lambda x: x[::2, 3:],
        lambda x: x[5:7],
        lambda x: x[:1].expand(400, 100),
        lambda x: x.view(torch.int32),
        lambda x: x.to_sparse(),
        lambda x: torch.nn.Parameter(x),
        lambda x: x.clone().requires_grad_(),
        lambda x: x.to(torch.complex64).conj(),
        lambda x: (x * 2).t(),
    ],
)
@pytest.mark.parametrize("pooled", [False, True])
def test_odd_views(pair, make, pooled):
    x = pair.pool.empty(LARGE, torch.float32) if pooled else torch.empty(LARGE)
    torch.arange(x.numel(), dtype=torch.float32, out=x.view(-1))
    value = make(x)
    assert same(pair.send([value])[0], value)


def test_what_lies_in_a_buffer_is_not_copied(pair):
    x = pair.pool.empty(LARGE, torch.float32).fill_(1)
    got = pair.send((x, x[5:]))
    x[7, 7] = 5  # nobody does; here it shows that the memory is one
    assert got[0][7, 7] == got[1][2, 7] == 5
    assert got[0].data_ptr() != x.data_ptr()


def test_one_tensor_twice_stays_one_and_views_share(pair):
    x, y = pair.pool.empty(LARGE, torch.float32).zero_(), torch.zeros(3)
    a, b, c, d, row = pair.send((x, x, y, y, x[3]))
    assert a is b
    assert c is d
    a[3] = 4
    assert (row == 4).all()


@dataclass
class Custom:
    x: torch.Tensor
    rest: Any


def test_odd_values(pair):
    x = torch.arange(40_000)
    assert pair.send(None) is None
    assert pair.send("text") == "text"
    assert pair.send(({}, [], 3)) == ({}, [], 3)
    custom = pair.send(Custom(x=x, rest=np.arange(20_000)))
    assert isinstance(custom, Custom)
    assert same(custom.x, x)
    assert (custom.rest == np.arange(20_000)).all()
    data = pair.send(Data(x=x, y=x[:3], title="kept"))
    assert same(data.x, x)
    assert data.title == "kept"
    hetero = HeteroData()
    hetero["a"].x = x
    hetero["a", "to", "a"].edge_index = x.view(2, -1)
    assert same(pair.send(hetero)["a", "to", "a"].edge_index, x.view(2, -1))


def test_a_small_view_does_not_carry_its_storage(pair):
    data = pair.lender.pack(torch.zeros(10_000_000)[:3]).data
    assert len(data) < 1000


@pytest.mark.full
def test_dropped_values_give_their_buffers_back(pair):
    for number in range(50):
        x = pair.pool.empty(LARGE, torch.int64).fill_(number)
        got = pair.send((x, x[3:], x))
        assert (got[1] == number).all()
        del x, got
        pair.settle()
    assert pair.pool.statistics()["made"] <= 2


def test_nothing_waits_for_the_collector(pair):
    """A cycle around a batch, on either side, would hold its buffers until some collection."""
    gc.disable()
    try:
        for number in range(20):
            x = pair.pool.empty(LARGE, torch.int64).fill_(number)
            got = pair.send(Data(x=x, y=x[3:], z=torch.ones(4)))
            del x, got
            pair.lender.take_back(pair.borrower.returned())
    finally:
        gc.enable()
    assert pair.pool.statistics()["made"] <= 2


def test_a_buffer_is_lent_until_its_last_tensor_is_gone(pair):
    x = pair.pool.empty(LARGE, torch.int64).fill_(7)
    first, second = pair.send((x, x[3:])), pair.send({"again": x.t()})
    row = first[1][5].numpy()
    del x, first
    for step in range(3):
        pair.settle()
        pair.pool.empty(LARGE, torch.int64).fill_(100 + step)
        assert (row == 7).all()
        assert second is None or (second["again"] == 7).all()
        second = None
    del row
    pair.settle()
    idle = pair.pool.statistics()["idle_bytes"]
    assert idle >= 2 * 300 * 100 * 8  # both the buffer of x and the one that was filled meanwhile


def test_declined_values_give_their_buffers_back(pair):
    packed = pair.lender.pack(pair.pool.empty(LARGE, torch.int64))
    pair.borrower.decline(packed)
    pair.settle()
    assert pair.pool.statistics()["idle_bytes"] > 0


@pytest.mark.full
def test_what_the_pool_frees_is_unmapped():
    pair = Pair(limit_bytes=0)
    before = mappings()
    for _ in range(20):
        pair.send(pair.pool.empty(LARGE, torch.int64).fill_(3))
        pair.settle()
    assert mappings() - before <= 6


def mappings() -> int:
    gc.collect()
    return Path("/proc/self/maps").read_text().count("memfd:halohop")


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_kept_values_outlive_everything_and_then_leave_nothing():
    before, files = mappings(), open_files()
    pair = Pair()
    kept = [pair.send(pair.pool.empty(LARGE, torch.int64).fill_(number)) for number in range(30)]
    assert open_files() == files
    del pair
    gc.collect()
    assert all((tensor == number).all() for number, tensor in enumerate(kept))
    assert mappings() - before == 30  # the lender's are gone
    del kept
    gc.collect()
    assert mappings() == before


def test_new_memory_at_an_old_address_is_not_taken_for_the_old_buffer():
    pair = Pair(limit_bytes=0)
    for number in range(8):
        pair.pool.empty((1 << 21,), torch.uint8).fill_(9)
        pair.pool.statistics()  # frees and unmaps it; the system likes to give the same address to the next mapping
        other = torch.frombuffer(mmap.mmap(-1, 1 << 21), dtype=torch.uint8).fill_(number)
        got = pair.send(other)
        assert got.data_ptr() != other.data_ptr()
        assert same(got, other)
        del got
        pair.settle()


@settings(max_examples=20)
@given(st.recursive(st.integers() | TEXT | st.none(), lambda v: st.lists(v) | st.dictionaries(TEXT, v)))
def test_packing_is_reversible(value):
    assert unpack(pack(value)) == value
