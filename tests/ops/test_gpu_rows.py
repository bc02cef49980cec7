"""Rows on a GPU: those that the CPU gathers. In Triton's interpreter, on a GPU that is pretended."""

import pytest
import torch

from halohop.errors import IdError
from halohop.ops import gpu_rows
from halohop.ops.device_pieces import DevicePieces
from halohop.ops.pieces import Pieces
from tests.support.pretend_gpu import any_pool, home

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.bool, torch.uint8, torch.int64, torch.complex128)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("row_shape", [(), (1,), (3,), (2, 2), (0,)], ids=str)
def test_gathered_rows_are_those_of_the_source(dtype, row_shape):
    pool = any_pool()
    tensors = [(torch.rand(count, *row_shape) * 9).to(dtype) for count in (10, 0, 7)]
    source = DevicePieces.of(Pieces(tensors, [0, 10, 10, 17]), pool, on_device=True)
    rows = torch.randint(0, 17, (300,), generator=torch.Generator().manual_seed(0))
    out = gpu_rows.gather_rows(source, pool.put(rows), None, pool)
    assert torch.equal(home(out), torch.cat(tensors)[rows])
    pool.check()


def test_a_row_that_is_not_there_is_said_at_the_next_check():
    pool = any_pool()
    source = DevicePieces.of(Pieces([torch.ones(3)], [0, 3]), pool, on_device=False)
    out = gpu_rows.gather_rows(source, pool.put(torch.tensor([2, 3])), None, pool)
    assert home(out).tolist() == [1, 0]
    with pytest.raises(IdError, match="row 3 is not there"):
        pool.check()
    pool.check()
