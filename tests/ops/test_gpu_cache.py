"""A cache of rows on GPUs: whatever it holds, rows are those of the column."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from halohop import ops
from halohop.errors import IdError, InputError
from halohop.ops import cached_rows
from halohop.ops.cached_rows import CachedRows, HotPlaces
from halohop.ops.device import DevicePool
from halohop.ops.pieces import Pieces
from tests.support.pretend_gpu import PretendPool, any_pool, home
from tests.support.rows import DTYPES, SHAPES, assert_same, numbers

BOUNDS = st.lists(st.integers(0, 12), min_size=1, max_size=4).map(lambda counts: [0, *torch.tensor(counts).cumsum(0).tolist()])


@settings(max_examples=30, deadline=None)
@given(BOUNDS, st.sampled_from(SHAPES), st.sampled_from(DTYPES), st.sampled_from([None, 1, 3]), st.booleans(), st.data())
def test_rows_are_those_of_the_column_whatever_is_cached(bounds, shape, dtype, num_peers, wide, data):
    pool, whole, each = any_pool(), numbers(dtype, bounds[-1], *shape), range(bounds[-1])
    source = Pieces([whole[low:high].clone() for low, high in pairwise(bounds)], bounds)
    hot = sorted(data.draw(st.sets(st.sampled_from(each)))) if each else []
    peers = None if num_peers is None else [any_pool() for _ in range(num_peers)]
    column = CachedRows(source, torch.tensor(hot, dtype=torch.int64), pool, peers=peers)
    asked = data.draw(st.lists(st.integers(-1, bounds[-1] - 1), max_size=90))
    rows = torch.tensor(asked, dtype=torch.int64 if wide else torch.int32)
    assert_same(home(column.take(pool.put(rows), padded=True, pool=pool)), ops.gather_known(source, rows))
    known = rows[rows >= 0]
    assert_same(home(column.take(pool.put(known), pool=pool)), ops.gather_rows(source, known))
    pool.check()
    assert column.statistics() == {"device_rows": 2 * sum(row in hot for row in asked)}
    assert column.num_hot == len(hot)


@pytest.mark.parametrize("peers", [None, 2])
def test_all_rows_may_be_on_devices(peers):
    pool, whole = any_pool(), torch.rand(9, 3)
    pools = None if peers is None else [any_pool() for _ in range(peers)]
    column = CachedRows(Pieces([whole], [0, 9]), None, pool, peers=pools)
    assert column.num_hot == 9
    rows = torch.tensor([8, 0, 8, 3])
    assert torch.equal(home(column.take(pool.put(rows), pool=pool)), whole[rows])


def test_peers_hold_equal_shares():
    peers = [any_pool(), any_pool()]
    CachedRows(Pieces([torch.rand(9, 4)], [0, 9]), torch.tensor([1, 2, 5, 8]), any_pool(), peers=peers)
    assert [peer.counters.snapshot()["device_put_bytes"] for peer in peers] == [32, 32]


@pytest.mark.parametrize("hot", [[], [0, 2], [0, 1, 2]], ids=len)
@pytest.mark.parametrize("row", [3, 4, -1, -2, 2**40])
def test_a_row_that_is_not_there_is_zeros_and_said_at_the_next_check(row, hot):
    pool = any_pool()
    column = CachedRows(Pieces([torch.ones(3)], [0, 3]), torch.tensor(hot, dtype=torch.int64), pool)
    assert home(column.take(pool.put(torch.tensor([2, row])), pool=pool)).tolist() == [1, 0]
    with pytest.raises(IdError, match=f"row {row} is not there"):
        pool.check()


def test_rows_are_taken_without_waiting():
    pool = any_pool()
    column = CachedRows(Pieces([torch.ones(3)], [0, 3]), torch.tensor([1]), pool)
    column.take(pool.put(torch.tensor([2, 1])), pool=pool)
    assert pool.counters.snapshot().get("device_waits", 0) == 0


def test_memory_that_is_not_locked_is_said():
    class Refusing(PretendPool):
        def page_locked_bytes(self, num_bytes: int) -> torch.Tensor:
            raise RuntimeError("CUDA error: out of memory")

    with pytest.raises(InputError, match="ulimit"):
        CachedRows(Pieces([torch.ones(3)], [0, 3]), torch.tensor([1]), Refusing(locks=False))


def test_a_peer_that_cannot_be_read_is_said(monkeypatch):
    here, there = (DevicePool.__new__(DevicePool) for _ in range(2))
    here.device, there.device = torch.device("cuda", 0), torch.device("cuda", 1)
    monkeypatch.setattr(torch.cuda, "can_device_access_peer", lambda device, peer: False)
    with pytest.raises(InputError, match="cuda:0 cannot read the memory of cuda:1"):
        here.reach(there)
    here.reach(here)


def test_a_peer_is_reached_by_a_copy_that_the_reading_device_makes(monkeypatch):
    """Torch copies on the device that is copied from, and turns on that this one reaches the memory of the other."""
    copied = []

    class Copied:
        def __init__(self, source: torch.device) -> None:
            self.source = source

        def to(self, target: torch.device) -> None:
            copied.append((self.source.index, target.index))

    here, there = (DevicePool.__new__(DevicePool) for _ in range(2))
    here.device, there.device = torch.device("cuda", 0), torch.device("cuda", 1)
    monkeypatch.setattr(DevicePool, "empty", lambda pool, shape, dtype: Copied(pool.device))
    monkeypatch.setattr(torch.cuda, "can_device_access_peer", lambda device, peer: True)
    here.reach(there)
    assert copied == [(0, 1)]


def test_the_host_holds_some_rows_of_a_cache_at_a_time(monkeypatch):
    monkeypatch.setattr(cached_rows, "_AT_ONCE", 100)
    pool, whole, put = any_pool(), torch.arange(60.0).view(20, 3), list[int]()
    moved = pool.put
    monkeypatch.setattr(pool, "put", lambda tensor: put.append(tensor.nbytes if tensor.dim() > 1 else 0) or moved(tensor))
    column = CachedRows(Pieces([whole], [0, 20]), torch.arange(0, 20, 2), pool)
    assert sum(put) == 10 * 12
    assert max(put) <= 100
    asked = torch.arange(20)
    assert torch.equal(home(column.take(moved(asked), pool=pool)), whole)


def test_columns_share_the_places_of_their_rows():
    pool, rows = any_pool(), torch.tensor([1, 2])
    places = HotPlaces(rows, 5, pool)
    before = pool.counters.snapshot()["device_put_bytes"]
    columns = [torch.rand(5, 3), torch.arange(5)]
    cached = [CachedRows(Pieces([column], [0, 5]), places, pool) for column in columns]
    tables = 2 * (3 * 8 + 2 * 8) + 8  # addresses and bounds of two pieces, and of one
    assert pool.counters.snapshot()["device_put_bytes"] - before <= 2 * (12 + 8) + 2 * tables
    asked = torch.tensor([4, 2, 1])
    for column, one in zip(columns, cached, strict=True):
        assert torch.equal(home(one.take(pool.put(asked), pool=pool)), column[asked])
    assert places.num_hits() == 4
