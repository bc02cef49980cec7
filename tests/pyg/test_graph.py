"""One graph of a PyG object, which several loaders share."""

import pickle

import networkx
import pytest
import torch
from torch_geometric.data import Data, InMemoryDataset

import halohop
from halohop import LinkNeighborLoader, NeighborLoader
from halohop.errors import InputError, SchemaError
from halohop.pyg import structure
from halohop.typing import EDGE


def ring(num_nodes: int = 6) -> Data:
    node = torch.arange(num_nodes)
    edge_index = torch.stack([node, (node + 1) % num_nodes])[:, torch.randperm(num_nodes)]
    data = Data(x=torch.rand(num_nodes, 2), edge_index=edge_index, edge_attr=torch.rand(num_nodes, 1))
    data.edge_weight, data.time = torch.rand(num_nodes), torch.arange(num_nodes)
    data.train_mask = node < 2
    return data


def test_edges_are_converted_once_for_all_loaders(monkeypatch):
    data, calls = ring(), []
    build = structure._lists
    monkeypatch.setattr(structure, "_lists", lambda *args: calls.append(1) or build(*args))
    shared = halohop.graph(data)
    loaders = [
        NeighborLoader(shared, [1], "train"),
        NeighborLoader(shared, [-1], weight_attr="edge_weight"),
        LinkNeighborLoader(shared, [1], time_attr="time", edge_label_index=data.edge_index, edge_label_time=torch.arange(6)),
    ]
    assert len(calls) == 1
    assert all(len(list(loader)) for loader in loaders)


def test_batches_have_what_the_object_holds_when_they_are_made():
    data = ring()
    loaders = [NeighborLoader(halohop.graph(data), [1], batch_size=6) for _ in range(2)]
    data.x = data.x + 1
    data.label = torch.arange(6)
    for loader in loaders:
        batch = next(iter(loader))
        assert torch.equal(batch.x, data.x[batch.n_id])
        assert torch.equal(batch.label, batch.n_id)
        assert torch.equal(batch.edge_attr, data.edge_attr[batch.e_id])


def test_rows_are_read_from_the_object():
    data = ring()
    data.sparse = torch.eye(6).to_sparse()
    graph = halohop.graph(data)
    data.x = data.x + 1
    wanted = torch.tensor([4, 0, 4])
    assert torch.equal(graph.rows("x", wanted), data.x[wanted])
    assert torch.equal(graph.rows("sparse", wanted), torch.eye(6)[wanted])
    seen = halohop.DistTensor(graph, (None,), torch.int64, "seen", node_type="node")
    seen[torch.tensor([1])] = 7
    assert seen[torch.tensor([1, 2])].tolist() == [7, 0]
    seen.drop()
    with pytest.raises(SchemaError, match="unknown column of 'node' 'y'"):
        graph.rows("y", wanted)


def test_edge_rows_are_those_of_the_edges():
    data = ring()
    graph = halohop.graph(data)
    found = graph.edges(EDGE)
    assert torch.equal(torch.stack([found.src_gid, found.dst_gid]), data.edge_index)


def test_graphs_pickle_by_their_object():
    data = ring()
    other = pickle.loads(pickle.dumps(halohop.graph(data)))
    ours, theirs = (next(iter(NeighborLoader(graph, [-1, -1], batch_size=3))) for graph in (halohop.graph(data), other))
    assert torch.equal(ours.n_id, theirs.n_id)
    assert torch.equal(ours.x, theirs.x)


@pytest.mark.parametrize("option", ["weight_attr", "time_attr"])
def test_what_is_not_one_number_per_row_is_refused(option):
    data = ring()
    graph = halohop.graph(data)
    with pytest.raises(InputError, match="'edge_attr' is not one number per row"):
        NeighborLoader(graph, [1], **{option: "edge_attr"}, input_time=torch.arange(6) if option == "time_attr" else None)
    data.later = torch.rand(6)
    with pytest.raises(InputError, match=r"'later' .*call halohop.graph again"):
        NeighborLoader(graph, [1], weight_attr="later")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (Data(x=torch.eye(2), edge_index=torch.zeros(3, 2, dtype=torch.int64)), "expected .2, num_edges"),
        ({"x": 1}, "expected a PyG Data or HeteroData, got dict$"),
        ([Data()], r"expected a PyG Data or HeteroData, got list; pass one of its graphs: dataset\[0\]"),
        (InMemoryDataset(), r"got InMemoryDataset; pass one of its graphs: dataset\[0\]"),
        ("parts", r"got str; read a source with halohop\.load_source\(path\), and open partitions with halohop\.open\(path\)"),
        (networkx.path_graph(3), r"got Graph; convert it: torch_geometric\.utils\.from_networkx\(graph\)"),
    ],
)
def test_what_is_no_graph_is_refused(data, message):
    with pytest.raises(InputError, match=message):
        halohop.graph(data)


def test_ids_of_edges_are_columns_of_edges_where_there_are_as_many_nodes():
    ring = Data(
        edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]), num_nodes=3, e_id=torch.tensor([7, 8, 9]), n_id=torch.tensor([4, 5, 6])
    )
    batch = next(iter(NeighborLoader(halohop.graph(ring), [1], torch.tensor([2]))))
    assert batch.e_id.tolist() == [8]
    assert batch.n_id.tolist() == [6, 5]
