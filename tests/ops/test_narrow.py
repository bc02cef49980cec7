"""Numbers that are stored in fewer bytes: read as the reference reads them, and near what they were."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from halohop import ops
from halohop.errors import InputError
from halohop.ops import Narrow, reference_narrow

SHAPES = st.sampled_from([(), (1,), (7,), (3, 5), (0,), (64,)])
DTYPES = st.sampled_from([torch.float32, torch.float64])


def bits(tensor: torch.Tensor) -> list[int]:
    return tensor.contiguous().view(torch.uint8).flatten().tolist()


@given(st.integers(0, 40), SHAPES, DTYPES, st.integers(0, 2**32))
def test_steps_are_read_as_the_reference_reads_them(count, shape, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randint(-128, 128, (count, *shape), generator=generator, dtype=torch.int8)
    width = math.prod(shape)
    scale, low = (torch.randn(width, generator=generator, dtype=torch.float64) for _ in range(2))
    how = Narrow(dtype="int8", scale=tuple(scale.abs().tolist()), low=tuple(low.tolist()))
    wide = ops.widened(rows, how, dtype)
    assert wide.dtype == dtype
    assert bits(wide) == bits(reference_narrow.widened(rows, how, dtype))


@pytest.mark.parametrize("stored", ["float16", "bfloat16"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_code_of_two_bytes_is_read_as_torch_reads_it(stored, dtype):
    rows = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(getattr(torch, stored)).view(-1, 4)
    wide = ops.widened(rows, Narrow(dtype=stored), dtype)
    expected = reference_narrow.widened(rows, Narrow(dtype=stored), dtype)
    assert torch.equal(wide.isnan(), expected.isnan())
    assert torch.equal(wide.nan_to_num(nan=7.0), expected.nan_to_num(nan=7.0))


@given(st.integers(1, 40), SHAPES, DTYPES, st.floats(-1e30, 1e30), st.floats(0, 1e30), st.integers(0, 2**32))
def test_a_number_is_read_within_half_a_step(count, shape, dtype, middle, spread, seed):
    generator = torch.Generator().manual_seed(seed)
    rows = (torch.rand(count, *shape, generator=generator, dtype=torch.float64) * spread + middle).to(dtype)
    width = math.prod(shape)
    low, high = (end.double().view(width) for end in (rows.amin(0), rows.amax(0)))
    how = Narrow.between(low, high)
    wide = ops.widened(ops.narrowed(rows, how), how, dtype).double().view(count, width)
    rows = rows.double().view(count, width)
    slack = 8 * torch.finfo(dtype).eps * torch.maximum(low.abs(), high.abs()) + 1e-40
    assert bool(((wide - rows).abs() <= torch.tensor(how.scale) * 0.5 + slack).all())
    assert torch.equal(torch.where(rows == low, wide, low), low.expand(count, width))


def test_a_constant_is_read_exactly_and_so_are_zeros_below_all_others():
    rows = torch.tensor([[0.1, 0.0], [0.1, 3.3], [0.1, 1.0]])
    how = Narrow.between(rows.amin(0).double(), rows.amax(0).double())
    wide = ops.widened(ops.narrowed(rows, how), how, torch.float32)
    assert torch.equal(wide[:, 0], rows[:, 0])
    assert wide[0, 1] == 0


@pytest.mark.parametrize(
    "rows",
    [torch.zeros(2, 3), torch.zeros(2, 2, dtype=torch.int8), torch.zeros(3, 2, dtype=torch.int8).T],
    ids=["floats", "another width", "gaps"],
)
def test_rows_that_are_not_stored_so(rows):
    with pytest.raises(InputError, match=r"expected torch[.]int8, stored as int8"):
        ops.widened(rows, Narrow(dtype="int8", scale=(1.0,) * 3, low=(0.0,) * 3), torch.float32)
