"""Batches of the face are those of halohop's loaders under GLT's names."""

import torch
from torch_geometric.data import Data

import halohop
from halohop.glt.batches import EDGE_IDS, WEIGHT
from halohop.glt.data import Dataset
from halohop.glt.loader import NeighborLoader


def test_batches_of_one_type_are_those_of_halohop_under_other_names(edge_dir: str) -> None:
    edges, ids, weights = torch.randint(40, (2, 160)), torch.randperm(160) + 7, torch.rand(160)
    x, y = torch.rand(45, 3), torch.arange(45)
    data = Data(x=x, y=y, edge_index=edges, num_nodes=45)
    data[EDGE_IDS], data[WEIGHT] = ids, weights
    graph = halohop.graph(data, edge_dir=edge_dir)  # type: ignore[arg-type]
    below = halohop.NeighborLoader(graph, [3, 2], torch.arange(20), batch_size=8, seed=5, weight_attr=WEIGHT, shuffle=True)

    dataset = Dataset(edge_dir=edge_dir)
    dataset.init_graph(edges, ids, weights, graph_mode="CPU")
    dataset.init_node_features(x)
    dataset.init_node_labels(y)
    loader = NeighborLoader(
        dataset, [3, 2], torch.arange(20), batch_size=8, seed=5, shuffle=True, with_edge=True, with_weight=True
    )
    for mine, theirs in zip(list(loader), list(below), strict=True):
        assert torch.equal(mine.node, theirs.n_id)
        assert torch.equal(mine.edge, theirs.e_id)
        assert torch.equal(mine.edge_index, theirs.edge_index.flip(0) if edge_dir == "out" else theirs.edge_index)
        assert torch.equal(mine.x, theirs.x)
        assert torch.equal(mine.y, theirs.y)
        assert torch.equal(mine.batch, theirs.n_id[: theirs.batch_size])
        assert mine.batch_size == theirs.batch_size
        assert mine.num_sampled_nodes.tolist() == theirs.num_sampled_nodes
        assert mine.num_sampled_edges.tolist() == theirs.num_sampled_edges
        assert not {"n_id", "e_id", "input_id", WEIGHT} & set(mine.keys())
