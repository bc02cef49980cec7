"""Assignments that users give: every form that is read, and what is refused with the file, the line and the value."""

from pathlib import Path

import numpy as np
import pytest
import torch

from halohop.errors import InputError
from halohop.partitioning.assigners import given
from halohop.partitioning.assigners.assign import assign
from halohop.partitioning.assigners.given import read_assignment
from halohop.store.tables import GraphTables, NodeTable

ONE = GraphTables(nodes={"v": NodeTable(num_nodes=5)}, edges={})
TWO = GraphTables(nodes={"user": NodeTable(num_nodes=3), "item": NodeTable(num_nodes=2)}, edges={})
PARTS = [2, 0, 1, 1, 2]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(given, "_PIECE", 2)


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint16, np.uint64])
def test_arrays_and_files(tmp_path: Path, dtype: type) -> None:
    array = np.array(PARTS, dtype)
    np.save(tmp_path / "a.npy", array)
    (tmp_path / "a.txt").write_text("2\n0\n1\n1\n2\n")
    (tmp_path / "a.csv").write_text("part\r\n2\r\n0\r\n1\r\n1\r\n2")
    for form in (array, tmp_path / "a.npy", tmp_path / "a.txt", tmp_path / "a.csv", {"v": tmp_path / "a.npy"}):
        found = assign(ONE, 3, form).part["v"]
        assert found.tolist() == PARTS
        assert found.dtype == torch.int32


def test_a_file_for_each_node_type(tmp_path: Path) -> None:
    np.save(tmp_path / "user.npy", np.array([1, 0, 1]))
    (tmp_path / "item.txt").write_text("0\n1\n")
    expected = {"user": [1, 0, 1], "item": [0, 1]}
    for form in (tmp_path, {"item": tmp_path / "item.txt", "user": torch.tensor([1, 0, 1])}):
        found = read_assignment(form, TWO, 2)
        assert list(found) == ["user", "item"]
        assert {name: part.tolist() for name, part in found.items()} == expected
    (tmp_path / "item.csv").write_text("0\n1\n")
    with pytest.raises(InputError, match=r"item.txt and item.csv; give one file for each"):
        read_assignment(tmp_path, TWO, 2)
    (tmp_path / "user.npy").unlink()
    with pytest.raises(InputError, match=r"no user.npy or user.txt or user.csv"):
        read_assignment(tmp_path, TWO, 2)
    with pytest.raises(InputError, match="one file assigns one node type"):
        read_assignment(tmp_path / "item.txt", TWO, 2)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("0\n1\n2\n3\n0\n", r"line 4 of .*a.txt holds 3, but partitions go from 0 to 2"),
        ("part\n0\n1\n-1\n0\n0\n", r"line 4 of .*a.txt holds -1"),
        ("0\n1\n1\n1,5\n0\n", r"line 4 of .*a.txt holds '1,5'; write one partition number on each line"),
        ("0\n1\n\n1\n0\n0\n", r"line 3 of .*a.txt holds ''"),
        ("0\n1\n", r"a.txt has 2 numbers for 5 nodes"),
        ("", r"a.txt has 0 numbers for 5 nodes"),
        ("0\n" * 6, r"a.txt has more than 5 numbers"),
        ("0\n1\n2.0\n1\n1\n", r"line 3 of .*a.txt holds '2.0'"),
    ],
)
def test_bad_texts(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(InputError, match=says):
        read_assignment(tmp_path / "a.txt", ONE, 3)


def test_bad_arrays(tmp_path: Path) -> None:
    for array, says in [
        (np.array([0, 1, 2, 3, 0]), r"a.npy holds 3 for row 3, but partitions go from 0 to 2"),
        (np.zeros(5, np.float32), r"a.npy must be integers of shape \(5,\), got float32"),
        (np.zeros((5, 1), np.int64), r"got int64 of \(5, 1\)"),
        (np.zeros(4, np.int64), r"of \(4,\)"),
    ]:
        np.save(tmp_path / "a.npy", array)
        with pytest.raises(InputError, match=says):
            read_assignment(tmp_path / "a.npy", ONE, 3)
    (tmp_path / "b.npy").write_bytes(b"0\n1\n")
    with pytest.raises(InputError, match=r"b.npy cannot be read"):
        read_assignment(tmp_path / "b.npy", ONE, 3)
    (tmp_path / "c.txt").write_bytes(b"\xff\xfe\x00")
    for missing in ("c.txt", "none.txt", "none.npy"):
        with pytest.raises(InputError, match=missing):
            read_assignment(tmp_path / missing, ONE, 3)


def test_assignments_are_told_apart(tmp_path: Path) -> None:
    """As text, tensors of a thousand numbers and more are their ends."""
    one = torch.zeros(5000, dtype=torch.int64)
    other = one.clone()
    other[2500] = 1
    assert repr(one) == repr(other)
    assert given.identity(one) == given.identity(one.int()) == given.identity(one.numpy())
    assert given.identity(one) != given.identity(other)
    assert given.identity({"a": one, "b": other}) != given.identity({"a": other, "b": one})
    np.save(tmp_path / "user.npy", one.numpy())
    before = [given.identity(path) for path in (tmp_path, tmp_path / "user.npy")]
    np.save(tmp_path / "user.npy", other.int().numpy())
    assert all(given.identity(path) != found for path, found in zip((tmp_path, tmp_path / "user.npy"), before, strict=True))
