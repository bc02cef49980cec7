"""Which columns are stored in fewer bytes, in which steps, and what is refused."""

import pytest
import torch

from halohop.errors import InputError
from halohop.ops import Narrow, narrowed
from halohop.partitioning.building import columns, narrowing
from halohop.partitioning.building.narrowing import with_narrow_features
from halohop.store.tables import EdgeTable, GraphTables, NodeTable

RELATION = ("paper", "cites", "paper")


def tables(**columns: torch.Tensor) -> GraphTables:
    count = len(next(iter(columns.values())))
    nothing = torch.empty(0, dtype=torch.int64)
    edges = EdgeTable(src=nothing, dst=nothing)
    return GraphTables(nodes={"paper": NodeTable(num_nodes=count, columns=columns)}, edges={RELATION: edges})


def stored(wanted: narrowing.FeatureDtype, **columns: torch.Tensor) -> dict[str, Narrow]:
    return with_narrow_features(tables(**columns), wanted).nodes["paper"].stored


def test_features_of_nodes_and_edges_are_meant():
    whole = tables(x=torch.rand(5, 2), y=torch.rand(5, 2), other=torch.rand(5))
    edges = EdgeTable(
        src=torch.zeros(2).long(), dst=torch.zeros(2).long(), columns={"edge_attr": torch.rand(2, 3), "time": torch.rand(2)}
    )
    whole = with_narrow_features(GraphTables(nodes=whole.nodes, edges={RELATION: edges}), "float16")
    assert whole.nodes["paper"].stored == {"x": Narrow(dtype="float16")}
    assert whole.edges[RELATION].stored == {"edge_attr": Narrow(dtype="float16")}
    assert with_narrow_features(whole, None) is whole


def test_columns_that_are_named():
    found = stored(
        {"x": "int8", "feat": "bfloat16"}, x=torch.tensor([[1.0, -5.0], [2.0, 5.2]]), feat=torch.rand(2, 1), y=torch.rand(2, 2)
    )
    assert found["feat"] == Narrow(dtype="bfloat16")
    assert found["x"].low == (1.0, -5.0)
    assert found["x"].scale == pytest.approx((1 / 255, 10.2 / 255))
    assert "y" not in found


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_a_column_is_read_by_chunks(monkeypatch, rows):
    x = torch.randn(50, 3)
    whole = stored("int8", x=x)
    monkeypatch.setattr(narrowing, "_CHUNK", rows * 12)
    assert stored("int8", x=x) == whole == {"x": Narrow.between(x.amin(0).double(), x.amax(0).double())}


@pytest.mark.parametrize("rows", [1, 3, 100])
def test_rows_are_narrowed_some_at_a_time(monkeypatch, rows):
    x = torch.randn(20, 3)
    how = stored("int8", x=x)["x"]
    monkeypatch.setattr(columns, "_NARROWED_BYTES", rows * 12)
    some = columns.Narrowed(column=columns.Given(tensor=x), how=how).rows(4, 18)
    assert torch.equal(some(2, 13, None), narrowed(x[6:17], how))
    order = torch.tensor([3, 0, 13, 7, 7])
    assert torch.equal(some(1, 5, order), narrowed(x[4:18][order[1:5]], how))


def test_what_is_narrow_already_stays():
    assert stored("int8", x=torch.rand(3, 2).half()) == {}


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (0, 0)])
@pytest.mark.parametrize("dtype", narrowing.DTYPES)
def test_columns_without_numbers(shape, dtype):
    how = stored(dtype, x=torch.empty(shape), y=torch.zeros(shape[0]))["x"]
    assert how.dtype == dtype
    assert how.scale == ((0.0,) * shape[1] if dtype == "int8" else ())


@pytest.mark.parametrize(
    ("wanted", "x", "message"),
    [
        ("int4", torch.rand(3, 2), "feature_dtype='int4' for column 'x' is none of float16, bfloat16, int8"),
        ("int8", torch.ones(3, 2, dtype=torch.int64), "column 'x' of 'paper' is torch.int64, and feature_dtype is for floats"),
        ("int8", torch.rand(3), "column 'x' of 'paper' is one number per row"),
        ("float16", torch.eye(3).to_sparse(), "column 'x' of 'paper' is stored sparse"),
        ("int8", torch.tensor([[1.0], [float("nan")]]), "column 'x' of 'paper' holds nan in row 1, and int8 has no such number"),
        ("int8", torch.tensor([[1.0], [float("-inf")]]), "holds -inf in row 1"),
        ("float16", torch.tensor([[1.0, 2.0], [3.0, -70000.0]]), "holds -70000 in row 1, and float16 ends at 65504"),
        ("bfloat16", torch.tensor([[1e300]], dtype=torch.float64), "holds 1e.300 in row 0, and bfloat16 ends at 3.38953e.38"),
        ("int8", torch.tensor([[-3e38], [3e38]]), r"goes from -3e[+]38 to 3e[+]38, too far for int8; take bfloat16"),
        ({"z": "int8"}, torch.rand(3, 2), r"feature_dtype names 'z', which is no column; columns: \['x'\]"),
    ],
)
def test_what_cannot_be_stored_so(wanted, x, message):
    with pytest.raises(InputError, match=message):
        stored(wanted, x=x)


def test_a_graph_without_features():
    with pytest.raises(InputError, match=r"is for the columns x and edge_attr, and there is neither; .* \['feat'\]"):
        stored("int8", feat=torch.rand(3, 2))


def test_numbers_that_are_none_stay_so_in_two_bytes():
    x = torch.tensor([[float("nan"), float("inf")]])
    assert stored("float16", x=x) == {"x": Narrow(dtype="float16")}
