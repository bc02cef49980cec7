"""Rows with equal ids are added up in the order in which they stand."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from halohop import ops
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
