"""Books by a number for each id, and by ranges."""

import pytest
import torch

from halohop.errors import InputError
from halohop.glt.partition import GLTPartitionBook, OffsetId2Index, PartitionBook, RangePartitionBook


def test_a_book_of_numbers_is_a_tensor() -> None:
    book = GLTPartitionBook(torch.tensor([1, 0, 1]))
    assert isinstance(book, PartitionBook)
    assert isinstance(book, torch.Tensor)
    assert book[torch.tensor([2, 1])].tolist() == [1, 0]
    assert type(book[torch.tensor([2, 1])]) is torch.Tensor
    assert (book.dtype, len(book), book.offset) == (torch.int64, 3, 0)
    assert GLTPartitionBook([0, 1]).tolist() == [0, 1]


def test_ranges() -> None:
    book = RangePartitionBook([(0, 3), (3, 3), (3, 8)], 2)
    assert book[torch.tensor([0, 2, 3, 7])].tolist() == [0, 0, 2, 2]
    assert book[torch.tensor([], dtype=torch.int64)].tolist() == []
    assert book[torch.tensor([[2], [3]])].tolist() == [[0], [2]]
    assert book.id_filter(book, 0).tolist() == [0, 1, 2]
    assert book.id_filter(book, 1).tolist() == []
    assert book.id2index[torch.tensor([3, 7])].tolist() == [0, 4]
    assert book.device == torch.device("cpu")
    assert OffsetId2Index(5)[torch.tensor([7])].tolist() == [2]


@pytest.mark.parametrize("ranges", [[], [(1, 3)], [(0, 3), (4, 5)], [(0, 3), (2, 5)], [(0, 3), (3, 2)]])
def test_ranges_with_gaps_are_refused(ranges: list[tuple[int, int]]) -> None:
    with pytest.raises(InputError, match="must begin at 0 and follow each other"):
        RangePartitionBook(ranges, 0)


def test_ids_and_partitions_outside_are_refused() -> None:
    with pytest.raises(InputError, match="partition_idx=1, but there are 1 ranges"):
        RangePartitionBook([(0, 3)], 1)
    for ids in ([0, 3], [-1]):
        with pytest.raises(InputError, match="are not all below 3"):
            RangePartitionBook([(0, 3)], 0)[torch.tensor(ids)]
