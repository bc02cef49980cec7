"""Numbers of tables are finite and fit their dtype, or the file, column and row are named."""

from pathlib import Path

import numpy as np
import pytest
import torch

from halohop.datasets.spec import EdgeFiles, GraphFiles, NodeFiles
from halohop.datasets.staging import Staging
from halohop.datasets.tables import read_tables
from halohop.errors import InputError
from halohop.store.tables import GraphTables

pa = pytest.importorskip("pyarrow")
from pyarrow import csv, parquet  # noqa: E402

NAN, INF = float("nan"), float("inf")


@pytest.fixture(params=["memory", "chunks"])
def read(request: pytest.FixtureRequest, tmp_path: Path):
    """Reads a graph of one table of nodes or edges, in memory and a few rows at a time."""

    def reading(suffix: str, column: object, **options: object) -> GraphTables:
        count = len(column)  # type: ignore[arg-type]
        table = pa.table({"a": list(range(count)), "f": column})
        write = parquet.write_table if suffix == "parquet" else csv.write_csv
        write(table, tmp_path / f"t.{suffix}")
        folder = tmp_path / f"columns-{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        if {"weight", "time"} & set(options) or options.pop("edges", False):
            files = GraphFiles(edges={"n__to__n": EdgeFiles(file=f"t.{suffix}", src="a", dst="a", **options)})  # type: ignore[arg-type]
        else:
            files = GraphFiles(nodes={"n": NodeFiles(file=f"t.{suffix}", id="a", **options)})  # type: ignore[arg-type]
        return read_tables(
            files, tmp_path, staging=Staging() if request.param == "memory" else Staging(folder=folder, chunk_bytes=100)
        )

    return reading


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("value", "options", "message"),
    [
        (
            NAN,
            {"features": ("f",)},
            "column 'f' holds nan in row 33, expected a finite number that fits float32; set allow_missing",
        ),
        (-INF, {"features": ("f",)}, "column 'f' holds -inf in row 33, expected a finite number"),
        (NAN, {"features": ("f",), "dtype": "float64"}, "holds nan in row 33"),
        (NAN, {"features": ("f",), "edges": True}, "column 'f' holds nan in row 33"),
        (NAN, {"features": ("f",), "dtype": "int64"}, "holds nan in row 33, expected a finite number that fits int64"),
        (
            1e6,
            {"features": ("f",), "dtype": "float16"},
            "holds 1000000(.0)? in row 33, expected a finite number that fits float16",
        ),
        (300.0, {"features": ("f",), "dtype": "int8"}, "holds 300(.0)? in row 33, expected a finite number that fits int8"),
        (0.5, {"features": ("f",), "dtype": "uint8"}, "holds 0.5 in row 33"),
        (NAN, {"weight": "f"}, "column 'f' holds nan in row 33"),
        (INF, {"time": "f"}, "column 'f' holds inf in row 33"),
        (2.0, {"masks": {"train": "f"}}, "column 'f' holds 2(.0)? in row 33, expected 0 or 1"),
    ],
)
def test_what_is_not_finite_or_does_not_fit_is_named_by_its_row(read, suffix: str, value: float, options, message: str) -> None:
    with pytest.raises(InputError, match=rf"t\.{suffix}: .*{message}"):
        read(suffix, [1.0, 0.0, 1.0] * 11 + [value, 1.0], **options)


def test_lists_are_named_by_their_row(read) -> None:
    with pytest.raises(InputError, match="holds nan in row 2,"):
        read("parquet", [[1.0, 2.0], [3.0, 4.0], [5.0, NAN]], features=("f",))
    with pytest.raises(InputError, match="is empty in row 1 "):
        read("parquet", [[1.0, 2.0], [None, 4.0], [5.0, 6.0]], features=("f",))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("values", [[1.5, None, NAN], [1, None, 2], [None, None, None]])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_missing_features_are_kept_if_that_is_meant(read, suffix: str, values: list[float | None], dtype: str) -> None:
    column = pa.array(values, from_pandas=False)
    x = read(suffix, column, features=("f",), dtype=dtype, allow_missing=True).nodes["n"].columns["x"]
    expected = torch.tensor([[NAN if value is None else float(value)] for value in values], dtype=getattr(torch, dtype))
    assert x.dtype == expected.dtype
    assert torch.equal(x.nan_to_num(nan=-7), expected.nan_to_num(nan=-7))


def test_infinity_is_refused_next_to_missing_values_that_are_meant(read) -> None:
    with pytest.raises(InputError, match="holds inf in row 1, expected a finite number"):
        read("parquet", [NAN, INF], features=("f",), allow_missing=True)


@pytest.mark.parametrize(
    ("kind", "of_times", "of_weights"),
    [
        (pa.int16(), torch.int64, torch.int16),
        (pa.int8(), torch.int64, torch.int8),
        (pa.uint8(), torch.int64, torch.uint8),
        (pa.uint32(), torch.int64, torch.int64),
        (pa.int32(), torch.int32, torch.int32),
        (pa.float16(), torch.float32, torch.float16),
        (pa.float32(), torch.float32, torch.float32),
        (pa.float64(), torch.float64, torch.float64),
    ],
)
def test_times_and_weights_have_a_dtype_that_sampling_takes(read, kind, of_times: torch.dtype, of_weights: torch.dtype) -> None:
    for target, dtype in {"time": of_times, "weight": of_weights}.items():
        values = pa.array(np.array([1, 2], kind.to_pandas_dtype()))
        found = read("parquet", values, **{target: "f"}).edges["n", "to", "n"].columns[target]
        assert (found.dtype, found.tolist()) == (dtype, [1, 2])


@pytest.mark.parametrize("values", [[1.0, NAN, INF], [[1, 2], [3, 4], [5, 6]], [True, False, True]])
def test_weights_of_nodes_are_columns_like_any_other(tmp_path: Path, values: list[object]) -> None:
    parquet.write_table(pa.table({"a": [0, 1, 2], "weight": values}), tmp_path / "t.parquet")
    files = NodeFiles(file="t.parquet", id="a", columns=("weight",))
    found = read_tables(GraphFiles(nodes={"n": files}), tmp_path).nodes["n"].columns["weight"]
    assert str(found.tolist()) == str(values)


@pytest.mark.parametrize(("values", "found"), [([1.0, NAN], "nan in row 1"), ([[1], [2]], "lists")])
def test_times_of_nodes_are_finite_numbers(tmp_path: Path, values: list[object], found: str) -> None:
    parquet.write_table(pa.table({"a": [0, 1], "time": values}), tmp_path / "t.parquet")
    files = NodeFiles(file="t.parquet", id="a", columns=("time",))
    with pytest.raises(InputError, match=f"column 'time' holds {found}"):
        read_tables(GraphFiles(nodes={"n": files}), tmp_path)


@pytest.mark.parametrize("column", [[[1], [2]], [True, False]])
def test_times_that_are_not_one_number_are_refused(read, column: list[object]) -> None:
    with pytest.raises(InputError, match=r"column 'f' holds (lists|true and false), expected one number in each row"):
        read("parquet", column, time="f")


@pytest.mark.parametrize("dtype", ["complex64", "float33", "Tensor"])
def test_features_are_real_numbers(read, dtype: str) -> None:
    with pytest.raises(InputError, match=f"dtype '{dtype}' is not a torch dtype of real numbers"):
        read("parquet", [1.0], features=("f",), dtype=dtype)
