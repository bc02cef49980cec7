"""Rows on a GPU: those that the CPU copies."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from halohop import ops
from halohop.errors import IdError, InputError
from halohop.ops import Narrow, reference, reference_narrow
from halohop.ops.device import DevicePool
from halohop.ops.device_pieces import DevicePieces
from tests.support.pretend_gpu import any_pool, home
from tests.support.rows import DTYPES, SHAPES, assert_same, numbers

FEW = settings(max_examples=25, deadline=None)
SOME_SHAPES = st.sampled_from(SHAPES)
SOME_DTYPES = st.sampled_from(DTYPES)
BOUNDS = st.lists(st.integers(0, 12), min_size=1, max_size=4).map(lambda counts: [0, *torch.tensor(counts).cumsum(0).tolist()])


def shifted_by(offset: int, tensor: torch.Tensor, pool: DevicePool) -> torch.Tensor:
    """The same values on the device, `offset` elements behind an address that is aligned."""
    room = torch.empty(offset + tensor.numel(), dtype=tensor.dtype)
    room[offset:] = tensor.flatten()
    return pool.put(room)[offset:].view(tensor.shape)


@FEW
@given(BOUNDS, SOME_SHAPES, SOME_DTYPES, st.integers(0, 3), st.booleans(), st.data())
def test_gathered_rows_are_those_of_the_source(bounds, shape, dtype, offset, wide, data):
    pool, whole = any_pool(), numbers(dtype, bounds[-1], *shape)
    held = [shifted_by(offset, whole[low:high], pool) for low, high in pairwise(bounds)]
    rows = torch.tensor(
        data.draw(st.lists(st.integers(-1, bounds[-1] - 1), max_size=90)), dtype=torch.int64 if wide else torch.int32
    )
    there = pool.put(rows)
    for source in (DevicePieces(held, bounds, pool=pool), shifted_by(offset, whole, pool)):
        assert_same(home(ops.gather_known(source, there, pool=pool)), ops.gather_known(whole, rows))
        pool.check()
        known = rows[rows >= 0]
        assert_same(home(ops.gather_rows(source, pool.put(known), pool=pool)), reference.gather_rows(whole, known))
        out = pool.put(numbers(dtype, len(known), *shape, seed=1))
        assert ops.gather_rows(source, pool.put(known), out) is out
        assert_same(home(out), reference.gather_rows(whole, known))
    pool.check()


@FEW
@given(st.integers(0, 40), SOME_SHAPES, SOME_DTYPES, st.integers(0, 3), st.booleans(), st.integers(0, 2**32))
def test_scattered_rows_are_those_of_the_cpu(count, shape, dtype, offset, wide, seed):
    generator = torch.Generator().manual_seed(seed)
    source, values = numbers(dtype, 50, *shape), numbers(dtype, count, *shape, seed=1)
    rows = torch.randint(0, 50, (count,), generator=generator)
    positions = torch.randperm(60, generator=generator)[:count]
    positions = positions if wide else positions.int()
    pool, expected = any_pool(), numbers(dtype, 60, *shape, seed=2)
    out = shifted_by(offset, expected, pool)
    reference.scatter_rows(values, positions, expected)
    ops.scatter_rows(pool.put(values), pool.put(positions), out)
    assert_same(home(out), expected)
    reference.gather_rows_to(source, rows, positions, expected)
    lists = DevicePieces([pool.put(source)], [0, 50], pool=pool)
    ops.gather_rows_to(lists, pool.put(rows), pool.put(positions), out)
    assert_same(home(out), expected)


@pytest.mark.parametrize("in_pieces", [False, True])
@pytest.mark.parametrize("shape", [(), (3,), (0,)], ids=str)
@pytest.mark.parametrize("row", [3, -1, -2, 2**40])
def test_a_row_that_is_not_there_is_zeros_and_said_at_the_next_check(row, shape, in_pieces):
    pool = any_pool()
    ones = pool.put(torch.ones(3, *shape))
    source = DevicePieces([ones], [0, 3], pool=pool) if in_pieces else ones
    out = home(ops.gather_rows(source, pool.put(torch.tensor([2, row])), pool=pool))
    assert_same(out, torch.stack([torch.ones(shape), torch.zeros(shape)]))
    with pytest.raises(IdError, match=f"row {row} is not there"):
        pool.check()
    pool.check()


def test_a_row_that_has_no_place_is_left_out():
    pool = any_pool()
    out = pool.put(torch.zeros(4))
    ops.scatter_rows(pool.put(torch.tensor([5.0, 6.0, 7.0])), pool.put(torch.tensor([2, 1, -1])), out[1:3])
    assert home(out).tolist() == [0, 0, 6, 0]


def test_a_row_that_has_no_place_is_said_at_the_next_check():
    pool, values = any_pool(), torch.arange(6.0).view(3, 2)
    positions, rows = pool.put(torch.tensor([0, 4, 1])), pool.put(torch.tensor([0, 1, 2]))
    for write in (
        lambda out: ops.scatter_rows(pool.put(values), positions, out, pool=pool),
        lambda out: ops.gather_rows_to(pool.put(values), rows, positions, out, pool=pool),
    ):
        out = pool.zeros((3, 2), torch.float32)
        write(out)
        assert home(out).tolist() == [[0, 1], [4, 5], [0, 0]]
        with pytest.raises(IdError, match="row 4 is not there"):
            pool.check()


@pytest.mark.parametrize("rows", [torch.tensor([-1, 4, -1, 0]), torch.tensor([-1]), torch.empty(0, dtype=torch.int64)], ids=len)
def test_places_that_are_known_and_missing(rows):
    pool = any_pool()
    assert home(ops.known_places(pool.put(rows), pool=pool)).tolist() == ops.known_places(rows).tolist()
    assert home(ops.missing_places(pool.put(rows), pool=pool)).tolist() == ops.missing_places(rows).tolist()
    for dtype in (torch.int64, torch.float16, torch.complex128):
        column, expected = (numbers(dtype, len(rows), 3) for _ in range(2))
        there = pool.put(column)
        ops.fill_missing(there, pool.put(rows), 7)
        ops.fill_missing(expected, rows, 7)
        assert_same(home(there), expected)


@pytest.mark.parametrize(
    "out", [torch.zeros(2, 3), torch.zeros(2, 2, dtype=torch.float64), torch.zeros(2, 2).T], ids=["shape", "dtype", "gaps"]
)
def test_what_rows_do_not_fit_is_refused(out):
    pool, source, rows = any_pool(), torch.zeros(4, 2), torch.tensor([1, 2])
    with pytest.raises(InputError, match=r"expected torch\.float32 of shape"):
        ops.gather_rows(pool.put(source), pool.put(rows), pool.put(out))
    with pytest.raises(InputError, match="source is not"):
        ops.gather_rows(source, pool.put(rows))
    with pytest.raises(InputError, match="give int64 or int32"):
        ops.gather_rows(pool.put(source), pool.put(rows.bool()))


@FEW
@given(st.sampled_from(["int8", "float16", "bfloat16"]), st.sampled_from([torch.float32, torch.float64]), st.integers(0, 2**32))
def test_narrow_rows_are_read_as_on_the_cpu(stored, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    scale, low = (torch.randn(6, generator=generator, dtype=torch.float64).tolist() for _ in range(2))
    of_steps = {"scale": tuple(map(abs, scale)), "low": tuple(low)} if stored == "int8" else {}
    how = Narrow(dtype=stored, **of_steps)
    rows = numbers(getattr(torch, stored), 40, 2, 3, seed=seed % 2**31).nan_to_num(nan=1.0)
    pool = any_pool()
    assert_same(home(ops.widened(pool.put(rows), how, dtype, pool=pool)), reference_narrow.widened(rows, how, dtype))
    assert_same(home(ops.widened(pool.put(rows), how, dtype, pool=pool)), ops.widened(rows, how, dtype))
    assert pool.counters.snapshot().get("device_waits", 0) == 0
