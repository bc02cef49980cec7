"""Which ids are kept, and where: as the reference finds them, for every id around them."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from halohop import ops
from halohop.errors import InputError
from halohop.ops import reference_ranked


@given(kept=st.sets(st.integers(0, 299)), dtype=st.sampled_from([torch.int64, torch.int32]))
def test_set_equals_the_reference(kept, dtype):
    ids, asked = torch.tensor(sorted(kept), dtype=dtype), torch.arange(-5, 310, dtype=dtype)
    assert torch.equal(ops.RankedSet(ids, 300).places(asked), reference_ranked.RankedSet(ids, 300).places(asked))


@given(runs=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5)), max_size=8))
def test_runs_equal_the_reference(runs):
    firsts, end = [], 0
    for gap, length in runs:
        firsts.append(end + gap)
        end += gap + length
    starts = torch.tensor([0, *(length for _, length in runs)]).cumsum(0)
    arguments = torch.tensor(firsts, dtype=torch.int64), starts
    kept, expected = ops.RankedRuns(*arguments), reference_ranked.RankedRuns(*arguments)
    asked = torch.arange(-2, end + 3)
    assert torch.equal(kept.places(asked), expected.places(asked))
    assert torch.equal(kept.ids(torch.arange(int(starts[-1]))), expected.ids(torch.arange(int(starts[-1]))))


def test_ids_beyond_32_bits():
    kept = ops.RankedRuns(torch.tensor([2**40, 2**50]), torch.tensor([0, 2, 3]))
    assert kept.places(torch.tensor([2**40 + 1, 2**40 + 2, 2**50])).tolist() == [1, -1, 2]


@pytest.mark.parametrize("ids", [[3, 3], [5, 1], [-1], [10]])
def test_ids_that_do_not_ascend_within_the_limit_are_refused(ids):
    with pytest.raises(InputError, match="less than 10"):
        ops.RankedSet(torch.tensor(ids), 10)


def test_runs_need_one_start_more():
    with pytest.raises(InputError, match="2 runs need 3 starts, got 2"):
        ops.RankedRuns(torch.tensor([0, 5]), torch.tensor([0, 2]))
