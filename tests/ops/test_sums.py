"""Rows with equal ids are added up in the order in which they stand."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from halohop import ops
from halohop.errors import InputError
from halohop.ops import reference_rules


@given(
    st.lists(st.one_of(st.integers(0, 5), st.integers(-(2**63), 2**63 - 1)), max_size=40),
    st.sampled_from([(), (0,), (1,), (3,), (2, 8), (33,)]),
    st.sampled_from([torch.float32, torch.float64]),
    st.booleans(),
)
def test_sums_have_the_bits_of_the_reference(ids: list[int], shape: tuple[int, ...], dtype: torch.dtype, mean: bool) -> None:
    gid = torch.tensor(ids, dtype=torch.int64)
    rows = torch.randn(len(ids), *shape, dtype=dtype) * 10 ** torch.randn(len(ids), *[1] * len(shape), dtype=dtype)
    found = ops.sum_by_id(gid, rows, mean=mean)
    for one, other in zip(found, reference_rules.sum_by_id(gid, rows, mean=mean), strict=True):
        assert torch.equal(one, other)


@given(
    st.lists(st.lists(st.one_of(st.integers(0, 5), st.integers(-(2**63), 2**63 - 1)), max_size=8), min_size=1, max_size=5),
    st.sampled_from([(), (0,), (3,), (2, 8)]),
    st.sampled_from([torch.float32, torch.float64]),
    st.booleans(),
    st.booleans(),
)
def test_rows_of_several_tensors_are_added_as_if_they_were_one(
    ids: list[list[int]], shape: tuple[int, ...], dtype: torch.dtype, mean: bool, rise: bool
) -> None:
    gid = [torch.tensor(sorted(set(some)) if rise else some, dtype=torch.int64) for some in ids]
    rows = [torch.randn(len(some), *shape, dtype=dtype) * 10 ** torch.randn(1, dtype=dtype) for some in gid]
    expected = reference_rules.sum_by_id(gid, rows, mean=mean)
    before = [values.clone() for values in rows]
    found = ops.sum_by_id(gid, rows, mean=mean, pool=ops.Pool())
    united, sums = ops.unite(gid, rows, mean=mean)
    for one, other in zip((*found, united, sums.tensor()), (*expected, *expected), strict=True):
        assert torch.equal(one, other)
    assert (len(sums), sums.shape, sums.dtype) == (len(united), tuple(expected[1].shape), dtype)
    assert sums.sum_of_squares() == pytest.approx(reference_rules.sum_of_squares(expected[1]), rel=1e-12)
    assert torch.equal(sums[1:].tensor(), expected[1][1:])
    assert torch.equal(sums.pick(torch.arange(len(united)).flip(0)).tensor(), expected[1].flip(0))
    for one, other in zip(rows, before, strict=True):
        assert torch.equal(one, other)


def test_rows_of_one_rank_are_not_copied() -> None:
    gid, rows = [torch.tensor([2, 9]), torch.tensor([5, 9])], [torch.ones(2, 3), torch.ones(2, 3)]
    _, sums = ops.unite(gid, rows)
    rows[0][0], rows[1][0] = 7.0, 8.0
    assert sums.tensor()[:, 0].tolist() == [7.0, 8.0, 2.0]


def test_rows_may_begin_at_any_address() -> None:
    memory = torch.zeros(41, dtype=torch.uint8)
    odd = torch.frombuffer(memory.numpy(), dtype=torch.float32, offset=1, count=6).view(2, 3)
    odd.copy_(torch.arange(6.0).view(2, 3))
    ids, even = torch.tensor([1, 2]), torch.ones(2, 3)
    assert ops.sum_by_id([ids, ids], [even, odd])[1].tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]


def test_many_rows_of_few_ids() -> None:
    gid, rows = torch.randint(-500, 500, (20_000,)) * 2**40, torch.randn(20_000, 5, dtype=torch.float64)
    found, sums = ops.sum_by_id(gid, rows)
    ids, places = torch.unique(gid, return_inverse=True)
    assert torch.equal(found, ids)
    torch.testing.assert_close(sums, torch.zeros(len(ids), 5, dtype=torch.float64).index_add_(0, places, rows))


def test_rows_of_ids_that_ascend_are_not_copied() -> None:
    gid, rows = torch.tensor([2, 5, 9]), torch.randn(3, 4)
    found, sums = ops.sum_by_id(gid, rows, mean=True)
    assert (found.data_ptr(), sums.data_ptr()) == (gid.data_ptr(), rows.data_ptr())


@given(st.lists(st.floats(-1e3, 1e3), max_size=80), st.sampled_from([torch.float32, torch.float64]))
def test_squares_are_added_up(values: list[float], dtype: torch.dtype) -> None:
    rows = torch.tensor(values, dtype=dtype)
    assert ops.sum_of_squares(rows) == pytest.approx(reference_rules.sum_of_squares(rows), rel=1e-12, abs=1e-300)


@pytest.mark.parametrize("place", [0, 31, 32, 69])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_squares_are_finite_only_where_all_numbers_are(place: int, bad: float) -> None:
    rows = torch.full((7, 10), 3e38)
    assert math.isfinite(ops.sum_of_squares(rows))
    rows.view(-1)[place] = bad
    assert not math.isfinite(ops.sum_of_squares(rows))


@given(
    st.lists(st.floats(width=32), max_size=80),
    st.sampled_from([torch.float32, torch.float64]),
)
def test_entries_that_are_not_finite_are_found(values: list[float], dtype: torch.dtype) -> None:
    rows = torch.tensor(values, dtype=dtype)
    assert ops.all_finite(rows) == reference_rules.all_finite(rows)
    assert ops.any_huge(rows) == reference_rules.any_huge(rows)


@pytest.mark.parametrize(("dtype", "least"), [(torch.float32, 2.0**97), (torch.float64, 2.0**769)])
def test_sums_of_what_is_not_huge_are_finite(dtype: torch.dtype, least: float) -> None:
    most = torch.tensor([least, -least], dtype=dtype).nextafter(torch.zeros(2, dtype=dtype))
    assert not ops.any_huge(most)
    assert (most * 2.0**30).isfinite().all()
    for huge in (least, -least, math.inf, math.nan):
        assert ops.any_huge(torch.tensor([1.0, huge], dtype=dtype))


@pytest.mark.parametrize("place", [0, 31, 32, 69])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_one_entry_that_is_not_finite_is_found(place: int, bad: float) -> None:
    rows = torch.full((7, 10), 3e38)
    assert ops.all_finite(rows)
    rows.view(-1)[place] = bad
    assert not ops.all_finite(rows)


def test_other_rows_are_refused() -> None:
    with pytest.raises(InputError, match=r"2 tensors of rows do not fit 1 of ids"):
        ops.sum_by_id([torch.tensor([1])], [torch.zeros(1), torch.zeros(1)])
    with pytest.raises(InputError, match=r"rows must be 1 of float32 or float64, got torch.float64"):
        ops.sum_by_id([torch.tensor([1])] * 2, [torch.zeros(1), torch.zeros(1, dtype=torch.float64)])
    with pytest.raises(InputError, match=r"rows must be float32 or float64, got torch.int64"):
        ops.all_finite(torch.tensor([1]))
    with pytest.raises(InputError, match=r"rows must be 2 of float32 or float64, got torch.float16"):
        ops.sum_by_id(torch.tensor([1, 1]), torch.zeros(2, 3, dtype=torch.float16))
    with pytest.raises(InputError, match=r"rows must be 2 of float32 or float64, got torch.float32 of shape \(3, 3\)"):
        ops.sum_by_id(torch.tensor([1, 1]), torch.zeros(3, 3))
    with pytest.raises(InputError, match=r"rows must be float32 or float64, got torch.int64"):
        ops.sum_of_squares(torch.tensor([1]))
