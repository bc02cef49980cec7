import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from halohop import ops
from halohop.errors import InputError
from halohop.ops import reference


def bytes_of(rows: list[list[int]], width: int) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.uint8).view(len(rows), width)


@given(st.integers(1, 9).flatmap(lambda width: st.tuples(st.just(width), *[rows_of(width)] * 2)))
def test_rows_are_found_by_their_bytes(case: tuple[int, list[list[int]], list[list[int]]]) -> None:
    width, keys, queries = case
    asked = bytes_of(queries + keys, width)
    found, expected = (door.KeyIndex(bytes_of(keys, width)) for door in (ops, reference))
    assert found.repeated == expected.repeated
    assert torch.equal(found.find(asked), expected.find(asked))


def rows_of(width: int) -> st.SearchStrategy[list[list[int]]]:
    return st.lists(st.lists(st.integers(0, 2), min_size=width, max_size=width), max_size=30)


def test_integers_of_any_size_are_found() -> None:
    ids = torch.randperm(5000) * 2**41 - 2**52
    index = ops.KeyIndex(ids.view(-1, 1).view(torch.uint8))
    assert index.repeated is None
    assert torch.equal(index.find(ids.flip(0).view(-1, 1).view(torch.uint8)), torch.arange(5000).flip(0))
    assert index.find((ids + 1).view(-1, 1).view(torch.uint8)).max() == -1
    assert ops.KeyIndex.bytes_for(5000) == 4 * 10_001


@pytest.mark.parametrize("keys", [torch.zeros(3, dtype=torch.uint8), torch.zeros(3, 2)])
def test_what_is_no_key_is_refused(keys: torch.Tensor) -> None:
    with pytest.raises(InputError, match=r"keys must be uint8 of \[n, width\]"):
        ops.KeyIndex(keys)
    with pytest.raises(InputError, match="queries are 3 bytes wide, but keys are 2"):
        ops.KeyIndex(bytes_of([[1, 2]], 2)).find(bytes_of([[1, 2, 3]], 3))


@given(st.lists(st.binary(max_size=6), max_size=12), st.integers(1, 5), st.integers(0, 3))
def test_texts_are_padded(texts: list[bytes], width: int, before: int) -> None:
    lengths = torch.tensor([before, *map(len, texts)])
    data = torch.tensor([*bytes(before), *b"".join(texts)], dtype=torch.uint8)
    offsets = lengths.cumsum(0)
    assert torch.equal(ops.pad_texts(offsets, data, width), reference.pad_texts(offsets, data, width))


@pytest.mark.parametrize("offsets", [[], [0, 4], [2, 1], [-1, 2]])
def test_offsets_that_leave_the_data_are_refused(offsets: list[int]) -> None:
    with pytest.raises(InputError, match="offsets must rise from 0 to at most 3, the bytes of data"):
        ops.pad_texts(torch.tensor(offsets, dtype=torch.int64), torch.zeros(3, dtype=torch.uint8), 2)
