"""Which of an owner's partitions a row is in."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from halohop.errors import IdError
from halohop.tables.arrays import make_arrays
from halohop.tables.held import Held, Piece
from halohop.tables.spec import TableSpec

pytestmark = pytest.mark.timeout(30)

BOUNDS = (0, 4, 4, 7, 12)
SPEC = TableSpec(name="e", key=None, num_rows=BOUNDS[-1], shape=(), dtype="float32")


def held(*parts: int) -> Held:
    sizes = {part: BOUNDS[part + 1] - BOUNDS[part] for part in parts}
    return Held(
        SPEC,
        BOUNDS,
        [Piece(part=part, arrays=make_arrays(SPEC, size, folder=None), begins=None) for part, size in sizes.items()],
    )


@given(st.lists(st.integers(0, 11), max_size=12), st.booleans())
def test_rows_are_divided_by_partition(ids: list[int], one_part: bool) -> None:
    gid = torch.tensor([row for row in ids if row >= 7] if one_part else ids, dtype=torch.int64)
    found = held(0, 1, 2, 3).divided(gid)
    assert [piece.part for piece, _, _ in found] == sorted({piece.part for piece, _, _ in found})
    for piece, lid, order in found:
        own = (gid >= BOUNDS[piece.part]) & (gid < BOUNDS[piece.part + 1])
        assert torch.equal(order, own.nonzero().view(-1))
        assert torch.equal(lid, gid[own] - BOUNDS[piece.part])
    assert sum(len(lid) for _, lid, _ in found) == len(gid)


@pytest.mark.parametrize("gid", [[4, 6], [3, 4], [5]])
def test_rows_of_other_partitions_are_refused(gid: list[int]) -> None:
    with pytest.raises(IdError, match=r"rows of table 'e' are not held here, row [456] among them"):
        held(0, 3).divided(torch.tensor(gid))


@pytest.mark.parametrize("gid", [[-1], [12], [2, 12], [-1, 3]])
def test_rows_that_no_partition_has_are_refused(gid: list[int]) -> None:
    with pytest.raises(IdError, match="table 'e' has 12 rows"):
        held(0, 3).divided(torch.tensor(gid))
