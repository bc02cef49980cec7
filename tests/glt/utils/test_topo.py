"""Edges in COO, CSR and CSC are the same edges."""

import torch

from halohop.glt import utils


def test_compressed_edges_are_the_same() -> None:
    generator = torch.Generator().manual_seed(0)
    row, col = torch.randint(0, 9, (40,), generator=generator), torch.randint(0, 7, (40,), generator=generator)
    ids, weights = torch.arange(40), torch.rand(40, generator=generator)
    ptr, cols, eids, found = utils.coo_to_csr(row, col, ids, weights, (9, 7))
    assert len(ptr) == 10
    assert utils.ptr2ind(ptr).equal(row[eids])
    assert cols.equal(col[eids])
    assert found is not None
    assert found.equal(weights[eids])
    assert (row * 7 + col)[eids].diff().min() >= 0
    rows, ptr, eids, found = utils.coo_to_csc(row, col, ids, None, (9, 7))
    assert len(ptr) == 8
    assert utils.ptr2ind(ptr).equal(col[eids])
    assert rows.equal(row[eids])
    assert found is None


def test_sizes_follow_from_the_edges() -> None:
    ptr, cols, eids, weights = utils.coo_to_csr(torch.tensor([2, 0]), torch.tensor([1, 1]))
    assert (ptr.tolist(), cols.tolist(), eids, weights) == ([0, 1, 1, 2], [1, 1], None, None)
