"""Whole numbers in few bits, equal to what plain Python says."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from halohop import ops
from halohop.errors import InputError
from halohop.ops import reference_packing
from halohop.ops.reference_packing import BLOCK

DTYPES = [torch.int64, torch.int32]


@st.composite
def numbers(draw, dtype):
    """Alike, near each other, ascending, at the limits, or anything; of a length near a multiple of a block."""
    limits = torch.iinfo(dtype)
    length = draw(st.sampled_from([1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 9 * BLOCK + 5]))
    bits = draw(st.sampled_from([0, 1, 7, 8, 31, 32, 63, 64]))
    seeds = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    words = torch.randint(-(2**63), 2**63 - 1, (length,), generator=seeds).tolist()
    base = draw(st.sampled_from([0, limits.min, limits.max, 12345]))
    values = [base + word % (1 << bits) for word in words]
    values = [(value - limits.min) % (limits.max - limits.min + 1) + limits.min for value in values]
    return sorted(values) if draw(st.booleans()) else values


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@given(data=st.data())
def test_they_come_back_and_are_written_as_the_reference_says(dtype, data):
    values = data.draw(numbers(dtype))
    given_tensor = torch.tensor(values, dtype=dtype)
    packed = ops.pack_integers(given_tensor)
    sizes = [len(reference_packing.pack(values, way, values[0] if way else min(values))) for way in range(3)]
    if packed is None:
        assert min(sizes) >= given_tensor.nbytes
        return
    assert packed.base == (values[0] if packed.way else min(values))
    assert packed.data.nbytes == min(sizes)
    assert bytes(packed.data.numpy()) == reference_packing.pack(values, packed.way, packed.base)
    out = torch.empty_like(given_tensor)
    ops.unpack_integers(packed, out)
    assert out.tolist() == values


@pytest.mark.parametrize(
    ("values", "way", "bits"),
    [
        (torch.arange(0, 3 * BLOCK, 3), 1, 2),
        (torch.full((BLOCK,), 2**40), 0, 0),
        (torch.arange(BLOCK) % 2 * 7 + 5, 0, 3),
        (torch.arange(BLOCK) * 10**12 * torch.tensor([1, -1]).repeat(BLOCK // 2), 0, 48),
        (torch.arange(10**15, 10**15 - 16 * BLOCK, -4), 2, 3),
    ],
    ids=["ascending", "alike", "near", "far", "falling"],
)
def test_the_way_that_takes_least_is_taken(values, way, bits):
    packed = ops.pack_integers(values)
    assert packed is not None
    assert (packed.way, int(packed.data[0])) == (way, bits)


def test_one_large_number_costs_its_block_only():
    values = torch.arange(10 * BLOCK) % 2
    values[5 * BLOCK] = 2**62
    packed = ops.pack_integers(values)
    assert packed is not None
    assert packed.data.nbytes == 16 + 9 * BLOCK // 8 + 63 * BLOCK // 8


@pytest.mark.parametrize("values", [torch.empty(0, dtype=torch.int64), torch.tensor([5]), torch.tensor([0, 2**63 - 1])])
def test_what_would_not_get_smaller_is_left(values):
    assert ops.pack_integers(values) is None


@pytest.mark.parametrize("values", [torch.zeros(3), torch.zeros(3, dtype=torch.int16), torch.zeros(2, 2, dtype=torch.int64)])
def test_others_are_refused(values):
    with pytest.raises(InputError, match="one-dimensional"):
        ops.pack_integers(values)


def test_data_that_are_no_such_numbers_are_refused():
    packed = ops.pack_integers(torch.arange(1000))
    assert packed is not None

    def refuse(*, length=1000, data=packed.data, way=packed.way):
        with pytest.raises(InputError, match="packed"):
            ops.unpack_integers(ops.PackedIntegers(data=data, way=way, base=0), torch.empty(length, dtype=torch.int64))

    refuse(length=1025)
    refuse(length=10**6)
    refuse(length=0)
    refuse(way=3)
    refuse(way=-1)
    refuse(data=packed.data[:-8])
    refuse(data=packed.data[:0])
    for width in (65, 255):
        wide = packed.data.clone()
        wide[3] = width
        refuse(data=wide)


def test_a_gap_in_memory_is_no_hindrance():
    values = torch.arange(2000)[::2]
    packed = ops.pack_integers(values)
    assert packed is not None
    out = torch.empty(1000, dtype=torch.int64)
    ops.unpack_integers(packed, out)
    assert torch.equal(out, values)
