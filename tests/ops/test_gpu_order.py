"""Sorts, sums and bounds of times on a GPU: torch's, as NumPy's on the CPU."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from halohop import ops
from halohop.ops.pool import Pool
from tests.support.pretend_gpu import any_pool

IDS = st.lists(st.integers(0, 6), max_size=30)
DTYPES = st.sampled_from([torch.int32, torch.int64])
LEAST, GREATEST = -(2**63), 2**63 - 1


@settings(max_examples=25)
@given(pairs=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), max_size=30), dtype=DTYPES)
def test_distinct_pairs(pairs, dtype):
    pool, (src, dst) = any_pool(), torch.tensor(pairs, dtype=dtype).view(-1, 2).t().contiguous()
    found = ops.distinct_pairs(pool.put(src), pool.put(dst), 5, 4, pool=pool)
    assert torch.equal(found.cpu(), ops.distinct_pairs(src, dst, 5, 4))


@settings(max_examples=25)
@given(ids=IDS, others=IDS, factor=st.integers(1, 2**40))
def test_sums_of_ids(ids, others, factor):
    pool = any_pool()
    count = min(len(ids), len(others))
    for dtype in (torch.int32, torch.int64):
        here = torch.tensor(ids[:count], dtype=dtype), torch.tensor(others[:count], dtype=torch.int64)
        there = tuple(map(pool.put, here))
        assert torch.equal(ops.scaled_sum(*there, factor).cpu(), ops.scaled_sum(*here, factor))
        joined = ops.join_ids(there, pool.empty((2 * count,), torch.int64))
        assert torch.equal(joined.cpu(), ops.join_ids(here, torch.empty(2 * count, dtype=torch.int64)))
    keys = ops.scaled_sum(*here, factor)
    for one, other in zip(ops.quotients(pool.put(keys), factor), ops.quotients(keys, factor), strict=True):
        assert torch.equal(one.cpu(), other)
    assert torch.equal(ops.scaled(there[1], factor).cpu(), ops.scaled(here[1], factor))
    assert torch.equal(ops.shifted(there[1], -3).cpu(), ops.shifted(here[1], -3))
    assert torch.equal(ops.list_begins(there[1], pool).cpu(), ops.list_begins(here[1]))
    assert torch.equal(ops.from_on(there[1], 2).cpu(), ops.from_on(here[1], 2))
    assert torch.equal(ops.ascending_order(there[1]).cpu(), ops.ascending_order(here[1]))


@settings(max_examples=25)
@given(kinds=st.lists(st.sampled_from([0, 1, 2]), max_size=30))
def test_places_of_ids_that_are_chosen_and_of_others(kinds):
    """0: an id, 1: a chosen one, 2: an empty place."""
    pool = any_pool()
    ids, chosen = torch.tensor([-1 if kind == 2 else 7 for kind in kinds]), torch.tensor([kind == 1 for kind in kinds])
    ids, chosen = ids.long(), chosen.bool()
    counts = kinds.count(0), kinds.count(1)
    found = ops.places_apart(pool.put(ids), pool.put(chosen), counts)
    for one, other in zip(found, ops.places_apart(ids, chosen, counts), strict=True):
        assert torch.equal(one.cpu(), other)
    assert ops.count_true([pool.put(chosen), pool.put(~chosen)], pool) == ops.count_true([chosen, ~chosen], Pool())


@pytest.mark.parametrize("times", [torch.int32, torch.int64, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("window", [0, 2.5, 7, 2**70])
def test_bounds_of_times(times, window):
    pool = any_pool()
    inf, nan = float("inf"), float("nan")
    fractions = torch.tensor([2.5, -0.5, inf, -inf, nan, 1e300, -1e300, 2.0**62], dtype=torch.float64)
    for latest in (fractions, torch.tensor([5, -3, LEAST, LEAST + 2, GREATEST, 2**53 + 1])):
        there = pool.put(latest)
        results = [(ops.comparable(there, times), ops.comparable(latest, times))]
        results.append((ops.window_start(there, window, times), ops.window_start(latest, window, times)))
        for found, expected in results:
            assert found.dtype == expected.dtype
            assert torch.equal(found.cpu().nan_to_num(nan=7.5), expected.nan_to_num(nan=7.5))
