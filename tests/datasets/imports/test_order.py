import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from halohop.datasets.imports import order as order_module
from halohop.datasets.imports.order import Order
from halohop.datasets.staging import Staging
from halohop.errors import IdError, InputError


@settings(deadline=None, max_examples=50)
@given(count=st.integers(0, 30), pieces=st.integers(1, 4), shuffled=st.booleans(), chunk=st.integers(1, 40), data=st.data())
def test_rows_come_in_the_order_of_their_ids(count: int, pieces: int, shuffled: bool, chunk: int, data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:  # chunks smaller than the table
        patch.setattr(order_module, "_CHUNK_ROWS", chunk)
        owner = torch.tensor(data.draw(st.lists(st.integers(0, pieces - 1), min_size=count, max_size=count)), dtype=torch.int64)
        ids = [torch.nonzero(owner == piece).flatten() for piece in range(pieces)]
        if shuffled:
            ids = [piece[torch.randperm(len(piece))] for piece in ids]
        column = torch.randn(count, 3)
        found = Order(ids, count, "node").restored([column[piece] for piece in ids], "x", Staging(chunk_bytes=chunk * 12))
    assert torch.equal(found, column)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([[0, 1], [3]], "node 2 is in no partition"),
        ([[0, 1], [1, 2, 3]], "node 1 is in the partitions 2 times"),
        ([[3, 0, 0], [1, 2]], "node 0 is in the partitions 2 times"),
        ([[0, 1, 2], [4]], "there is a node with id 4, but ids go from 0 to 3"),
        ([[-1, 0, 1, 2, 3]], "there is a node with id -1"),
    ],
)
def test_ids_that_are_not_each_there_once_are_refused(ids: list[list[int]], message: str) -> None:
    with pytest.raises(IdError, match=message):
        Order([torch.tensor(piece) for piece in ids], 4, "node")


def test_pieces_that_differ_are_refused() -> None:
    order = Order([torch.tensor([0]), torch.tensor([1])], 2, "node")
    with pytest.raises(InputError, match="x of partition 1 has 2 rows, but 1 ids"):
        order.restored([torch.zeros(1), torch.zeros(2)], "x", Staging())
    with pytest.raises(InputError, match=r"x is torch.float32 \[2\] in partition 0, but torch.float32 \[3\] in partition 1"):
        order.restored([torch.zeros(1, 2), torch.zeros(1, 3)], "x", Staging())
    with pytest.raises(InputError, match=r"torch\.float64"):
        order.restored([torch.zeros(1), torch.zeros(1).double()], "x", Staging())


def test_one_piece_in_order_is_not_copied() -> None:
    column = torch.randn(5, 2)
    assert Order([torch.arange(5)], 5, "node").restored([column], "x", Staging()) is column
