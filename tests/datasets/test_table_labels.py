"""Labels of a node: whole numbers or text, or several that are 0, 1, or not known."""

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
import torch

from halohop.datasets.staging import Staging
from halohop.datasets.tables import read_tables
from halohop.errors import InputError
from halohop.store.tables import NodeTable

pa = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402

SPEC = '[nodes.n]\nfile = "n*.csv"\nid = "id"\nlabel = ["a", "b"]\n'


@pytest.fixture(params=["memory", "chunks"])
def read(request: pytest.FixtureRequest, tmp_path: Path):
    """Reads nodes with two labels from files of fields, in memory and a few rows at a time."""

    def reading(*files: list[str], more: str = "") -> NodeTable:
        (tmp_path / "graph.toml").write_text(SPEC + more)
        count = 0
        for number, rows in enumerate(files):
            lines = "".join(f"{count + row},{fields}\n" for row, fields in enumerate(rows))
            (tmp_path / f"n{number}.csv").write_text(f"id,a,b\n{lines}")
            count += len(rows)
        (tmp_path / "columns").mkdir()
        staged = Staging(folder=tmp_path / "columns", chunk_bytes=60)
        return read_tables(tmp_path, staging=Staging() if request.param == "memory" else staged).nodes["n"]

    return reading


@pytest.mark.parametrize("unknown", ["-1", "nan", "", "-1.0"])
def test_what_is_not_known_is_kept(read, unknown: str) -> None:
    table = read(["1,0", "0,0", f"1,{unknown}"])
    assert table.columns["y"].dtype == torch.int8
    assert table.columns["y"].tolist() == [[1, 0], [0, 0], [1, -1]]


@pytest.mark.parametrize("unknown", ["-1", "nan", ""])
def test_what_is_not_known_in_one_file_of_several(read, unknown: str) -> None:
    assert read(["1,0"] * 20, [f"{unknown},1"]).columns["y"].tolist() == [[1, 0]] * 20 + [[-1, 1]]


def test_labels_that_are_known_take_a_bool(read) -> None:
    assert read(["1,0", "0,1"], ["1,1"]).columns["y"].dtype == torch.bool


@pytest.mark.parametrize("value", ["2", "0.2", "inf", "-2"])
def test_other_values_are_refused_by_their_row(read, value: str) -> None:
    with pytest.raises(InputError, match=rf"n1.csv: column 'b' holds {float(value):g}.* in row 21, expected 0 or 1"):
        read(["1,0"], ["1,0"] * 21 + [f"1,{value}"])


def test_nodes_without_a_known_label_are_in_no_split(read) -> None:
    table = read(["1,0", "-1,-1", "0,-1"], more="fractions = [1.0, 0.0, 0.0]\n")
    assert table.columns["train_mask"].tolist() == [True, False, True]


@pytest.mark.parametrize("value", ["inf", "-inf", "1e300", "9223372036854775808", "0.5"])
def test_numbers_that_are_not_whole_and_of_64_bits_are_refused_by_their_row(tmp_path: Path, value: str) -> None:
    (tmp_path / "n.csv").write_text(f"id,y\n0,1.0\n1,\n2,nan\n3,{value}\n")
    (tmp_path / "graph.toml").write_text('[nodes.n]\nfile = "n.csv"\nid = "id"\nlabel = "y"\n')
    with pytest.raises(InputError, match=r"n.csv: labels in column 'y' must be whole numbers that fit int64, .* row 3 holds"):
        read_tables(tmp_path)


@pytest.mark.parametrize(
    ("kind", "value", "declared"),
    [
        ("number", date(2020, 1, 1), "date32.day."),
        ("number", [1], "list<.*>"),
        ("text", [1], "list<.*>"),
        ("text", {"a": 1}, "struct<.*>"),
    ],
)
def test_labels_that_cannot_be_of_the_kind_that_was_given_are_refused(
    tmp_path: Path, kind: str, value: object, declared: str
) -> None:
    parquet.write_table(pa.table({"id": [0, 1], "y": [value, value]}), tmp_path / "n.parquet")
    (tmp_path / "graph.toml").write_text(f'[nodes.n]\nfile = "*.parquet"\nid = "id"\nlabel = "y"\nkinds = {{y = "{kind}"}}\n')
    with pytest.raises(InputError, match=rf"n.parquet: column 'y' holds {declared}, expected .*; store integers or text"):
        read_tables(tmp_path)


@pytest.mark.parametrize("kind", ["number", "text"])
@pytest.mark.parametrize("value", [[1], datetime(2020, 1, 1), "1"])
def test_a_file_without_rows_has_labels_of_every_kind(tmp_path: Path, kind: str, value: object) -> None:
    table = pa.table({"id": [0], "y": [value]})
    parquet.write_table(table[:0], tmp_path / "n1.parquet")
    parquet.write_table(pa.table({"id": [0], "y": [7]}), tmp_path / "n2.parquet")
    (tmp_path / "graph.toml").write_text(f'[nodes.n]\nfile = "*.parquet"\nid = "id"\nlabel = "y"\nkinds = {{y = "{kind}"}}\n')
    assert read_tables(tmp_path).nodes["n"].columns["y"].tolist() == [0 if kind == "text" else 7]


@pytest.mark.parametrize(
    ("files", "y"),
    [
        ([[Decimal("2"), None]], [2, -1]),
        ([[Decimal("2"), Decimal("1")], [5]], [2, 1, 5]),
        ([[Decimal("2")], [1.0, None]], [2, 1, -1]),
        ([[True, None], [3, 0]], [1, -1, 3, 0]),
        ([[True, False], [2.0]], [1, 0, 2]),
        ([[True, False]], [1, 0]),
    ],
)
def test_decimals_and_bools_of_parquet_are_whole_numbers(tmp_path: Path, files: list[list[object]], y: list[int]) -> None:
    for number, values in enumerate(files):
        table = pa.table({"id": [10 * number + row for row in range(len(values))], "y": values})
        parquet.write_table(table, tmp_path / f"n{number}.parquet")
    (tmp_path / "graph.toml").write_text('[nodes.n]\nfile = "*.parquet"\nid = "id"\nlabel = "y"\n')
    table = read_tables(tmp_path).nodes["n"]
    assert (table.columns["y"].tolist(), table.names) == (y, {"y": ()})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Decimal("1.5"), r"holds Decimal\('1.5'\) in row 1, expected a whole number"),
        (date(2020, 1, 1), "holds date32.day., .*store integers or text"),
        ([1], "holds list<.*>, .*store integers or text"),
    ],
)
def test_labels_of_parquet_that_are_neither_numbers_nor_text_are_refused(tmp_path: Path, value: object, message: str) -> None:
    parquet.write_table(pa.table({"id": [0, 1], "y": [None, value]}), tmp_path / "n.parquet")
    (tmp_path / "graph.toml").write_text('[nodes.n]\nfile = "*.parquet"\nid = "id"\nlabel = "y"\n')
    with pytest.raises(InputError, match=rf"n.parquet: column 'y' {message}"):
        read_tables(tmp_path)
