"""Columns of ids that are read by slices: their ends, and their rows in ascending order, whatever fits into memory."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from halohop.errors import IdError, InputError
from halohop.store import tables
from halohop.store.ordering import ascending_rows, ascends, ends_of, slices
from halohop.store.tables import EdgeTable, GraphTables, NodeTable

IDS = st.lists(st.one_of(st.integers(0, 9), st.integers(-(2**63), 2**63 - 1), st.integers(2**40, 2**40 + 5000)), max_size=40)


@given(IDS, st.sampled_from([None, 64, 200, 1000]))
def test_rows_ascend(ids: list[int], memory: int | None) -> None:
    column = torch.tensor(ids, dtype=torch.int64)
    pieces = list(ascending_rows(column, memory))
    assert all(len(piece) for piece in pieces)
    assert [row for piece in pieces for row in piece.tolist()] == sorted(range(len(ids)), key=lambda row: (ids[row], row))
    of_ids = [set(column[piece].tolist()) for piece in pieces]
    assert len(set().union(*of_ids)) == sum(map(len, of_ids))  # no id lies in two pieces
    if memory:
        assert all(len(piece) <= max(memory // 48, 1) or len(of_id) == 1 for piece, of_id in zip(pieces, of_ids, strict=True))
    if ids:
        assert ends_of(column, memory) == (min(ids), max(ids))
    assert ascends(column, memory) == all(one < other for one, other in pairwise(ids))
    assert [row for rows in slices(len(ids), memory) for row in range(rows.start, rows.stop)] == list(range(len(ids)))


def test_checks_of_columns_go_by_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_CHECK_BYTES", 128)
    NodeTable(num_nodes=7, raw_id=torch.tensor([5, 3, -9, 2**62, 0, 1, 2]))
    with pytest.raises(InputError, match="raw_id holds the id 3 twice"):
        NodeTable(num_nodes=7, raw_id=torch.tensor([5, 3, -9, 2**62, 0, 1, 3]))
    with pytest.raises(InputError, match="raw_id holds the id 7 twice"):
        NodeTable(num_nodes=5, raw_id=torch.tensor([5, 6, 7, 7, 8]))
    nodes = {"n": NodeTable(num_nodes=5)}
    for place, wrong in ((6, 5), (0, -1)):
        src = torch.arange(7) % 5
        src[place] = wrong
        with pytest.raises(IdError, match=f"holds {wrong}, but ids go from 0 to 4"):
            GraphTables(nodes=nodes, edges={("n", "to", "n"): EdgeTable(src=src, dst=torch.zeros(7, dtype=torch.int64))})
