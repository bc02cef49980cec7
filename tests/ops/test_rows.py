import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from halohop import ops
from halohop.errors import IdError, InputError
from halohop.ops import reference
from halohop.ops.pieces import widest_word
from tests.support.rows import DTYPES, SHAPES, assert_same, numbers

ROWS = torch.tensor([4, 0, 4, 3, 1, 9, 9])


@given(st.sets(st.integers(0, 9)))
def test_picked_rows_are_those_that_are_gathered(chosen):
    source, rows = numbers(torch.float32, 10, 3), torch.tensor(sorted(chosen), dtype=torch.int64)
    assert_same(ops.pick_rows(source, rows), reference.gather_rows(source, rows))


def test_neighbours_are_picked_without_a_copy():
    source = torch.randn(10, 3)
    assert ops.pick_rows(source, torch.arange(4, 7)).data_ptr() == source[4].data_ptr()
    for outside in (torch.arange(8, 11), torch.arange(-1, 2)):
        with pytest.raises(IdError, match="out of range"):
            ops.pick_rows(source, outside)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_gather_equals_the_reference(dtype, shape):
    source = numbers(dtype, 10, *shape)
    for rows in (ROWS, ROWS.int(), ROWS[:1], ROWS[:0], ROWS[::2]):
        expected = reference.gather_rows(source, rows)
        assert_same(ops.gather_rows(source, rows), expected)
        out = numbers(dtype, len(rows), *shape, seed=1)
        assert ops.gather_rows(source, rows, out) is out
        assert_same(out, expected)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_gather_to_equals_the_reference(dtype, shape):
    source, positions = numbers(dtype, 200, *shape), torch.tensor([7, 2, 11, 0, 5, 2, 8])
    for many in (1, 30):  # more than a block of the kernel
        rows, places = ROWS.repeat(many), (positions + 12 * torch.arange(many)[:, None]).view(-1)
        out, expected = (numbers(dtype, 12 * many, *shape, seed=1) for _ in range(2))
        reference.gather_rows_to(source, rows, places, expected)
        for whole in (source, ops.Pieces([source[:4], source[4:]], [0, 4, 200])):
            for index in (rows, rows.int()):
                ops.gather_rows_to(whole, index, places, out)
                assert_same(out, expected)


@pytest.mark.parametrize(
    "bad", [{"rows": torch.tensor([0, 10])}, {"positions": torch.tensor([0, 3])}, {"rows": torch.tensor([-1, 0])}]
)
def test_gather_to_stays_inside(bad):
    given = {
        "source": torch.zeros(10, 2),
        "rows": torch.tensor([0, 9]),
        "positions": torch.tensor([0, 1]),
        "out": torch.zeros(3, 2),
    }
    with pytest.raises(IdError, match=r"10|3|-1"):
        ops.gather_rows_to(**{**given, **bad})


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_missing_rows_are_zeros_or_what_one_says(dtype, shape):
    source = numbers(dtype, 10, *shape)
    for rows in ([4, -1, -1, 9, 0], [-1, 3, -1], [-1], [2], [], [-1, -1, 5, 5]):
        index = torch.tensor(rows, dtype=torch.int64)
        assert_same(ops.gather_known(source, index), reference.gather_known(source, index))
        assert_same(ops.gather_known(ops.Pieces([source[:4], source[4:]], [0, 4, 10]), index), ops.gather_known(source, index))
        assert torch.equal(ops.known_places(index), reference.known_places(index))
        for value in (0, 1, 3):
            column, expected = (numbers(dtype, len(rows), *shape, seed=1) for _ in range(2))
            ops.fill_missing(column, index, value)
            reference.fill_missing(expected, index, value)
            assert_same(column, expected)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_joined_rows_equal_the_reference(dtype, shape):
    pieces = [numbers(dtype, count, *shape, seed=count) for count in (3, 0, 10, 1)]
    for some in (pieces, pieces[:1], pieces[1:2], [piece[::2] for piece in pieces]):
        assert_same(ops.join_rows(some, pool=ops.Pool()), reference.join_rows(some))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (torch.zeros(1, 2, dtype=torch.float64), r"float64 and shape \(2,\) do not fit behind those of torch.float32"),
        (torch.zeros(1, 3), r"shape \(3,\) do not fit behind"),
        (torch.zeros(1, 2, device="meta"), "lies on meta"),
    ],
)
def test_rows_that_cannot_be_joined_are_named(other, message):
    with pytest.raises(InputError, match=message):
        ops.join_rows([torch.zeros(1, 2), other])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_scatter_equals_the_reference(dtype, shape):
    positions = torch.tensor([4, 0, 9, 3, 1])
    for index in (positions, positions.int(), positions[:1], positions[:0], positions[::2]):
        values = numbers(dtype, len(index), *shape)
        out, expected = (numbers(dtype, 10, *shape, seed=1) for _ in range(2))
        assert ops.scatter_rows(values, index, out) is None
        reference.scatter_rows(values, index, expected)
        assert_same(out, expected)


@given(st.integers(0, 9), st.integers(1, 300), st.integers(0, 200), st.sampled_from([torch.int32, torch.int64]))
def test_odd_widths_and_addresses(offset, width, n, rows_dtype):
    """A slice may begin at any address, so that 8-byte words would straddle: narrower ones are used."""
    source = numbers(torch.uint8, 50 * width + offset)[offset:].view(50, width)
    rows = torch.randint(0, 50, (n,), dtype=rows_dtype, generator=torch.Generator().manual_seed(n))
    gathered = ops.gather_rows(source, rows)
    assert torch.equal(gathered, source[rows.long()])
    back = numbers(torch.uint8, 50 * width + offset, seed=1)[offset:].view(50, width)
    ops.scatter_rows(gathered, rows, back)
    assert torch.equal(back[rows.long()], gathered)


@pytest.mark.parametrize(
    "source",
    [
        numbers(torch.float32, 6, 10).T,
        numbers(torch.float32, 20, 3)[::2],
        numbers(torch.float32, 10, 6)[:, ::2],
        numbers(torch.float32, 1, 4).expand(10, 4),
        numbers(torch.bfloat16, 10, 4, 3).transpose(1, 2),
        torch.arange(20.0).view(torch.complex64).conj(),
        torch.arange(20.0).view(torch.complex64).conj().imag,
        torch.arange(20.0).reshape(10, 2).requires_grad_(),
    ],
    ids=["transposed", "every second row", "every second column", "expanded", "bfloat16", "conj", "neg", "grad"],
)
def test_sources_that_are_not_plain_memory(source):
    expected = source.detach()[ROWS].resolve_conj().resolve_neg().contiguous()
    out = torch.empty_like(expected)
    for result in (ops.gather_rows(source, ROWS), ops.gather_rows(source, ROWS, out)):
        assert_same(result.resolve_conj().resolve_neg(), expected)
        assert not result.requires_grad
    places = torch.tensor([2, 0, 11, 5, 6, 7, 8])
    scattered, wanted = (torch.zeros(12, *source.shape[1:], dtype=source.dtype) for _ in range(2))
    ops.scatter_rows(source.detach()[:7], places, scattered)
    wanted[places] = source.detach()[:7]
    assert_same(scattered, wanted)
    with pytest.raises(IdError, match="row 10 at position 1 is out of range: there are 10 rows"):
        ops.gather_rows(source, torch.tensor([0, 10]))


@pytest.mark.parametrize(("offset", "row_bytes", "size"), [(0, 16, 8), (0, 12, 4), (4, 16, 4), (1, 16, 1), (0, 6, 1), (8, 8, 8)])
def test_words_divide_rows_and_addresses(offset, row_bytes, size):
    """x86 forgives a load across a word's boundary; not every processor does."""
    assert widest_word(row_bytes, [torch.zeros(64, dtype=torch.uint8)[offset:]]).itemsize == size


def test_read_only_files(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(5000, dtype=np.float32).reshape(50, 100))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch wants writable memory
        source = torch.from_numpy(np.load(tmp_path / "x.npy", mmap_mode="r"))
    assert torch.equal(ops.gather_rows(source, ROWS), source[ROWS])


def test_new_results_share_nothing():
    source = torch.arange(10)
    result = ops.gather_rows(source, torch.arange(10))
    result += 1
    assert source.tolist() == list(range(10))


@pytest.mark.parametrize("shape", [(), (3,), (0,), (100,)], ids=str)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("bad", [-1, 5, 2**31 - 1, -(2**31)])
def test_rows_out_of_range_are_named(bad, dtype, shape):
    rows = torch.tensor([0, 4, bad, -7], dtype=dtype)
    message = f"row {bad} at position 2 is out of range: there are 5 rows"
    with pytest.raises(IdError, match=message):
        ops.gather_rows(torch.zeros(5, *shape), rows)
    with pytest.raises(IdError, match=message):
        ops.scatter_rows(torch.zeros(4, *shape), rows, torch.zeros(5, *shape))


def test_no_rows_at_all():
    assert ops.gather_rows(torch.from_numpy(np.empty(0)), torch.tensor([], dtype=torch.int32)).dtype == torch.float64
    for shape in ((0,), (0, 3)):
        assert ops.gather_rows(torch.zeros(shape), torch.tensor([], dtype=torch.int64)).shape == shape
        with pytest.raises(IdError, match="there are 0 rows"):
            ops.gather_rows(torch.zeros(shape), torch.tensor([0]))


X = torch.zeros(4, 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((torch.tensor(1.0), ROWS), "source is a scalar"),
        ((X, torch.tensor([0.5])), "rows must be one-dimensional int64 or int32"),
        ((X, torch.tensor([True])), "rows must be one-dimensional int64 or int32"),
        ((X.to("meta"), ROWS), "source lies on meta"),
        ((X, ROWS.to("meta")), "rows lies on meta"),
        ((X, torch.tensor([0]), torch.zeros(1, 3).to("meta")), "out lies on meta"),
        (
            (X, torch.tensor([0]), torch.zeros(2, 3)),
            r"out is torch.float32 of shape \(2, 3\), expected torch.float32 of shape \(1, 3\)",
        ),
        ((X, torch.tensor([0]), torch.zeros(1, 3, dtype=torch.float64)), "out is torch.float64"),
        ((X, torch.tensor([0, 1]), torch.zeros(3, 2).T), "out is not contiguous"),
    ],
)
def test_wrong_arguments_of_gather_are_named(arguments, message):
    with pytest.raises(InputError, match=message):
        ops.gather_rows(*arguments)


@pytest.mark.parametrize(
    ("values", "positions", "out", "message"),
    [
        (X, torch.tensor([0]), X, "positions has 1 entries, expected 4"),
        (X, torch.arange(4), torch.zeros(9, 2), r"expected torch.float32 of shape \(9, 3\)"),
        (X, torch.arange(4), torch.zeros(9, 3, dtype=torch.int32), "out is torch.int32"),
        (X, torch.arange(4), torch.zeros(3, 9).T, "out is not contiguous"),
        (X, torch.arange(4), torch.tensor(1.0), "out is a scalar"),
    ],
)
def test_wrong_arguments_of_scatter_are_named(values, positions, out, message):
    with pytest.raises(InputError, match=message):
        ops.scatter_rows(values, positions, out)


@pytest.mark.parametrize("num_rows", [0, 1])
def test_short_tensors_may_have_any_stride(num_rows):
    """A column of a matrix with at most one row counts as contiguous, whatever its stride."""
    source = torch.arange(2 * num_rows, dtype=torch.int32).view(num_rows, 2)[:, 1]
    rows = torch.zeros(num_rows, dtype=torch.int64)
    assert ops.gather_rows(source, rows).tolist() == source.tolist()
    out = torch.zeros(num_rows, 2, dtype=torch.int32)[:, 0]
    ops.scatter_rows(source, rows, out)
    assert out.tolist() == source.tolist()
