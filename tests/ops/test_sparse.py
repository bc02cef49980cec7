"""Sparse rows against plain lists, for every dtype: what goes in comes out, bit by bit, whatever the pieces."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from halohop import ops
from halohop.errors import IdError, InputError
from halohop.ops import reference
from halohop.ops.sparse import SparsePieces, SparseRows, merge_sparse

DTYPES = (
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128),
)


def bits(tensor: torch.Tensor) -> list[int]:
    return tensor.contiguous().view(-1).view(torch.uint8).tolist() if tensor.numel() else []


@st.composite
def matrices(draw, least=0):
    rows, width, dtype = draw(st.integers(least, 9)), draw(st.integers(1, 40)), draw(st.sampled_from(DTYPES))
    kept = draw(st.sampled_from([0.0, 0.1, 1.0]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 999)))
    values = torch.randint(1, draw(st.sampled_from([2, 100])), (rows, width), generator=generator)
    return (values * (torch.rand(rows, width, generator=generator) < kept)).to(dtype)


@given(matrices())
def test_rows_come_back_bit_by_bit(matrix):
    rows = SparseRows.of(matrix)
    assert (len(rows), rows.width, rows.values.dtype) == (*matrix.shape, matrix.dtype)
    assert bits(rows.dense()) == bits(matrix)
    assert bits(rows.dense(ops.Pool())) == bits(matrix)
    assert len(rows.indices) == int((matrix != 0).sum())


@given(matrices())
def test_the_kernel_is_the_reference(matrix):
    rows = SparseRows.of(matrix)
    expected = reference.dense_rows(rows.indptr.tolist(), rows.indices.tolist(), rows.values.tolist(), rows.width)
    assert rows.dense().tolist() == expected


@given(matrices(least=1), st.data())
def test_rows_of_pieces_in_any_order(matrix, data):
    """Pieces may be empty, absent where nobody asks, and a row may be asked for twice, or be none."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(matrix)), max_size=3)))
    bounds = [0, *cuts, len(matrix)]
    pieces = [SparseRows.of(matrix[low:high]) for low, high in pairwise(bounds)]
    wanted = torch.tensor(data.draw(st.lists(st.integers(0, len(matrix) - 1), max_size=12)), dtype=torch.int64)
    held = SparsePieces(pieces, bounds)
    assert bits(held.take(wanted).dense()) == bits(matrix[wanted] if len(wanted) else matrix[:0])
    holes = torch.cat([wanted, torch.full((2,), -1), wanted[:1]])
    expected = torch.cat([matrix[wanted], torch.zeros(2, matrix.shape[1], dtype=matrix.dtype), matrix[wanted[:1]]])
    assert bits(held.take(holes, padded=True).dense()) == bits(expected)


@given(matrices(least=1), st.randoms(use_true_random=False))
def test_answers_are_merged_in_the_order_of_the_question(matrix, random):
    order = list(range(len(matrix)))
    random.shuffle(order)
    cut = random.randrange(len(matrix) + 1)
    pieces = [SparseRows.of(matrix[order[:cut]]), SparseRows.of(matrix[order[cut:]])]
    assert bits(merge_sparse(pieces, torch.tensor(order)).dense()) == bits(matrix)


def test_entries_are_narrow_and_one_value_is_stored_once():
    words = SparseRows.of((torch.rand(50, 8415) < 0.01).float())
    assert (words.indices.dtype, words.values.tolist()) == (torch.int16, [1.0])
    assert words.num_bytes == 51 * 8 + 2 * len(words.indices) + 4
    assert SparseRows.of(torch.ones(1, 2**15 + 1)).indices.dtype == torch.int32
    assert SparseRows.of(torch.ones(1, 2**15)).dense().sum() == 2**15  # the last place of the narrow type


def test_what_is_no_zero_bit_by_bit_is_kept():
    matrix = torch.tensor([[-0.0, 0.0, float("nan")], [0.0, float("inf"), 0.0]])
    assert bits(SparseRows.of(matrix).dense()) == bits(matrix)
    pair = [SparseRows.of(matrix[:1, :1]), SparseRows.of(torch.tensor([[0.5]]))]
    assert bits(merge_sparse(pair, torch.tensor([1, 0])).dense()) == bits(torch.tensor([[0.5], [-0.0]]))


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype != torch.uint16])  # of which torch makes no sparse ones
def test_to_and_from_torchs_layouts(dtype):
    matrix = torch.tensor([[0, 1, 0], [0, 0, 0], [1, 0, 1]]).to(dtype)
    rows = SparseRows.of(matrix)
    row, column = (matrix != 0).nonzero(as_tuple=True)
    coo = torch.sparse_coo_tensor(torch.stack([row, column]), matrix[row, column], matrix.shape, check_invariants=False)
    for given_as in (coo, rows.csr()):
        assert bits(SparseRows.of(given_as).dense()) == bits(matrix)
    assert rows.csr().layout == torch.sparse_csr
    assert rows.csr().values().tolist() == matrix[row, column].tolist()


def torn(layout: torch.layout, ends: list[int], row: list[int], column: list[int]) -> torch.Tensor:
    """Two rows of three places; torch looks at none of these numbers."""
    values = torch.tensor([1.0, 2.0, 3.0, 4.0])
    if layout == torch.sparse_coo:
        return torch.sparse_coo_tensor(torch.tensor([row, column]), values, (2, 3), check_invariants=False)
    return torch.sparse_csr_tensor(torch.tensor(ends), torch.tensor(column), values, (2, 3), check_invariants=False)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
@pytest.mark.parametrize("outside", [-1, 3, 2**16])  # the last is 0 where numbers are narrow
def test_entries_outside_a_matrix_are_refused(layout, outside):
    with pytest.raises(InputError, match=f"column .*{outside}.* not all in one of 3"):
        SparseRows.of(torn(layout, [0, 2, 4], [0, 0, 1, 1], [0, 2, outside, 1]))


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_torn_lists_are_refused():
    for ends in ([0, 5, 4], [1, 2, 4], [0, 2, 3]):
        with pytest.raises(InputError, match="crow_indices do not rise from 0 to 4"):
            SparseRows.of(torn(torch.sparse_csr, ends, [], [0, 1, 0, 1]))
    with pytest.raises(InputError, match="row 0 to 2 are not all in one of 2"):
        SparseRows.of(torn(torch.sparse_coo, [], [0, 0, 1, 2], [0, 1, 0, 1]))


@pytest.mark.parametrize("indices", [[0, 3], [-1, 1]])
def test_damaged_rows_are_an_error_and_not_a_write_elsewhere(indices):
    damaged = SparseRows(
        indptr=torch.tensor([0, 1, 2]), indices=torch.tensor(indices, dtype=torch.int16), values=torch.ones(1), width=3
    )
    for read in (damaged.dense, damaged.csr):
        with pytest.raises(IdError, match="the rows are damaged"):
            read()
    torn = SparseRows(indptr=torch.tensor([0, 9]), indices=damaged.indices, values=torch.ones(1), width=3)
    with pytest.raises(IdError, match="the rows are damaged"):
        torn.dense()


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_entries_in_any_order_and_twice():
    """torch makes such a CSR tensor without checking it."""
    given_as = torch.sparse_csr_tensor(
        torch.tensor([0, 3, 3, 4]), torch.tensor([2, 0, 2, 1]), torch.tensor([1.0, 2.0, 4.0, 3.0]), (3, 3), check_invariants=False
    )
    expected = [[2.0, 0.0, 5.0], [0.0, 0.0, 0.0], [0.0, 3.0, 0.0]]
    assert SparseRows.of(given_as).dense().tolist() == expected
    assert SparseRows.of(given_as).csr().to_dense().tolist() == expected


def test_what_is_no_matrix_is_refused():
    with pytest.raises(InputError, match="no matrix of rows"):
        SparseRows.of(torch.ones(3))
    with pytest.raises(InputError, match="sparse in both dimensions"):
        SparseRows.of(torch.ones(3, 2).to_sparse(1))
    with pytest.raises(IdError):
        SparsePieces([SparseRows.of(torch.eye(3)), None], [0, 3, 5]).take(torch.tensor([4]))
