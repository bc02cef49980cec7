import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from halohop.datasets.synthetic import SIZES, synthetic, synthetic_hetero
from halohop.errors import InputError
from halohop.store.tables import EdgeTable, GraphTables
from halohop.typing import EDGE, NODE


def pairs(table: EdgeTable) -> set[tuple[int, int]]:
    return set(zip(table.src.tolist(), table.dst.tolist(), strict=True))


def assert_same(one: GraphTables, other: GraphTables) -> None:
    for name, table in one.nodes.items():
        assert all(torch.equal(column, other.nodes[name].columns[key]) for key, column in table.columns.items())
    for relation, table in one.edges.items():
        assert torch.equal(table.src, other.edges[relation].src)
        assert torch.equal(table.dst, other.edges[relation].dst)


def linear_accuracy(x: Tensor, y: Tensor, train: Tensor, test: Tensor) -> float:
    """Of ridge regression on one-hot labels."""
    x = torch.cat([x, torch.ones(len(x), 1)], dim=1).double()
    target = torch.nn.functional.one_hot(y[train]).double()
    gram = x[train].T @ x[train] + torch.eye(x.shape[1])
    weight = torch.linalg.solve(gram, x[train].T @ target)
    return float(((x[test] @ weight).argmax(1) == y[test]).double().mean())


def neighbour_mean(x: Tensor, edges: EdgeTable) -> Tensor:
    total = torch.zeros_like(x).index_add_(0, edges.dst, x[edges.src.long()])
    return total / torch.bincount(edges.dst, minlength=len(x)).clamp(min=1)[:, None]


@pytest.mark.parametrize("size", ["tiny", "small"])
def test_a_named_size_is_a_simple_symmetric_graph_of_that_shape(size: str) -> None:
    shape = SIZES[size]
    tables = synthetic(size)
    nodes, edges = tables.nodes[NODE], tables.edges[EDGE]
    assert nodes.num_nodes == shape.num_nodes
    assert nodes.columns["x"].shape == (shape.num_nodes, shape.num_features)
    assert nodes.columns["x"].dtype == torch.float32
    assert nodes.columns["y"].dtype == torch.int64
    assert nodes.columns["y"].unique().tolist() == list(range(shape.num_classes))
    assert edges.num_edges == shape.num_nodes * shape.avg_degree
    directed = pairs(edges)
    assert len(directed) == edges.num_edges
    assert directed == {(dst, src) for src, dst in directed}
    assert not any(src == dst for src, dst in directed)


def test_ids_tell_neither_class_nor_degree() -> None:
    tables = synthetic("small")
    ids = torch.arange(20_000).double()
    degree = torch.bincount(tables.edges[EDGE].dst, minlength=20_000).double()
    for values in (tables.nodes[NODE].columns["y"].double(), degree.log1p()):
        assert abs(torch.corrcoef(torch.stack([ids, values]))[0, 1]) < 0.03


def test_degrees_have_a_heavy_tail_that_exponent_tames() -> None:
    def hub(exponent: float) -> float:
        degree = torch.bincount(synthetic("small", exponent=exponent).edges[EDGE].dst)
        return float(degree.max() / degree.float().mean())

    assert hub(2.5) > 20
    assert hub(2.5) > 2 * hub(6.0)


def test_homophily_is_the_share_kept_within_classes() -> None:
    for homophily, expected in ((0.0, 0.1), (0.6, 0.64), (1.0, 1.0)):
        tables = synthetic("small", homophily=homophily, label_noise=0)
        y, edges = tables.nodes[NODE].columns["y"], tables.edges[EDGE]
        assert float((y[edges.src] == y[edges.dst]).double().mean()) == pytest.approx(expected, abs=0.03)


def test_neighbours_tell_more_than_own_features() -> None:
    tables = synthetic("small")
    columns, edges = tables.nodes[NODE].columns, tables.edges[EDGE]
    x, y, train, test = (columns[name] for name in ("x", "y", "train_mask", "test_mask"))
    own = linear_accuracy(x, y, train, test)
    near = neighbour_mean(x, edges)
    aggregated = linear_accuracy(torch.cat([x, near, neighbour_mean(near, edges)], dim=1), y, train, test)
    assert 0.5 < own < 0.7
    assert 0.85 < aggregated < 0.97


def test_equal_seeds_equal_graphs() -> None:
    assert_same(synthetic("tiny", seed=5), synthetic("tiny", seed=5))
    assert_same(synthetic_hetero(200, seed=5), synthetic_hetero(200, seed=5))
    assert pairs(synthetic("tiny", seed=5).edges[EDGE]) != pairs(synthetic("tiny", seed=6).edges[EDGE])


@settings(max_examples=40)
@given(
    num_nodes=st.integers(1, 60),
    share=st.floats(0, 0.6),
    num_classes=st.integers(1, 70),
    num_features=st.integers(1, 3),
    seed=st.integers(0, 5),
)
def test_any_small_shape(num_nodes: int, share: float, num_classes: int, num_features: int, seed: int) -> None:
    avg_degree = share * (num_nodes - 1) / 2
    tables = synthetic(
        None,
        num_nodes=num_nodes,
        avg_degree=avg_degree,
        num_classes=num_classes,
        num_features=num_features,
        homophily=0.2,
        exponent=4,
        seed=seed,
    )
    edges = tables.edges[EDGE]
    assert edges.num_edges == 2 * round(num_nodes * avg_degree / 2)
    assert len(pairs(edges)) == edges.num_edges
    assert int(tables.nodes[NODE].columns["y"].max()) < num_classes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": "huge"}, "unknown size 'huge'"),
        ({"size": None}, "needs num_nodes"),
        ({"num_nodes": 0}, "num_nodes=0"),
        ({"num_nodes": 10, "avg_degree": 5}, "half of a complete graph"),
        ({"avg_degree": -1}, "avg_degree=-1"),
        ({"homophily": 1.5}, "homophily=1.5"),
        ({"exponent": 2}, "exponent=2"),
        ({"num_nodes": 100, "num_classes": 50, "avg_degree": 20, "homophily": 1.0}, "too dense"),
    ],
)
def test_impossible_wishes_are_refused(arguments, message: str) -> None:
    with pytest.raises(InputError, match=message):
        synthetic(**arguments)


def test_hetero_has_the_proportions_of_mag() -> None:
    tables = synthetic_hetero(2_000)
    assert {name: table.num_nodes for name, table in tables.nodes.items()} == {
        "paper": 2000,
        "author": 3080,
        "institution": 24,
        "field_of_study": 167,
    }
    assert {name: sorted(table.columns) for name, table in tables.nodes.items()} == {
        "paper": ["test_mask", "train_mask", "val_mask", "x", "y"],
        "author": ["x"],
        "institution": [],
        "field_of_study": [],
    }
    assert tables.nodes["author"].columns["x"].shape == (3080, 16)
    assert tables.edges["author", "writes", "paper"].num_edges == 19_400
    assert tables.edges["paper", "cites", "paper"].num_edges == 14_800
    for (src, name, dst), table in tables.edges.items():
        if not name.startswith("rev_"):
            reverse = tables.edges[dst, f"rev_{name}", src]
            assert torch.equal(table.src, reverse.dst)
            assert torch.equal(table.dst, reverse.src)
            assert len(pairs(table)) == table.num_edges


def test_hetero_neighbours_tell_the_class() -> None:
    tables = synthetic_hetero(2_000)
    y = tables.nodes["paper"].columns["y"]
    cites = tables.edges["paper", "cites", "paper"]
    assert float((y[cites.src] == y[cites.dst]).double().mean()) > 0.45


@pytest.mark.parametrize("num_papers", [1, 3])
def test_hetero_of_hardly_anything(num_papers: int) -> None:
    assert synthetic_hetero(num_papers).nodes["institution"].num_nodes == 1
