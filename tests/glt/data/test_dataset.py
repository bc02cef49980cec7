"""GLT's Dataset: what it takes, what it gives back, and the one graph that is made of it."""

import copy
from typing import Any

import numpy as np
import pytest
import torch

from halohop.errors import InputError
from halohop.glt.data import Dataset, Feature, Graph, Topology, random_split, sort_by_in_degree
from halohop.glt.loader import NeighborLoader
from tests.support.glt_data import BOUGHT, BUYS, ITEMS, KNOWS, USERS, numbers, one_type, several_types


def ring(num_nodes: int = 6, **options: Any) -> Dataset:
    dataset = Dataset(**options)
    edges = torch.stack([torch.arange(num_nodes), torch.arange(num_nodes).roll(-1)])
    dataset.init_graph(edges, graph_mode="CPU")
    return dataset


def test_getters_of_one_type() -> None:
    dataset = one_type("out")[0]
    assert dataset.get_graph() is dataset.graph
    assert dataset.get_node_types() is None
    assert dataset.get_edge_types() is None
    feature = dataset.get_node_feature()
    assert feature is dataset.node_features is dataset["node_features"]
    assert feature is not None
    assert feature.shape == (45, 3)
    assert dataset.get_edge_feature().size(1) == 2  # type: ignore[union-attr]
    assert dataset.get_node_label() is dataset.node_labels
    assert dataset["nothing"] is None
    dataset["node_labels"] = None
    assert dataset.node_labels is None


def test_getters_of_several_types() -> None:
    dataset = several_types("in")[0]
    assert dataset.get_edge_types() == [BUYS, BOUGHT, KNOWS]
    assert dataset.get_node_types() == ["user", "item"]
    assert dataset.node_features["user"].shape == (USERS, 3)  # type: ignore[index]
    assert dataset.get_node_feature("item") is None
    assert dataset.get_edge_feature(KNOWS) is None
    assert len(dataset.get_node_label("item")) == ITEMS
    assert isinstance(dataset.get_graph(BUYS), Graph)


@pytest.mark.parametrize("layout", ["COO", "CSR", "CSC"])
def test_layouts_make_the_same_batches(edge_dir: str, layout: str) -> None:
    edges, ids = numbers(20, 2, 60), torch.arange(60)
    topo = Topology(edges, ids)
    row, col, order, _ = {"COO": topo.to_coo, "CSR": topo.to_csr, "CSC": topo.to_csc}[layout]()
    dataset = Dataset(edge_dir=edge_dir)
    dataset.init_graph((row.numpy(), col.numpy()), order, layout=layout, graph_mode="CPU")
    reference = Dataset(edge_dir=edge_dir)
    reference.init_graph(edges, ids, graph_mode="CPU")
    mine, theirs = (
        next(iter(NeighborLoader(some, [-1], torch.arange(20), batch_size=20, with_edge=True))) for some in (dataset, reference)
    )
    found, wanted = (
        {(int(e), *batch.node[ends].tolist()) for e, ends in zip(batch.edge, batch.edge_index.T, strict=True)}
        for batch in (mine, theirs)
    )
    assert found == wanted
    ends = edges.flip(0) if edge_dir == "out" else edges
    assert wanted == {(e, *pair.tolist()) for e, pair in enumerate(ends.T)}


def test_layouts_per_relation() -> None:
    edges = numbers(20, 2, 60)
    row, col, ids, _ = Topology(edges).to_csr()
    dataset = Dataset()
    dataset.init_graph({KNOWS: edges, BUYS: (row, col)}, {BUYS: ids}, layout={KNOWS: "COO", BUYS: "CSR"}, graph_mode="CPU")
    assert dataset.get_graph(BUYS).edge_count == dataset.get_graph(KNOWS).edge_count == 60  # type: ignore[union-attr]


def test_neither_labels_nor_features_are_needed(edge_dir: str) -> None:
    batch = next(iter(NeighborLoader(ring(edge_dir=edge_dir), [1, 1], torch.tensor([0]))))
    assert batch.node.tolist() == ([0, 1, 2] if edge_dir == "out" else [0, 5, 4])
    assert batch.edge_index.tolist() == [[1, 2], [0, 1]]
    assert "x" not in batch
    assert "y" not in batch


def test_as_many_nodes_as_edges(edge_dir: str) -> None:
    """Ids and weights of edges are not taken for columns of nodes."""
    dataset = Dataset(edge_dir=edge_dir)
    dataset.init_graph(torch.tensor([[0, 0, 1], [1, 2, 2]]), [7, 8, 9], [0.0, 1.0, 0.0], graph_mode="CPU")
    seed = 0 if edge_dir == "out" else 2
    batch = next(iter(NeighborLoader(dataset, [2], torch.tensor([seed]), with_edge=True, with_weight=True)))
    assert batch.edge.tolist() == [8]


def test_labels_keep_their_shape_and_whole_numbers_become_int64() -> None:
    for given, dtype in ((torch.arange(6, dtype=torch.int32), torch.int64), (torch.rand(6, 3), torch.float32)):
        dataset = ring()
        dataset.init_node_labels(given)
        batch = next(iter(NeighborLoader(dataset, [-1], torch.tensor([4]))))
        assert batch.y.dtype == dtype
        assert torch.equal(batch.y, given[batch.node].to(dtype))


def test_labels_and_splits_of_one_column_are_flat() -> None:
    """OGB's labels are [n, 1]; a loss would take them for several classes. Nodes keep their rows, also a single one."""
    column = np.arange(6).reshape(6, 1)
    dataset = Dataset(node_labels=torch.from_numpy(column), node_split=(column[:3], torch.arange(3, 5)[:, None], column[5:]))
    assert [ids.tolist() for ids in (dataset.train_idx, dataset.val_idx, dataset.test_idx)] == [[0, 1, 2], [3, 4], [5]]
    assert dataset.node_labels.tolist() == list(range(6))
    dataset.init_node_labels({"a": torch.rand(1, 1), "b": torch.rand(2, 3), "c": torch.rand(1, 3)})
    assert {name: tuple(rows.shape) for name, rows in dataset.node_labels.items()} == {"a": (1,), "b": (2, 3), "c": (1, 3)}
    dataset.init_node_split(({"a": [[4], [2]]}, [[3]], None))
    assert (dataset.train_idx["a"].tolist(), dataset.val_idx.tolist(), dataset.test_idx) == ([4, 2], [3], None)


def test_arrays_are_taken_as_tensors_are() -> None:
    dataset = Dataset()
    dataset.init_graph(np.array([[0, 1], [1, 0]]), np.array([5, 6]), np.array([1.0, 2.0]), graph_mode="CPU")
    dataset.init_node_features(np.eye(2, dtype=np.float16))
    dataset.init_node_labels(np.array([1, 0]))
    batch = next(iter(NeighborLoader(dataset, [1], torch.tensor([1]), with_edge=True)))
    assert (batch.x.dtype, batch.y.tolist(), batch.edge.tolist()) == (torch.float16, [0, 1], [6])


def test_rows_that_lie_in_another_order_are_found() -> None:
    dataset = ring()
    x, order = torch.rand(6, 2), torch.tensor([5, 3, 0, 1, 2, 4])
    dataset.init_node_features(x[order], order.argsort())
    dataset.init_node_labels(order, order.argsort())
    batch = next(iter(NeighborLoader(dataset, [1], torch.tensor([2]))))
    assert torch.equal(batch.x, x[batch.node])
    assert torch.equal(batch.y, batch.node)
    rows, places = sort_by_in_degree(x, 0.5, dataset.graph.topo)  # type: ignore[union-attr]
    assert places is not None
    assert torch.equal(rows[places], x)


def test_most_neighbours_first() -> None:
    topo = Topology(torch.tensor([[2, 2, 2, 0], [0, 1, 3, 1]]))
    rows, places = sort_by_in_degree(torch.arange(5), 0.0, topo)
    assert rows.tolist() == [2, 0, 1, 3, 4]
    assert places is not None
    assert places.tolist() == [1, 2, 0, 3, 4]
    assert sort_by_in_degree(torch.arange(5), 1.0, None)[1] is None
    torch.manual_seed(0)
    shuffled = sort_by_in_degree(torch.arange(5), 1.0, topo)[0]
    assert shuffled.sort().values.tolist() == [0, 1, 2, 3, 4]
    assert {*shuffled[:3].tolist()} == {2, 0, 1}  # node 3 and 4 have no list


def test_splits() -> None:
    torch.manual_seed(4)
    train, val, test = random_split(20, 0.25, 3)
    assert [len(ids) for ids in (train, val, test)] == [12, 5, 3]
    assert torch.cat([train, val, test]).sort().values.tolist() == list(range(20))
    assert train.tolist() != sorted(train.tolist())
    dataset = one_type("out")[0]
    dataset.random_node_split(5, 0.2)
    assert [len(ids) for ids in (dataset.train_idx, dataset.val_idx, dataset.test_idx)] == [31, 5, 9]
    typed = several_types("out")[0]
    typed.random_node_split(5, 5)
    assert [len(typed.val_idx[name]) for name in ("user", "item")] == [5, 5]
    given = Dataset(node_split=([1], np.array([2]), torch.tensor([3])))
    assert [given.train_idx.tolist(), given.val_idx.tolist(), given.test_idx.tolist()] == [[1], [2], [3]]
    with pytest.raises(InputError, match="random_node_split splits the nodes that have labels; call init_node_labels first"):
        ring().random_node_split(1, 1)


def test_one_graph_for_all_loaders_until_a_change() -> None:
    dataset = one_type("out")[0]
    first = dataset.halohop_graph
    NeighborLoader(dataset, [2], torch.arange(3))
    assert dataset.halohop_graph is first
    dataset.init_node_features(torch.zeros(45, 3))
    assert dataset.halohop_graph is not first
    assert not next(iter(NeighborLoader(dataset, [2], torch.arange(3)))).x.any()
    assert "halohop_graph" not in copy.copy(dataset).__dict__


@pytest.mark.filterwarnings("ignore:.*changes nothing here")
def test_build_as_the_readme_has_it() -> None:
    dataset = Dataset()
    x, y = torch.rand(6, 2), torch.arange(6)
    edges = torch.tensor([[0, 1], [1, 2]])
    dataset.build(edge_index=edges, feature_data=x, sort_func=sort_by_in_degree, split_ratio=0.2, label=y)
    batch = next(iter(NeighborLoader(dataset, [1], torch.tensor([0]))))
    assert torch.equal(batch.x, x[[0, 1]])
    assert batch.y.tolist() == [0, 1]


def test_given_parts() -> None:
    graph = Graph(Topology(torch.tensor([[0, 1], [1, 0]])), "CPU")
    dataset = Dataset(graph, Feature(torch.eye(2)), None, torch.tensor([1, 0]))
    batch = next(iter(NeighborLoader(dataset, [1], torch.tensor([1]))))
    assert batch.y.tolist() == [0, 1]
    assert batch.x.tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize(
    ("message", "call"),
    [
        (r"edge_dir='up' is neither 'in' nor 'out'", lambda _: Dataset(edge_dir="up")),
        (r"the Dataset has no graph yet; call init_graph first", lambda _: Dataset().halohop_graph),
        (r"layouts 'LIL' and 'CSR': give 'COO'", lambda dataset: dataset.init_graph(torch.zeros(2, 1), layout="LIL")),
        (r"graph_mode='GPU' is none of 'CPU'", lambda dataset: dataset.init_graph(torch.zeros(2, 1), graph_mode="GPU")),
        (r"edge_ids have shape \(2,\), but there are 1 edges", lambda dataset: dataset.init_graph(torch.zeros(2, 1), [1, 2])),
        (r"there are 6 nodes, but 5 features of nodes", lambda dataset: dataset.init_node_features(torch.zeros(5, 1))),
        (r"there are 6 nodes, but 3 labels of nodes", lambda dataset: dataset.init_node_labels(torch.zeros(3))),
        (r"there are 6 edges, but 7 features of edges", lambda dataset: dataset.init_edge_features(torch.zeros(7, 1))),
        (r"id2index names row 6, but the rows are 0 to 5", lambda _: Feature(torch.zeros(6, 1), [0, 6])),
        (r"an id has no row, of 6 rows: index 6 is out of", lambda _: Feature(torch.zeros(6, 1))[torch.tensor([6])]),
        (r"edge_index has 3 rows; give \[2, num_edges\]", lambda _: Topology(torch.zeros(3, 2))),
        (
            r"pointers of CSR must begin with 0",
            lambda _: Topology((torch.tensor([0, 2, 1]), torch.tensor([0])), input_layout="CSR"),
        ),
        (r"pointers of CSC must begin with 0", lambda _: Topology((torch.tensor([0]), torch.tensor([1, 1])), input_layout="CSC")),
        (r"pointers of CSR must begin with 0", lambda _: Topology(torch.zeros(2, 0), input_layout="CSR")),
        (r"num_val=0.8 and num_test=3 of 10; give numbers or shares", lambda _: random_split(10, 0.8, 3)),
        (r"num_val=-1 and num_test=0 of 10", lambda _: random_split(10, -1, 0)),
        (r"GLT is not offered: write the graph as files", lambda dataset: dataset.load_vineyard("id", "socket", [])),
        (r"GLT is not offered: a Dataset goes to other processes as it is", lambda dataset: dataset.share_ipc()),
        (r"GLT is not offered: a Dataset goes to other processes as it is", lambda _: Graph.from_ipc_handle(None)),
        (r"GLT is not offered: it is a pointer to a C\+\+ object", lambda dataset: dataset.graph.graph_handler),
    ],
)
def test_what_cannot_work_is_refused(message: str, call: Any) -> None:
    dataset = ring()
    with pytest.raises(InputError, match=message):
        assert call(dataset) or dataset.halohop_graph


@pytest.mark.parametrize("wrong", [2, -1])
def test_features_of_edges_that_are_too_few_for_their_ids(wrong: int) -> None:
    dataset = Dataset()
    dataset.init_graph(torch.tensor([[0, 1], [1, 0]]), [0, wrong], graph_mode="CPU")
    dataset.init_edge_features(torch.zeros(2, 1))
    with pytest.raises(InputError, match=f"edge_ids has {wrong}, but there are 2 features of edges"):
        assert dataset.halohop_graph


@pytest.mark.parametrize("given", ["node features", "labels", "edge features", "a relation"])
def test_rows_of_a_type_that_the_graph_does_not_have(given: str) -> None:
    dataset = several_types("in")[0] if given == "a relation" else ring()
    rows = {("user", "likes", "item") if "edge" in given or given == "a relation" else "user": torch.zeros(6, 1)}
    {"node features": dataset.init_node_features, "labels": dataset.init_node_labels}.get(given, dataset.init_edge_features)(rows)
    with pytest.raises(InputError, match=r"there are rows of .*, but the graph has (one type|\[\('user')"):
        assert dataset.halohop_graph


@pytest.mark.parametrize("name", ["split_ratio", "device_group_list", "sort_func", "directed"])
def test_what_changes_nothing_says_so_once(name: str) -> None:
    values: dict[str, Any] = {"split_ratio": 0.2, "device_group_list": [], "sort_func": sort_by_in_degree}
    dataset = ring()

    def give() -> None:
        if name == "directed":
            dataset.init_graph(torch.tensor([[0], [1]]), graph_mode="CPU", directed=True)
        else:
            dataset.init_node_features(torch.zeros(6, 1), **{name: values[name]})

    with pytest.warns(UserWarning, match=f"{name} changes nothing here"):
        give()
    give()  # where a warning would be an error
