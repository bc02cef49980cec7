import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.data.storage import NodeStorage

from halohop.errors import InputError
from halohop.pyg.convert import tables_from_pyg
from halohop.typing import EDGE, NODE


def test_node_and_edge_attributes_become_columns_that_share_memory():
    data = Data(
        x=torch.randn(4, 3),
        y=torch.arange(4),
        weights=np.ones(4, dtype=np.float32),
        edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]),
        edge_attr=torch.randn(3, 2),
        name="a graph-level attribute",
    )
    tables = tables_from_pyg(data)
    assert set(tables.nodes[NODE].columns) == {"x", "y", "weights"}
    assert set(tables.edges[EDGE].columns) == {"edge_attr"}
    assert tables.nodes[NODE].columns["x"].data_ptr() == data.x.data_ptr()
    assert tables.edges[EDGE].src.tolist() == [0, 1, 2]


def test_heterogeneous_tables():
    data = HeteroData()
    data["a"].x = torch.randn(3, 2)
    data["b"].num_nodes = 2
    data["a", "to", "b"].edge_index = torch.tensor([[0, 2], [1, 1]])
    data["a", "to", "b"].time = torch.tensor([5, 6])
    tables = tables_from_pyg(data)
    assert tables.nodes["b"].num_nodes == 2
    assert tables.edges["a", "to", "b"].columns["time"].tolist() == [5, 6]


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (Data(edge_index=torch.empty(2, 0, dtype=torch.int64), num_nodes=2, words=["a", "b"]), "'words' of type list"),
        (Data(x=torch.eye(2).to_mkldnn(), edge_index=torch.tensor([[0], [1]])), "'x'"),
        (Data(x=torch.eye(2), edge_attr=torch.eye(1).to_sparse(), edge_index=torch.tensor([[0], [1]])), "'edge_attr' of edges"),
        (Data(x=torch.eye(2), edge_index=torch.tensor([0, 1])), r"shape \(2,\)"),
        (Data(x=torch.eye(2), edge_index=torch.tensor([[0], [2]])), "holds 2"),
        (Data(x=torch.eye(2), edge_index=torch.tensor([[0.0], [1.0]])), "int64"),
        (Data(x=torch.eye(2), adj_t=torch.eye(2).to_sparse()), "adj_t"),
        ("not a graph", "got str"),
        (HeteroData(), "no node type"),
        (Data(x=torch.eye(2), num_nodes=3, edge_index=torch.tensor([[0], [1]])), "'x' has 2 rows, but there are 3 nodes"),
        (Data(x=torch.eye(2), edge_index=torch.tensor([[0], [1]]), edge_attr=torch.ones(3)), "'edge_attr' has 3 rows"),
    ],
)
def test_what_cannot_be_divided_into_rows_is_refused(data, complaint):
    with pytest.raises(InputError, match=complaint):
        tables_from_pyg(data)


def test_an_adjacency_matrix_is_found_before_nodes_are_counted(monkeypatch):
    """PyG 2.6 and 2.7 raise a TypeError of their own where they count nodes by it."""

    def fails(store):
        raise TypeError("isinstance() arg 2 must be a type")

    monkeypatch.setattr(NodeStorage, "num_nodes", property(fails))
    with pytest.raises(InputError, match="adj_t"):
        tables_from_pyg(Data(adj_t=torch.eye(2).to_sparse()))
