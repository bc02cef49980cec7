"""Which owner a row belongs to."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from halohop.cluster.tables.owners import TableOwners, holder_here
from halohop.errors import IdError
from halohop.partitioning.book import Book
from halohop.tables.spec import TableSpec

pytestmark = pytest.mark.timeout(30)

BOUNDS = (0, 4, 4, 7, 12)
BOOK = Book(nodes={"node": BOUNDS}, edges={})
SPEC = TableSpec(name="e", key="node", num_rows=12, shape=(), dtype="float32")
OWNERS = TableOwners(BOOK, [holder_here(lambda request: None, parts) for parts in ((0, 3), (1, 2))])


@given(st.lists(st.integers(0, 11), max_size=12), st.booleans())
def test_rows_are_divided_by_their_owner_in_any_order(ids: list[int], ascend: bool) -> None:
    gid = torch.tensor(sorted(ids) if ascend else ids, dtype=torch.int64)
    found = OWNERS.divide(SPEC, gid)
    theirs = (gid >= 4) & (gid < 7)
    expected = {0: (~theirs).nonzero().view(-1), 1: theirs.nonzero().view(-1)}
    assert {owner: rows.tolist() for owner, rows in found.items()} == {
        owner: rows.tolist() for owner, rows in expected.items() if len(rows)
    }


@pytest.mark.parametrize(("gid", "first"), [([3, -1, 12], -1), ([0, 12, 15], 12), ([-2, 1, 13], -2)])
def test_rows_that_the_table_does_not_have_are_named(gid: list[int], first: int) -> None:
    with pytest.raises(IdError, match=rf"of 3 rows are not among the 12 of table 'e', the first is {first}"):
        OWNERS.divide(SPEC, torch.tensor(gid))
