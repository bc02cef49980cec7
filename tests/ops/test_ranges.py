"""Ids by ranges, numbers in turn, ids that were not met before: as plain Python finds them."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from halohop import ops
from halohop.errors import IdError, InputError
from halohop.ops import reference

DTYPES = st.sampled_from([torch.int32, torch.int64])


@given(st.data(), DTYPES)
def test_ranges_equal_the_reference(data: st.DataObject, dtype: torch.dtype) -> None:
    widths = data.draw(st.lists(st.sampled_from([0, 1, 2, 7, 300_000]), min_size=1, max_size=6))
    low = data.draw(st.integers(-5, 5))
    bounds = [low + sum(widths[:count]) for count in range(len(widths) + 1)]
    inside = st.integers(bounds[0], bounds[-1] - 1) if bounds[-1] > bounds[0] else st.nothing()
    ids = torch.tensor(data.draw(st.lists(inside, max_size=20)) if bounds[-1] > bounds[0] else [], dtype=dtype)
    found = ops.Ranges(bounds).find(ids)
    assert found.dtype == torch.int32
    assert found.tolist() == reference.find_ranges(ids, bounds)
    assert len(ops.Ranges(bounds)) == len(widths)


@given(st.lists(st.integers(0, 3), max_size=30), DTYPES, DTYPES)
def test_numbers_equal_the_reference(keys: list[int], dtype: torch.dtype, wanted: torch.dtype) -> None:
    cursors = torch.tensor([0, 10, 20, 30])
    expected, after = reference.number(keys, cursors.tolist())
    found = ops.number(torch.tensor(keys, dtype=dtype), cursors, wanted)
    assert (found.dtype, found.tolist(), cursors.tolist()) == (wanted, expected, after)


@given(st.lists(st.integers(0, 40), max_size=60), st.integers(0, 41), st.integers(0, 41), DTYPES)
def test_ids_are_met_once(ids: list[int], low: int, high: int, dtype: torch.dtype) -> None:
    met, known = torch.zeros(6, dtype=torch.uint8), set()
    for half in (ids[: len(ids) // 2], ids[len(ids) // 2 :]):
        outside = [v for v in half if not low <= v < high]
        new = set(outside) - known
        known |= new
        assert ops.meet(torch.tensor(half, dtype=dtype), low, high, met) == (len(outside), len(new))


def test_what_is_in_no_range_is_named() -> None:
    for wrong in (-1, 10):
        with pytest.raises(IdError, match=rf"id {wrong} is in none of the ranges from 0 to 9"):
            ops.Ranges([0, 4, 10]).find(torch.tensor([3, wrong]))
    with pytest.raises(IdError, match="key 2 is none of 0 to 1"):
        ops.number(torch.tensor([0, 2]), torch.tensor([0, 0]))
    with pytest.raises(InputError, match=r"two bounds or more that never fall, got \[0, 5, 3\]"):
        ops.Ranges([0, 5, 3])
