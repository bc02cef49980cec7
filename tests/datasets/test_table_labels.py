"""Several labels of a node: 0, 1, or not known."""

from pathlib import Path

import pytest
import torch

from halohop.datasets.staging import Staging
from halohop.datasets.tables import read_tables
from halohop.errors import InputError
from halohop.store.tables import NodeTable

pytest.importorskip("pyarrow")

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
