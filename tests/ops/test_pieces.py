from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from halohop import ops
from halohop.errors import IdError, InputError
from halohop.ops import Pieces, reference


@st.composite
def divided(draw):
    """A tensor, and the same rows in pieces of their own, some of them empty."""
    sizes = draw(st.lists(st.integers(0, 6), min_size=1, max_size=9))
    shape = draw(st.sampled_from([(), (1,), (3,), (2, 5), (0,)]))
    dtype = draw(st.sampled_from([torch.float32, torch.int64, torch.bfloat16, torch.bool, torch.complex128]))
    whole = torch.randint(0, 2, (sum(sizes), *shape)).to(dtype)
    bounds = [0]
    for size in sizes:
        bounds.append(bounds[-1] + size)
    return whole, Pieces([whole[low:high].clone() for low, high in pairwise(bounds)], bounds)


@given(divided(), st.sampled_from([torch.int32, torch.int64]), st.randoms(use_true_random=False))
def test_gathering_from_pieces_is_gathering_from_the_whole(case, dtype, random):
    whole, pieces = case
    rows = torch.tensor([random.randrange(len(whole)) for _ in range(200)] if len(whole) else [], dtype=dtype)
    got = ops.gather_rows(pieces, rows)
    assert torch.equal(got, whole[rows.long()])
    assert torch.equal(reference.gather_rows(pieces, rows), got)


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("fanout", [-1, 0, 3, 100])
def test_lists_in_pieces(fanout, replace):
    generator = torch.Generator().manual_seed(0)
    degrees = torch.randint(0, 9, (50,), generator=generator)
    indptr = torch.cat([torch.zeros(1, dtype=torch.int64), degrees.cumsum(0)])
    bounds = [0, 0, 7, 31, 31, 50]
    pieces = [indptr[low : high + 1] - indptr[low] for low, high in pairwise(bounds)]
    rows = torch.randint(50, (300,), generator=generator)
    whole = ops.sample_neighbors(indptr, rows, rows, fanout, 5, replace=replace)
    got = ops.sample_neighbors(
        Pieces(pieces, bounds, extra=1), rows, rows, fanout, 5, replace=replace, edge_bounds=indptr[bounds].tolist()
    )
    assert torch.equal(got[0], whole[0])
    assert torch.equal(got[1], whole[1])


def test_a_piece_that_is_not_here():
    pieces = Pieces([torch.arange(3), None, torch.arange(2)], [0, 3, 5, 7])
    assert ops.gather_rows(pieces, torch.tensor([0, 6, 2])).tolist() == [0, 1, 2]
    with pytest.raises(IdError, match="row 4 at position 1 is in a piece that is not here"):
        ops.gather_rows(pieces, torch.tensor([0, 4]))
    with pytest.raises(IdError, match="row 7 at position 0 is out of range: there are 7 rows"):
        ops.gather_rows(pieces, torch.tensor([7]))
    lists = Pieces([torch.tensor([0, 2]), None], [0, 1, 2], extra=1)
    with pytest.raises(IdError, match="rows holds 1, which is in a piece that is not here"):
        ops.sample_neighbors(lists, torch.tensor([1]), torch.tensor([1]), 1, 0, edge_bounds=[0, 2])


@pytest.mark.parametrize(
    ("tensors", "bounds"),
    [
        ([], [0]),
        ([None], [0, 1]),
        ([torch.arange(2)], [0, 3]),
        ([torch.arange(2)], [0]),
        ([torch.arange(2), torch.arange(2.0)], [0, 2, 4]),
        ([torch.zeros(2, 1), torch.zeros(2, 2)], [0, 2, 4]),
        ([torch.zeros(4)[::2]], [0, 2]),
        ([torch.arange(0), torch.arange(2)], [2, 0, 2]),
    ],
)
def test_pieces_that_do_not_fit(tensors, bounds):
    with pytest.raises(InputError):
        Pieces(tensors, bounds)


def test_no_piece_is_taken_for_absent():
    """Origins are differences of addresses and bounds; here one of them is -1."""
    memory = torch.arange(100)
    pieces = Pieces([memory[:3], memory[6:9]], [0, 3, 6])
    rows = torch.arange(6)
    assert ops.gather_rows(pieces, rows).tolist() == [0, 1, 2, 6, 7, 8]
    pieces = Pieces([memory[:7], memory[6:9]], [0, 7, 10])
    assert ops.gather_rows(pieces, torch.arange(10)).tolist() == [0, 1, 2, 3, 4, 5, 6, 6, 7, 8]


def test_pieces_keep_their_memory():
    pieces = Pieces([torch.full((100_000,), 7), torch.full((100_000,), 8)], [0, 100_000, 200_000])
    _ = [torch.zeros(100_000, dtype=torch.int64) for _ in range(8)]
    assert ops.gather_rows(pieces, torch.tensor([5, 199_999])).tolist() == [7, 8]
