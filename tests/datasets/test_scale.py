import pytest
import torch

from halohop.datasets import normalize_rows, scale, scales
from halohop.datasets.scale import gaps
from halohop.errors import InputError
from halohop.store.tables import GraphTables, NodeTable


def graph(**features: torch.Tensor) -> GraphTables:
    nodes = {name: NodeTable(num_nodes=len(x), columns={"x": x}) for name, x in features.items()}
    return GraphTables(nodes=nodes | {"bare": NodeTable(num_nodes=3)}, edges={})


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.uint8, torch.int64, torch.bool]
)
def test_rows_sum_to_one_in_a_dtype_of_fractions(dtype: torch.dtype) -> None:
    x = torch.tensor([[1, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]]).to(dtype)
    found = normalize_rows(graph(a=x)).nodes["a"].columns["x"]
    assert found.dtype == (dtype if dtype.is_floating_point else torch.float32)
    assert found.tolist() == [[0.5, 0.5, 0, 0], [0, 0, 0, 0], [0.25] * 4]
    assert x.sum() == 6  # the input is as it was


def test_signs_do_not_cancel() -> None:
    x = torch.tensor([[1.0, -1.0], [3.0, -1.0]])
    assert normalize_rows(graph(a=x)).nodes["a"].columns["x"].tolist() == [[0.5, -0.5], [0.75, -0.25]]


def test_only_the_types_that_were_named() -> None:
    tables = normalize_rows(graph(a=torch.ones(1, 2), b=torch.ones(1, 2)), ["b", "bare"])
    assert [tables.nodes[name].columns["x"].tolist() for name in ("a", "b")] == [[[1, 1]], [[0.5, 0.5]]]


def test_lines_tell_counts_from_shares_and_from_measurements() -> None:
    words, measured = torch.eye(40).repeat(60, 1) * 3, torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    counts, stored = scales(graph(words=words, measured=measured, empty=torch.zeros(0, 3)))
    assert counts == (
        "features taken as stored: x of words, which holds counts; "
        "--normalize, or normalize = true in graph.toml, divides each row by its sum"
    )
    assert stored == "features taken as stored: x of measured"
    assert scales(normalize_rows(graph(words=words))) == ["features divided by their sum: x of words"]


def test_complex_features_are_not_cast_to_their_real_part() -> None:
    tables = graph(a=torch.ones(2, 3, dtype=torch.complex64))
    assert scales(tables) == []
    with pytest.raises(InputError, match=r"features `x` of 'a' are torch\.complex64, which cannot be divided"):
        normalize_rows(tables)


@pytest.mark.parametrize(
    "dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.float16, torch.bfloat16, torch.float32, torch.float64]
)
def test_gaps_are_found_in_each_dtype_of_fractions(dtype: torch.dtype) -> None:
    x = torch.tensor([[1.0, 2.0], [0.0, 1.0], [1.0, torch.nan]])
    (line,) = gaps(graph(a=x.to(dtype), full=x[:2].to(dtype), counts=x[:2].int()))
    assert line.startswith("features of a are not finite: x holds nan in row 2; ")


@pytest.mark.parametrize("width", [1, 3, 1000])
def test_gaps_are_looked_for_in_chunks_of_bytes(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setattr(scale, "CHUNK_BYTES", 256)
    sizes: list[int] = []
    isfinite = torch.Tensor.isfinite
    monkeypatch.setattr(torch.Tensor, "isfinite", lambda rows: (sizes.append(rows.nbytes), isfinite(rows))[1])
    x = torch.zeros(200, width)
    x[150, -1] = torch.inf
    assert "x holds inf in row 150" in gaps(graph(a=x))[0]
    assert 1 < len(sizes) <= 151
    assert max(sizes) <= max(256, 4 * width)
