"""Columns side by side: what is read out of records is what was put in, for every dtype, range and division into pieces."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from halohop import ops
from halohop.errors import IdError
from halohop.ops import reference_records
from halohop.ops.records import Records

WHOLE = [getattr(torch, name) for name in ("bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64")]
BROKEN = [getattr(torch, name) for name in ("float16", "bfloat16", "float32", "float64", "complex64")]
DTYPES = st.sampled_from(WHOLE + BROKEN)


def any_bits(dtype: torch.dtype, count: int, width: int, generator: torch.Generator) -> torch.Tensor:
    """A column of any bits at all in the lowest bits of each number, NaN and infinities among them."""
    size = torch.empty(0, dtype=dtype).element_size()
    if dtype == torch.bool:
        return torch.randint(0, 2, (count,), generator=generator).bool()
    whole = torch.randint(-(2**63), 2**63 - 1, (count,), generator=generator, dtype=torch.int64)
    kept = min(width, 8 * size)
    lowered = (whole >> (64 - kept)) if kept else torch.zeros_like(whole)
    return lowered.to({1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[size]).view(dtype)


def pieces_of(column: torch.Tensor, cut: int, *, absent: bool = False) -> ops.Pieces:
    first, second = column[:cut].clone(), column[cut:].clone()
    return ops.Pieces([None if absent else first, second], [0, cut, len(column)])


def bits(rows: torch.Tensor) -> tuple[torch.dtype, list[int]]:
    return rows.dtype, rows.view(torch.uint8).flatten().tolist()


@given(
    st.lists(st.tuples(DTYPES, st.integers(0, 64)), min_size=2, max_size=6),
    st.integers(1, 20),
    st.floats(0, 1),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_rows_are_those_of_the_columns(kinds, count, share, padded, seed):
    generator = torch.Generator().manual_seed(seed)
    columns = {str(number): any_bits(*kind, generator) for number, kind in enumerate((d, count, w) for d, w in kinds)}
    cut = int(share * count)
    records = Records.of({name: pieces_of(column, cut) for name, column in columns.items()})
    if records is None:
        return
    names = list(records.fields)
    rows = torch.randint(-1 if padded else 0, count, (2 * count,), generator=generator)
    found = records.take(names, rows, padded=padded, pool=ops.Pool())
    expected = reference_records.taken(columns, names, rows.tolist())
    assert {name: bits(found[name]) for name in names} == {name: bits(expected[name]) for name in names}


@given(st.lists(st.lists(st.integers(-(2**20), 2**20), min_size=5, max_size=5), min_size=2, max_size=3))
def test_words_and_fields_are_as_the_reference_has_them(columns):
    tensors = {str(number): torch.tensor(column) for number, column in enumerate(columns)}
    records = Records.of({name: pieces_of(column, 2) for name, column in tensors.items()})
    assert records is not None
    fields = [records.fields[name] for name in tensors if name in records.fields]
    kept = [tensors[name].tolist() for name in tensors if name in records.fields]
    words = reference_records.packed(kept, fields)
    assert [reference_records.unpacked(words, field) for field in fields] == kept
    assert all(0 <= word < 2**64 for word in words)
    found = records.take(list(records.fields), torch.arange(5))
    assert [found[name].tolist() for name in tensors if name in records.fields] == kept


def test_as_many_bits_as_numbers_differ_by_and_the_narrowest_first():
    wide = torch.tensor([-(2**62), 2**62, 0])
    columns = {"y": torch.tensor([1000, 1046, 1001]), "wide": wide, "mask": torch.tensor([True, False, True])}
    records = Records.of({name: ops.Pieces([column], [0, 3]) for name, column in columns.items()})
    assert records is not None
    assert {name: (field.shift, field.bits) for name, field in records.fields.items()} == {"mask": (0, 1), "y": (1, 6)}
    assert records.num_bytes == 12
    assert Records.of({name: ops.Pieces([columns[name]], [0, 3]) for name in ("wide", "y")}) is None


def test_ids_are_read_in_the_dtype_of_ids():
    columns = {"id": torch.tensor([5, 7], dtype=torch.int32), "mask": torch.tensor([True, False])}
    records = Records.of({name: ops.Pieces([rows], [0, 2]) for name, rows in columns.items()}, {"id": torch.int64})
    assert records is not None
    ids = records.take(["id"], torch.tensor([1]))["id"]
    assert (ids.dtype, ids.tolist()) == (torch.int64, [7])


def test_a_row_that_is_not_here_is_named():
    columns = {"y": torch.tensor([1, 2, 3, 4]), "mask": torch.tensor([True, False, True, True])}
    records = Records.of({name: pieces_of(column, 2, absent=True) for name, column in columns.items()})
    assert records is not None
    assert records.take(["y"], torch.tensor([3, 2]))["y"].tolist() == [4, 3]
    with pytest.raises(IdError, match="row 1 at position 1 is in a piece that is not here"):
        records.take(["y"], torch.tensor([3, 1]))
    with pytest.raises(IdError, match="row 4"):
        records.take(["y"], torch.tensor([4]))


def test_what_no_record_holds():
    assert not Records.can_hold(ops.Pieces([torch.zeros(2, 3)], [0, 2]))
    assert not Records.can_hold(ops.Pieces([torch.zeros(2, dtype=torch.complex128)], [0, 2]))
    assert not Records.can_hold(ops.Pieces([torch.zeros(2, 0)], [0, 2]))
    assert Records.can_hold(ops.Pieces([torch.zeros(2, dtype=torch.complex64)], [0, 2]))
