from itertools import accumulate

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from halohop import ops
from halohop.errors import IdError, InputError
from halohop.ops import reference

DTYPES = st.sampled_from([torch.int32, torch.int64])


@given(st.data())
def test_never_falls_equals_the_reference(data):
    """Often sorted, sometimes with one entry spoilt; empty lists, lists of one, and no list at all."""
    degrees = data.draw(st.lists(st.integers(0, 4), max_size=6))
    numbers = st.sampled_from([-1.0, 0.0, 0.0, 1.0, float("inf"), float("nan")])
    lists = [sorted(data.draw(st.lists(numbers, min_size=degree, max_size=degree))) for degree in degrees]
    values = torch.tensor([value for entries in lists for value in entries], dtype=torch.float32)
    if len(values) and data.draw(st.booleans()):
        values[data.draw(st.integers(0, len(values) - 1))] = data.draw(numbers)
    indptr = torch.tensor([0, *accumulate(degrees)])
    assert ops.never_falls(indptr, values) == reference.never_falls(indptr, values)


@st.composite
def divided_ids(draw):
    sizes = draw(st.lists(st.integers(0, 5), min_size=1, max_size=9))
    first = draw(st.sampled_from([0, -3, 2**31, 2**40]))
    bounds = [first, *(first + end for end in accumulate(sizes))]
    members = range(bounds[0], bounds[-1])
    ids = draw(st.lists(st.sampled_from(members), max_size=100)) if members else []
    dtype = torch.int64 if first >= 2**31 else draw(DTYPES)
    buckets = draw(st.lists(st.integers(0, 4), min_size=len(sizes), max_size=len(sizes)))
    return torch.tensor(ids, dtype=dtype), bounds, buckets


@given(divided_ids())
def test_bucket_equals_the_reference(arguments):
    result, expected = ops.bucket(*arguments), reference.bucket(*arguments)
    assert result.order.dtype == torch.int64
    assert torch.equal(result.order, expected.order)
    assert result.starts == expected.starts


def test_bucket_of_many_ids_is_stable():
    """Hundreds of parts, most of them empty, and more ids than one prefetch distance."""
    bounds = sorted([0, 1000] + [37 * i % 1000 for i in range(300)] + [500] * 50)
    buckets = [i % 7 for i in range(len(bounds) - 1)]
    ids = torch.randint(0, 1000, (5000,), generator=torch.Generator().manual_seed(0))
    result, expected = ops.bucket(ids, bounds, buckets), reference.bucket(ids, bounds, buckets)
    assert torch.equal(result.order, expected.order)
    assert result.starts == expected.starts


def test_bucket_of_no_parts():
    assert ops.bucket(torch.tensor([], dtype=torch.int64), [0], []).starts == (0,)
    with pytest.raises(IdError):
        ops.bucket(torch.tensor([0]), [0], [])


@pytest.mark.parametrize("bad", [-1, 10, 2**31 - 1])
def test_ids_outside_the_bounds_are_named(bad):
    for dtype in (torch.int32, torch.int64):
        with pytest.raises(IdError, match=f"id {bad} is outside the graph: ids go from 0 to 9"):
            ops.bucket(torch.tensor([3, bad], dtype=dtype), [0, 4, 10], [0, 1])


@pytest.mark.parametrize(
    ("bounds", "buckets", "message"),
    [([0, 5], [0, 1], "2 parts need 3 bounds"), ([0, 5, 3], [0, 1], "never fall"), ([0, 5], [-1], "buckets are 0, 1, ...")],
)
def test_wrong_divisions_are_named(bounds, buckets, message):
    with pytest.raises(InputError, match=message):
        ops.bucket(torch.tensor([0]), bounds, buckets)


@given(st.lists(st.integers(0, 6), max_size=100), st.randoms(use_true_random=False), DTYPES)
def test_stitch_equals_the_reference(lengths, random, dtype):
    places = list(range(len(lengths)))
    random.shuffle(places)
    counts, order = torch.tensor(lengths, dtype=dtype), torch.tensor(places, dtype=dtype)
    for result, expected in zip(ops.stitch(counts, order), reference.stitch(counts, order), strict=True):
        assert result.dtype == torch.int64
        assert torch.equal(result, expected)


def test_stitch_undoes_bucket():
    """Asked bucket by bucket and stitched, answers come as if asked at once: what the router of several hosts stands on."""
    ids = torch.tensor([7, 1, 9, 1, 4, 0])
    buckets = ops.bucket(ids, [0, 3, 8, 10], [1, 0, 2])
    asked = ids[buckets.order]
    counts, source = ops.stitch(asked % 3, buckets.order)
    assert torch.equal(counts, ids % 3)
    assert torch.equal(asked.repeat_interleave(asked % 3)[source], ids.repeat_interleave(ids % 3))


@pytest.mark.parametrize(
    ("counts", "order"),
    [([1, 1], [0, 0]), ([1, 1], [0, 2]), ([1, 1], [-1, 0]), ([1, -1], [0, 1]), ([0, 0], [1, 1])],
)
def test_stitch_refuses_what_is_no_permutation(counts, order):
    with pytest.raises(InputError, match="order must hold each of 0 to 1 once"):
        ops.stitch(torch.tensor(counts), torch.tensor(order))
    with pytest.raises(InputError, match="order has 1 entries, expected 2"):
        ops.stitch(torch.tensor(counts), torch.tensor([0]))


@given(st.integers(1, 20).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.integers(0, n - 1), max_size=150))), DTYPES)
def test_build_csc_equals_the_reference(graph, dtype):
    num_dst, dst = graph[0], torch.tensor(graph[1], dtype=dtype)
    for result, expected in zip(ops.build_csc(dst, num_dst), reference.build_csc(dst, num_dst), strict=True):
        assert result.dtype == torch.int64
        assert torch.equal(result, expected)


def test_build_csc_without_destinations():
    indptr, order = ops.build_csc(torch.tensor([], dtype=torch.int32), 0)
    assert indptr.tolist() == [0]
    assert order.tolist() == []


@pytest.mark.parametrize("bad", [-1, 3, 2**31 - 1])
def test_build_csc_names_destinations_out_of_range(bad):
    for dtype in (torch.int32, torch.int64):
        with pytest.raises(IdError, match=f"dst holds {bad}, but destinations go from 0 to 2"):
            ops.build_csc(torch.tensor([0, bad], dtype=dtype), 3)
    with pytest.raises(InputError, match="num_dst=-1"):
        ops.build_csc(torch.tensor([0]), -1)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=60), DTYPES)
def test_distinct_pairs_equals_the_reference(pairs, dtype):
    """Repeats, and pairs that share one end: mixing up the ends or an unstable sort shows."""
    src, dst = (torch.tensor([pair[end] for pair in pairs], dtype=dtype) for end in (0, 1))
    got = ops.distinct_pairs(src, dst, 4, 5)
    assert got.dtype == torch.int64
    assert torch.equal(got, reference.distinct_pairs(src, dst, 4, 5))


def test_distinct_pairs_refuses_what_are_no_pairs():
    ends = torch.tensor([0, 3])
    with pytest.raises(InputError, match="dst has 1 entries, expected 2"):
        ops.distinct_pairs(ends, ends[:1], 4, 4)
    for sizes in ((3, 4), (4, 3)):
        with pytest.raises(IdError, match="holds 3"):
            ops.distinct_pairs(ends, ends, *sizes)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("step", [1, 2])
def test_copy_ids_is_the_reference(dtype, step):
    ids = torch.arange(-3, 100_000, dtype=dtype)[::step]
    got, expected = (torch.zeros(len(ids), dtype=torch.int64) for _ in range(2))
    assert ops.copy_ids(ids, got) is got
    assert torch.equal(got, reference.copy_ids(ids, expected))


def test_copy_ids_refuses_what_it_cannot_fill():
    with pytest.raises(InputError, match="out has 4 entries, expected 3"):
        ops.copy_ids(torch.arange(3), torch.empty(4, dtype=torch.int64))
    with pytest.raises(InputError, match=r"not contiguous \(strides \(2,\)\)"):
        ops.copy_ids(torch.arange(3), torch.empty(6, dtype=torch.int64)[::2])


@given(st.lists(st.integers(0, 5), max_size=30), st.integers(-5, 2**40))
def test_repeat_positions_is_the_reference(counts, begin):
    lengths = torch.tensor(counts, dtype=torch.int64)
    got, expected = (torch.full((sum(counts),), -9) for _ in range(2))
    ops.repeat_positions(lengths, begin, got)
    reference.repeat_positions(lengths, begin, expected)
    assert torch.equal(got, expected)


@pytest.mark.parametrize("length", [2, 4])
def test_repeat_positions_fills_out_exactly(length):
    with pytest.raises(InputError, match=f"{length} entries, but counts sum up to 3"):
        ops.repeat_positions(torch.tensor([1, 2]), 0, torch.empty(length, dtype=torch.int64))


@given(st.lists(st.integers(0, 6), max_size=100), st.randoms(use_true_random=False), DTYPES, DTYPES, st.integers(1, 4))
def test_stitched_lists_equal_the_reference(lengths, random, dtype, of_values, num_pieces):
    places = list(range(len(lengths)))
    random.shuffle(places)
    chosen = [random.randrange(num_pieces) for _ in lengths]
    pieces = []
    for piece in range(num_pieces):
        mine = [number for number, which in enumerate(chosen) if which == piece]
        counts, order = ([values[number] for number in mine] for values in (lengths, places))
        columns = [torch.arange(sum(counts), dtype=kind) + 1000 * piece for kind in (of_values, torch.int64)]
        pieces.append((torch.tensor(counts, dtype=dtype), torch.tensor(order, dtype=dtype), columns))
    (counts, columns), (wanted, expected) = ops.stitch_lists(pieces), reference.stitch_lists(pieces)
    assert torch.equal(counts, wanted)
    for column, other in zip(columns, expected, strict=True):
        assert column.dtype == other.dtype
        assert torch.equal(column, other)


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        ([([1], [0], [1]), ([1], [0], [1])], "order must hold each of 0 to 1 once"),
        ([([1], [0], [1]), ([1], [2], [1])], "order must hold each of 0 to 1 once"),
        ([([1, -1], [0, 1], [])], "counts must not be negative"),
        ([([2], [0], [1])], "a column has 1 entries, expected 2"),
        ([([1], [0], [1, 2])], "a column has 2 entries, expected 1"),
    ],
)
def test_lists_that_do_not_fit_are_refused(pieces, message):
    with pytest.raises(InputError, match=message):
        ops.stitch_lists([(torch.tensor(a), torch.tensor(b), [torch.tensor(c, dtype=torch.int64)]) for a, b, c in pieces])
    one, other = (torch.tensor([1]), torch.tensor([0]), [torch.tensor([5])]), (torch.tensor([1]), torch.tensor([1]))
    with pytest.raises(InputError, match=r"int64 and torch\.int32"):
        ops.stitch_lists([one, (*other, [torch.tensor([5], dtype=torch.int32)])])
