"""Rows with equal ids are added up on a GPU, in the order in which they stand. In Triton's interpreter, on a pretended one."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from halohop import ops
from halohop.errors import InputError
from halohop.ops import reference_rules
from halohop.telemetry import Counters
from tests.support.pretend_gpu import any_pool


@settings(max_examples=25)
@given(
    st.lists(st.lists(st.one_of(st.integers(0, 5), st.integers(-(2**63), 2**63 - 1)), max_size=8), min_size=1, max_size=4),
    st.sampled_from([(), (0,), (3,), (2, 8), (300,)]),
    st.sampled_from([torch.float32, torch.float64]),
    st.booleans(),
    st.booleans(),
)
def test_sums_have_the_bits_of_the_reference(ids, shape, dtype, mean, rise):
    pool = any_pool(Counters())
    gid = [torch.tensor(sorted(set(some)) if rise else some, dtype=torch.int64) for some in ids]
    rows = [torch.randn(len(some), *shape, dtype=dtype) * 10 ** torch.randn(1, dtype=dtype) for some in gid]
    expected = reference_rules.sum_by_id(gid, rows, mean=mean)
    found, sums = ops.sum_by_id(gid, [pool.put(some) for some in rows], mean=mean, pool=pool)
    assert not found.is_cuda
    assert sums.is_cuda
    assert torch.equal(found, expected[0])
    assert torch.equal(sums.cpu(), expected[1])
    assert "device_waits" not in pool.counters.snapshot()


def test_one_row_occurs_often_and_zeros_keep_their_sign():
    pool = any_pool()
    gid = torch.cat([torch.zeros(70, dtype=torch.int64), torch.arange(70)]).flip(0)
    rows = torch.randn(140, 5)
    rows[70:75] = -0.0
    _, sums = ops.sum_by_id(gid, pool.put(rows), pool=pool)
    _, expected = ops.sum_by_id(gid, rows)
    assert torch.equal(sums.cpu().view(torch.int32), expected.view(torch.int32))


def test_rows_of_two_memories_are_refused():
    pool = any_pool()
    gid, rows = torch.tensor([1, 1]), torch.zeros(2, 3)
    with pytest.raises(InputError, match="some rows lie on a device, and some do not"):
        ops.sum_by_id([gid, gid], [pool.put(rows), rows], pool=pool)
    with pytest.raises(InputError, match="works on CPU tensors only"):
        ops.unite([gid], [pool.put(rows)])
