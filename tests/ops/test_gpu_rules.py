"""Gradients change rows on a GPU as the reference says, bit for bit. In Triton's interpreter, on a GPU that is pretended."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from halohop import ops
from halohop.errors import IdError, InputError
from halohop.ops import reference_rules
from tests.ops.test_rules import RULES, Arrays
from tests.support.pretend_gpu import any_pool


def there(arrays, pool):
    return Arrays(**{name: pool.put(getattr(arrays, name)) for name in Arrays.__dataclass_fields__})


def assert_equal(found, expected):
    for one, other in zip(found.all(), expected.all(), strict=True):
        assert one.is_cuda
        assert torch.equal(one.cpu(), other)


@settings(max_examples=40)
@given(
    st.sampled_from(RULES),
    st.sampled_from(ops.FLOATS),
    st.sampled_from([(), (0,), (1,), (3,), (8,), (2, 5), (67,), (300,)]),
    st.integers(0, 12),
    st.sampled_from([1.0, -1.0, 1 / 3]),
    st.integers(0, 2**32),
)
def test_kernels_have_the_bits_of_the_reference(rule, dtype, shape, touched, scale, seed):
    torch.manual_seed(seed)
    pool, expected = any_pool(), Arrays.of(12, shape, dtype)
    found = there(expected, pool)
    lid, grads = torch.randperm(12)[:touched], torch.randn(touched, *shape, dtype=ops.gradient_dtype(dtype))
    found.step(ops, rule, pool.put(lid), pool.put(grads), scale)
    expected.step(reference_rules, rule, lid, grads, scale)
    assert_equal(found, expected)


@pytest.mark.parametrize("rule", RULES)
def test_rows_of_several_tiles_are_changed_once(rule):
    pool, expected = any_pool(), Arrays.of(90, (5,), torch.float32)
    found, lid = there(expected, pool), torch.randperm(90)
    grads = torch.randn(90, 5)
    found.step(ops, rule, pool.put(lid), pool.put(grads))
    expected.step(ops, rule, lid, grads)
    assert_equal(found, expected)


@pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered")  # NumPy's, in Triton's interpreter
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_numbers_of_two_bytes_are_read_and_rounded_as_torch_does(dtype):
    """Subnormal numbers, infinities and those that are none among them."""
    pool = any_pool()
    codes = torch.arange(-(2**15), 2**15, 13, dtype=torch.int32).to(torch.int16).view(dtype)
    moves = torch.randn(len(codes)) * 10 ** torch.randn(len(codes))
    rows, expected = pool.put(codes), (codes.float() - moves).to(dtype)
    ops.step_sgd(rows, pool.put(torch.arange(len(codes))), pool.put(moves), lr=1.0)
    torch.testing.assert_close(rows.cpu(), expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("rule", RULES)
def test_a_row_that_is_not_there_is_said_and_the_others_are_changed(rule):
    pool, expected = any_pool(), Arrays.of(5, (3,), torch.float32)
    found = there(expected, pool)
    lid, grads, inside = torch.tensor([2, 5, 3, -1]), torch.randn(4, 3), torch.tensor([0, 2])
    found.step(ops, rule, pool.put(lid), pool.put(grads), pool=pool)
    expected.step(ops, rule, lid[inside], grads[inside])
    assert_equal(found, expected)
    with pytest.raises(IdError, match="row 5 is not there"):
        pool.check()


def test_what_is_not_on_the_device_or_does_not_fit_is_refused():
    pool = any_pool()
    rows, lid, grads = pool.zeros((5, 3), torch.float32), pool.arange(2), pool.zeros((2, 3), torch.float32)
    for arguments, words in (
        ((rows, lid.cpu(), grads), "lid lies on cpu, but the rows are on a device"),
        ((rows, lid, grads.cpu()), "grads lies on cpu, but the rows are on a device"),
        ((rows, lid, grads.double()), "grads must be torch.float32"),
        ((rows, lid, grads[:1]), r"grads must be torch.float32 of shape \(2, 3\)"),
        ((rows.long(), lid, grads), "rows are torch.int64"),
        ((rows, lid, ops.unite([torch.arange(2)], [torch.zeros(2, 3)])[1]), "one tensor there"),
    ):
        with pytest.raises(InputError, match=words):
            ops.step_sgd(*arguments, lr=1.0)
    with pytest.raises(InputError, match=r"sums must be torch.float32 of shape \(5, 3\)"):
        ops.step_adagrad(rows, rows[:2], lid, grads, lr=1.0, eps=0.0)
