import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from halohop import ops
from halohop.errors import IdError, InputError
from halohop.ops import reference_sorting, sorting

DTYPES = st.sampled_from([torch.int64, torch.int32])


@given(st.data(), DTYPES, DTYPES, st.integers(0, 9), st.integers(0, 9), st.sampled_from([1, 3]))
def test_lists_are_those_of_the_reference(data, listed_dtype, others_dtype, num_listed, num_others, threads):
    """With nodes that have no edge, one edge, none at all; sorted already; and by several threads."""
    ends = st.tuples(st.integers(0, max(num_listed - 1, 0)), st.integers(0, max(num_others - 1, 0)))
    edges = data.draw(st.lists(ends, max_size=30 if num_listed and num_others else 0))
    listed = torch.tensor([edge[0] for edge in edges], dtype=listed_dtype)
    others = torch.tensor([edge[1] for edge in edges], dtype=others_dtype)
    if data.draw(st.booleans()):
        listed = listed.sort().values
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorting, "_ALONE", 1)
        patch.setattr(torch, "get_num_threads", lambda: threads)
        indptr, indices, order = ops.sort_edges(listed, others, num_listed, num_others)
    expected = reference_sorting.sort_edges(listed, others, num_listed)
    assert (order is None) == bool((listed.diff() >= 0).all())
    order = torch.arange(len(edges)) if order is None else order
    for mine, other in zip((indptr, indices.long(), order.long()), expected, strict=True):
        assert torch.equal(mine, other)


@pytest.mark.parametrize(("listed", "others"), [([0, 3], [0, 0]), ([0, -1], [0, 0]), ([0, 0], [2, 0]), ([0, 0], [0, -5])])
def test_ends_that_are_no_nodes_are_named(listed, others):
    with pytest.raises(IdError, match=r"holds (3|-1|2|-5), but nodes go from 0 to (2|1)"):
        ops.sort_edges(torch.tensor(listed), torch.tensor(others), 3, 2)


def test_what_cannot_be_edges_is_refused():
    with pytest.raises(InputError, match="num_listed=-1"):
        ops.sort_edges(torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.int64), -1, 0)
    with pytest.raises(InputError, match="others"):
        ops.sort_edges(torch.zeros(2, dtype=torch.int64), torch.zeros(1, dtype=torch.int64), 3, 3)


def test_what_is_in_order_is_not_copied():
    others = torch.tensor([3, 1], dtype=torch.int32)
    assert ops.sort_edges(torch.tensor([0, 1]), others, 2, 4)[1].data_ptr() == others.data_ptr()


@given(st.lists(st.integers(-1, 6), max_size=20), DTYPES, st.integers(0, 6), st.booleans())
def test_begins_of_sorted_edges_are_those_of_the_reference(ends, dtype, num_listed, in_order):
    """Sorted or not; with nodes that have no edge, and ends that are no nodes."""
    listed = torch.tensor(sorted(ends) if in_order else ends, dtype=dtype)
    found, expected = ops.sorted_begins(listed, num_listed), reference_sorting.sorted_begins(listed, num_listed)
    assert (found is None) == (expected is None)
    assert found is None or torch.equal(found, expected)


def test_begins_of_less_than_no_lists_are_refused():
    with pytest.raises(InputError, match="num_listed=-1"):
        ops.sorted_begins(torch.zeros(0, dtype=torch.int64), -1)


@given(
    st.sampled_from([torch.int64, torch.int32]),
    st.lists(st.one_of(st.integers(0, 9), st.integers(-(2**31), 2**31 - 1)), max_size=50),
    st.sampled_from([0, 2**40, -(2**40), 2**63 - 2**31 - 1]),
    st.booleans(),
)
def test_the_order_of_ids_is_that_of_the_reference(dtype, values, base, far):
    ids = torch.tensor(values, dtype=dtype) + (base if dtype == torch.int64 else 0)
    if far and len(ids):
        ids[0] = torch.iinfo(dtype).min  # further apart than a radix sort is for
    assert torch.equal(ops.ascending_order(ids), reference_sorting.ascending_order(ids))
