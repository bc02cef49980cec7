"""Small graphs twice: as a Dataset of the face, and as PyG's object that halohop's loaders read."""

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

import halohop
from halohop.glt.batches import EDGE_IDS, WEIGHT
from halohop.glt.data import Dataset
from halohop.glt.loader import NeighborLoader

BUYS, BOUGHT, KNOWS = ("user", "buys", "item"), ("item", "rev_buys", "user"), ("user", "knows", "user")
USERS, ITEMS, EDGES = 40, 30, 150


def numbers(high: int, *shape: int) -> Tensor:
    """The same at every call."""
    return torch.randint(high, shape, generator=torch.Generator().manual_seed(high + len(shape)))


def below(data: Data | HeteroData, edge_dir: str) -> halohop.Graph:
    return halohop.graph(data, edge_dir="out" if edge_dir == "out" else "in")


def one_type(edge_dir: str, *, num_nodes: int = 45) -> tuple[Dataset, halohop.Graph]:
    """Of 40 nodes with edges and others without any; ids, weights and features of edges."""
    edges, ids, weights = numbers(40, 2, EDGES), torch.arange(EDGES).flip(0), numbers(9, EDGES) + 1.0
    x, y, edge_attr = torch.rand(num_nodes, 3), torch.arange(num_nodes) % 7, torch.rand(EDGES, 2)
    dataset = Dataset(edge_dir=edge_dir)
    dataset.init_graph(edges, ids, weights, graph_mode="CPU")
    dataset.init_node_features(x)
    dataset.init_node_labels(y)
    dataset.init_edge_features(edge_attr)
    data = Data(x=x, y=y, edge_index=edges, edge_attr=edge_attr[ids])
    data[EDGE_IDS], data[WEIGHT] = ids, weights
    return dataset, below(data, edge_dir)


def several_types(edge_dir: str) -> tuple[Dataset, halohop.Graph]:
    """Users and items; both have labels, only users features; each relation has weights, one has ids and features of edges."""
    buys, knows = torch.stack([numbers(USERS, EDGES), numbers(ITEMS, EDGES)]), numbers(USERS, 2, EDGES)
    edges = {BUYS: buys, BOUGHT: buys.flip(0), KNOWS: knows}
    ids, weights, edge_attr = torch.arange(EDGES) + 10, numbers(9, EDGES) + 1.0, torch.rand(EDGES + 10, 2)
    x, y = torch.rand(USERS, 3).half(), {"user": torch.arange(USERS), "item": torch.arange(ITEMS)}
    dataset = Dataset(edge_dir=edge_dir)
    dataset.init_graph(edges, {BUYS: ids}, dict.fromkeys(edges, weights), graph_mode="CPU")
    dataset.init_node_features({"user": x})
    dataset.init_node_labels(y)
    dataset.init_edge_features({BUYS: edge_attr})
    data = HeteroData({"user": {"x": x, "y": y["user"]}, "item": {"y": y["item"], "num_nodes": ITEMS}})
    for etype, edge_index in edges.items():
        data[etype].edge_index, data[etype][WEIGHT] = edge_index, weights
    data[BUYS].edge_attr, data[BUYS][EDGE_IDS] = edge_attr[ids], ids
    return dataset, below(data, edge_dir)


def same(mine: Any, theirs: Any) -> bool:
    """Whether two attributes are alike, bit for bit."""
    if isinstance(theirs, Tensor):
        return isinstance(mine, Tensor) and mine.dtype == theirs.dtype and torch.equal(mine, theirs)
    return bool(mine == theirs)


def nodes_of(loader: NeighborLoader) -> list[list[int]]:
    return [batch.node.tolist() for batch in loader]


def drawn_there(loader: NeighborLoader, dataset: Dataset) -> tuple[list[list[int]], list[list[int]]]:
    """What a loader that was sent here draws, and one that is made here of a Dataset that was sent."""
    return nodes_of(loader), nodes_of(NeighborLoader(dataset, [2, 2], torch.arange(12), batch_size=4, seed=1))
