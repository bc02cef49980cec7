"""Rows that come from several shards: each column is written once, at the places of the query."""

import torch

from halohop import ops
from halohop.cluster.landing import Landing
from halohop.store.requests import RowQuery
from halohop.typing import NODE

SOURCE = torch.arange(40.0).view(10, 4)


def landing(gid: list[int], *, padded: bool = False) -> Landing:
    asked = RowQuery(table=NODE, columns=("x",), gid=torch.tensor(gid), padded=padded)
    return Landing(asked, ops.known_places(asked.gid) if padded else None, ops.Pool())


def test_rows_of_several_sources_go_to_their_places():
    whole = landing([7, 1, 9, 0, 3])
    assert not whole.used
    whole.at(torch.tensor([0, 2])).gather(0, ops.Pieces([None, SOURCE[5:]], [0, 5, 10]), torch.tensor([7, 9]))
    some = whole.at(torch.tensor([1, 3, 4]))
    some.of(torch.tensor([2, 0]), ops.Pool()).put(0, SOURCE[[3, 1]])
    some.of(torch.tensor([1]), ops.Pool()).gather(0, SOURCE, torch.tensor([0]))
    (column,) = whole.columns()
    assert torch.equal(column, SOURCE[[7, 1, 9, 0, 3]])
    assert (whole.used, whole.row_bytes) == (True, 16)


def test_places_for_no_row_are_zeros():
    whole = landing([2, -1, -1, 5], padded=True)
    whole.at(torch.tensor([1])).put(0, SOURCE[[5]])
    whole.at(torch.tensor([0])).gather(0, SOURCE, torch.tensor([2]))
    (column,) = whole.columns()
    assert torch.equal(column, torch.cat([SOURCE[[2]], torch.zeros(2, 4), SOURCE[[5]]]))


def test_columns_come_in_their_order_whichever_is_first():
    whole = landing([1, 0])
    both = whole.at(torch.arange(2))
    both.put(1, torch.tensor([5, 6]))
    both.put(0, torch.tensor([[True], [False]]))
    assert [column.tolist() for column in whole.columns()] == [[[True], [False]], [5, 6]]
