"""Rows of which the hottest lie on a GPU: what is asked for wrongly is said, wherever it lies."""

import pytest
import torch

from halohop.errors import IdError
from halohop.ops.cached_rows import CachedRows
from halohop.ops.pieces import Pieces
from tests.support.pretend_gpu import any_pool, home


@pytest.mark.parametrize("hot", [None, [], [0, 3], [0, 1, 2, 3, 4]], ids=str)
@pytest.mark.parametrize("wrong", [-1, -2, 5, 6, 11])
def test_a_row_that_is_not_there_is_a_fault_and_zeros(hot, wrong):
    pool = any_pool()
    source = Pieces([torch.arange(1.0, 4), torch.arange(4.0, 6)], [0, 3, 5])
    column = CachedRows(source, None if hot is None else torch.tensor(hot, dtype=torch.int64), pool)
    found = column.take(pool.put(torch.tensor([3, wrong, 0, 4])), pool=pool)
    assert home(found).tolist() == [4, 0, 1, 5]
    with pytest.raises(IdError, match="is not there"):
        pool.check()


@pytest.mark.parametrize("hot", [None, [1, 4]], ids=str)
def test_padding_is_no_fault(hot):
    pool = any_pool()
    column = CachedRows(Pieces([torch.arange(1.0, 6)], [0, 5]), None if hot is None else torch.tensor(hot), pool)
    found = column.take(pool.put(torch.tensor([4, -1, 1])), padded=True, pool=pool)
    assert home(found).tolist() == [5, 0, 2]
    pool.check()
