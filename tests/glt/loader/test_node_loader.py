"""GLT's NodeLoader and LinkLoader: batches of samplers that users write, and what is made of their output."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch_geometric.data import HeteroData
from torch_geometric.nn import HeteroConv, SAGEConv
from torch_geometric.utils import trim_to_layer

from halohop.glt.loader import LinkLoader, NeighborLoader, NodeLoader, to_data, to_hetero_data
from tests.support.glt_data import BUYS, numbers, one_type, several_types

SOLD = ("item", "rev_buys", "user")


class Star:
    """Draws an edge from node 0 to every seed."""

    def sample_from_nodes(self, inputs: Any) -> Any:
        node = torch.cat([inputs.node, torch.tensor([0])])
        row, col = torch.full((len(inputs.node),), len(inputs.node)), torch.arange(len(inputs.node))
        hops = {"num_sampled_nodes": [len(inputs.node), 1], "num_sampled_edges": [len(row)]}
        edge, metadata = torch.arange(len(row)), {"kind": inputs.input_type}
        return SimpleNamespace(node=node, row=row, col=col, edge=edge, batch=inputs.node, metadata=metadata, **hops)

    def sample_from_edges(self, inputs: Any) -> Any:
        out = self.sample_from_nodes(SimpleNamespace(node=torch.cat([inputs.row, inputs.col]), input_type=None))
        size = len(inputs.row)
        index = torch.stack([torch.arange(size), torch.arange(size) + size])
        out.metadata = {"edge_label_index": index, "edge_label": inputs.label, "given": inputs.neg_sampling}
        return out


def test_batches_of_nodes_have_their_rows(edge_dir: str) -> None:
    dataset = one_type(edge_dir)[0]
    loader = NodeLoader(dataset, Star(), torch.arange(10, 25), batch_size=4)
    assert len(loader) == 4
    batches = list(loader)
    assert torch.cat([batch.batch for batch in batches]).tolist() == list(range(10, 25))
    for batch in batches:
        assert torch.equal(batch.x, dataset.node_features[batch.node])  # type: ignore[index]
        assert torch.equal(batch.y, dataset.node_labels[batch.node])
        assert torch.equal(batch.edge_attr, dataset.edge_features[batch.edge])  # type: ignore[index]
        assert batch.edge_index[0].unique().tolist() == [len(batch.batch)]
        assert (batch.batch_size, batch.num_sampled_nodes) == (len(batch.batch), [len(batch.batch), 1])


def test_batches_of_links(edge_dir: str) -> None:
    dataset, links, labels = one_type(edge_dir)[0], numbers(40, 2, 6), torch.arange(6)
    batch = next(iter(LinkLoader(dataset, Star(), links, labels, "binary", edge_dir=edge_dir, batch_size=6)))
    index = batch.edge_label_index.flip(0) if edge_dir == "out" else batch.edge_label_index
    assert torch.equal(batch.node[index], links)
    assert batch.edge_label.tolist() == [1, 2, 3, 4, 5, 6]  # 0 is a negative
    assert batch.given.is_binary()
    assert next(iter(LinkLoader(dataset, Star(), links, labels, batch_size=6))).edge_label.tolist() == labels.tolist()


@pytest.mark.parametrize("name", [None, "paper"])
def test_masks_of_nodes(name: str | None) -> None:
    dataset, mask = one_type("out")[0], torch.zeros(40, dtype=torch.bool)
    mask[[3, 7, 30]] = True
    for given in (mask, mask.numpy()):
        batches = NodeLoader(dataset, Star(), given if name is None else (name, given), batch_size=2)
        assert [batch.batch.tolist() for batch in batches] == [[3, 7], [30]]


def test_links_and_labels_as_arrays() -> None:
    dataset, links, labels = one_type("out")[0], numbers(40, 2, 6), torch.arange(6)
    for given in (links.numpy(), tuple(links.numpy()), links.tolist(), (None, links)):
        batch = next(iter(LinkLoader(dataset, Star(), given, labels.numpy(), "binary", batch_size=6)))
        assert torch.equal(batch.node[batch.edge_label_index.flip(0)], links)
        assert batch.edge_label.tolist() == [1, 2, 3, 4, 5, 6]


def hetero_output(edge_dir: str) -> Any:
    etype = SOLD if edge_dir == "out" else BUYS
    nodes = {"user": torch.tensor([3, 1]), "item": torch.tensor([2])}
    edges = {etype: torch.tensor([[0], [1]]) if edge_dir == "out" else torch.tensor([[1], [0]])}
    metadata = {"edge_label_index": torch.tensor([[0, 1], [0, 0]]), "edge_label": torch.ones(2), "note": "kept"}
    return SimpleNamespace(
        get_edge_index=lambda: edges,
        node=nodes,
        edge={etype: torch.tensor([12])},
        batch={"user": torch.tensor([3])},
        num_sampled_nodes={"user": [1, 1], "item": [0, 1]},
        num_sampled_edges={etype: [1]},
        input_type=BUYS,
        metadata=metadata,
    )


def test_outputs_of_several_types_become_batches(edge_dir: str) -> None:
    """By `NodeLoader`, whose sampler they come from, with the features of edges by the user's names."""
    dataset, out = several_types(edge_dir)[0], hetero_output(edge_dir)
    sampler = SimpleNamespace(sample_from_nodes=lambda inputs: out)
    etype = SOLD if edge_dir == "out" else BUYS
    batch = next(iter(NodeLoader(dataset, sampler, ("user", torch.tensor([3])))))
    assert isinstance(batch, HeteroData)
    assert torch.equal(batch["user"].x, dataset.node_features["user"][batch["user"].node])  # type: ignore[index]
    assert batch["user"].y.tolist() == [3, 1]
    assert "y" not in batch["item"]
    assert torch.equal(batch[etype].edge_attr, dataset.edge_features[BUYS][torch.tensor([12])])  # type: ignore[index]
    assert batch[etype].edge.tolist() == [12]
    assert batch[etype].edge_label_index.tolist() == ([[0, 0], [0, 1]] if edge_dir == "out" else [[0, 1], [0, 0]])
    assert (batch["user"].batch.tolist(), batch["user"].batch_size, batch.note) == ([3], 1, "kept")
    assert batch.num_sampled_edges[etype].tolist() == [1]


def test_triplets_belong_to_the_types_of_their_ends() -> None:
    out = hetero_output("out")
    out.metadata = {name: torch.tensor([0]) for name in ("src_index", "dst_pos_index", "dst_neg_index")}
    batch = to_hetero_data(out, name="more")
    assert batch["user"].src_index.tolist() == batch["item"].dst_pos_index.tolist() == batch["item"].dst_neg_index.tolist() == [0]
    assert batch.name == "more"
    assert "x" not in batch["user"]


def test_outputs_without_seeds_or_with_metadata_of_their_own() -> None:
    out = Star().sample_from_nodes(SimpleNamespace(node=torch.tensor([1]), input_type=None))
    out.batch, out.edge, out.metadata = None, None, [1, 2]
    batch = to_data(out, name="more")
    assert (batch.batch_size, batch.metadata, batch.name) == (0, [1, 2], "more")
    assert "edge" not in batch


def test_layers_of_several_types_are_trimmed(edge_dir: str) -> None:
    """What is left out is what the seeds do not read."""
    dataset = several_types(edge_dir)[0]
    dataset.init_node_features({"user": torch.rand(40, 3), "item": torch.rand(30, 3)})
    batch = next(iter(NeighborLoader(dataset, [-1, -1], ("user", torch.arange(6)), batch_size=6)))
    torch.manual_seed(0)
    layers = [HeteroConv({etype: SAGEConv((3, 3), 3) for etype in batch.edge_types}) for _ in range(2)]
    whole, trimmed = (batch.x_dict, batch.edge_index_dict), (batch.x_dict, batch.edge_index_dict)
    with torch.no_grad():
        for depth, layer in enumerate(layers):
            hops = batch.num_sampled_nodes, batch.num_sampled_edges
            x, edges, _ = trim_to_layer(depth, *hops, *trimmed)
            trimmed, whole = (layer(x, edges), edges), (layer(*whole), whole[1])
    assert len(trimmed[0]["user"]) < len(whole[0]["user"])
    torch.testing.assert_close(trimmed[0]["user"][:6], whole[0]["user"][:6])
