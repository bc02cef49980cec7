"""GLT's LinkNeighborLoader: which edges it takes, and which negatives it draws."""

from typing import Any

import pytest
import torch

from halohop.errors import IdError, InputError, SchemaError
from halohop.glt.data import Dataset
from halohop.glt.loader import LinkNeighborLoader, get_edge_label_index
from halohop.glt.sampler import NegativeSampling
from tests.support.glt_data import BOUGHT, BUYS, EDGES, KNOWS, numbers, one_type, several_types


def far_apart() -> Dataset:
    """Two nodes with an edge, far behind many without any."""
    dataset = Dataset()
    dataset.init_graph(torch.tensor([[100, 200], [200, 100]]), graph_mode="CPU")
    dataset.init_node_features(torch.zeros(300, 1))
    return dataset


def pairs(batch: Any, edge_dir: str) -> list[list[int]]:
    """Ids of sources and destinations, in the user's direction."""
    index = batch.edge_label_index.flip(0) if edge_dir == "out" else batch.edge_label_index
    found: list[list[int]] = batch.node[index].T.tolist()
    return found


def test_ends_of_edges_are_where_the_edges_lead(edge_dir: str) -> None:
    dataset, links = one_type(edge_dir)[0], numbers(40, 2, 6)
    batch = next(iter(LinkNeighborLoader(dataset, [2], edge_label_index=links, batch_size=6)))
    assert pairs(batch, edge_dir) == links.T.tolist()
    assert {*batch.batch.tolist()} == {*links.flatten().tolist()}
    assert "edge_label" not in batch


@pytest.mark.parametrize("mode", ["binary", "triplet"])
def test_negatives_are_of_all_nodes(mode: str) -> None:
    links = torch.tensor([[100], [200]]).expand(2, 400)
    batch = next(iter(LinkNeighborLoader(far_apart(), [1], edge_label_index=links, batch_size=400, neg_sampling=mode, seed=0)))
    if mode == "binary":
        sources, found = batch.node[batch.edge_label_index[1][400:]], batch.node[batch.edge_label_index[0][400:]]
        assert len(sources.unique()) > 150
        assert batch.edge_label.tolist() == [1.0] * 400 + [0.0] * 400
    else:
        found = batch.node[batch.dst_neg_index]
        assert batch.node[batch.src_index].tolist() == [100] * 400
        assert batch.node[batch.dst_pos_index].tolist() == [200] * 400
    assert len(found.unique()) > 150
    assert (found < 100).sum() > 80  # ids below those of the edges' ends
    assert (found > 200).sum() > 80


def test_binary_negatives_are_no_edges(edge_dir: str) -> None:
    """All pairs but one from each node are edges."""
    dataset = Dataset(edge_dir=edge_dir)
    missing = {(node, (node + 1) % 6) for node in range(6)}
    edges = torch.tensor([(a, b) for a in range(6) for b in range(6) if (a, b) not in missing]).T
    dataset.init_graph(edges, graph_mode="CPU")
    loader = LinkNeighborLoader(dataset, [1], edge_label_index=edges, batch_size=30, neg_sampling="binary", seed=0)
    found = {tuple(pair) for pair in pairs(next(iter(loader)), edge_dir)[30:]}
    assert found <= missing
    assert len(found) == 6


@pytest.mark.parametrize("mode", ["binary", "triplet"])
def test_weights_of_negatives_are_heeded(mode: str) -> None:
    weight = torch.zeros(300)
    weight[[7, 250]] = 1.0
    links = torch.tensor([[100], [200]]).expand(2, 60)
    how: dict[str, Any] = {"neg_sampling": NegativeSampling(mode, 2, weight), "batch_size": 60, "seed": 0}
    batch = next(iter(LinkNeighborLoader(far_apart(), [1], edge_label_index=links, **how)))
    found = batch.edge_label_index[:, 60:] if mode == "binary" else batch.dst_neg_index
    assert found.numel() == (240 if mode == "binary" else 120)
    assert {*batch.node[found].flatten().tolist()} == {7, 250}


def test_weights_are_of_the_destinations_where_types_differ() -> None:
    weight = torch.zeros(30)
    weight[4] = 1.0
    links = (BUYS, torch.stack([numbers(40, 20), numbers(30, 20)]))
    loader = LinkNeighborLoader(
        several_types("in")[0], [1], edge_label_index=links, neg_sampling=NegativeSampling("binary", 1, weight), batch_size=20
    )
    batch = next(iter(loader))
    sources, destinations = batch[BUYS].edge_label_index[:, 20:]
    assert {*batch["item"].node[destinations].tolist()} == {4}
    assert len(sources.unique()) > 5


def test_labels() -> None:
    dataset, links, labels = one_type("in")[0], numbers(40, 2, 4), torch.tensor([0, 2, 1, 0])
    plain = next(iter(LinkNeighborLoader(dataset, [1], edge_label_index=links, edge_label=labels, batch_size=4)))
    assert torch.equal(plain.edge_label, labels)
    beside = LinkNeighborLoader(dataset, [1], edge_label_index=links, edge_label=labels, neg_sampling="binary", batch_size=4)
    assert next(iter(beside)).edge_label.tolist() == [1, 3, 2, 1, 0, 0, 0, 0]
    with pytest.raises(InputError, match="edge_label has no place beside triplets"):
        LinkNeighborLoader(dataset, [1], edge_label_index=links, edge_label=labels, neg_sampling="triplet")


def test_edges_are_named_in_every_way(edge_dir: str) -> None:
    dataset = several_types(edge_dir)[0]
    row, col = dataset.get_graph(KNOWS).topo.edge_index  # type: ignore[union-attr]
    for given in (KNOWS, (KNOWS, None), (KNOWS, torch.stack([row, col])), (KNOWS, (row, col))):
        etype, index = get_edge_label_index(dataset, given)
        assert etype == KNOWS
        assert torch.equal(index, torch.stack([row, col]))
        loader = LinkNeighborLoader(dataset, [1], edge_label_index=given, batch_size=EDGES)
        assert sorted(pairs_of_users(next(iter(loader)), edge_dir)) == sorted(index.T.tolist())
    alone = one_type(edge_dir)[0]
    assert get_edge_label_index(alone, None)[0] is None
    assert len(LinkNeighborLoader(alone, [1])) == EDGES
    assert len(LinkNeighborLoader(alone, [1], edge_label_index=([0, 1], [2, 3]))) == 2


def pairs_of_users(batch: Any, edge_dir: str) -> list[list[int]]:
    index = batch[KNOWS].edge_label_index
    found: list[list[int]] = batch["user"].node[index.flip(0) if edge_dir == "out" else index].T.tolist()
    return found


@pytest.mark.parametrize(
    ("error", "message", "how"),
    [
        (IdError, "30", {"edge_label_index": (BUYS, torch.tensor([[0], [30]]))}),
        (SchemaError, "must name a relation", {"edge_label_index": torch.tensor([[0], [1]])}),
        (SchemaError, "sells", {"edge_label_index": ("user", "sells", "shop")}),
        (InputError, "expected \\[2, n\\]", {"edge_label_index": (BUYS, torch.zeros(3, 2))}),
        (InputError, "edge_label has 3 entries for 2 edges", {"edge_label": torch.zeros(3)}),
        (InputError, "NegativeSampling\\('binary', 0\\)", {"neg_sampling": {"mode": "binary", "amount": 0}}),
        (InputError, "weights of negatives have shape", {"neg_sampling": NegativeSampling("triplet", 1, torch.ones(3))}),
        (InputError, "NegativeSampling\\('often', 1\\)", {"neg_sampling": "often"}),
        (InputError, "no fanouts for", {"num_neighbors": {BOUGHT: [1]}}),
    ],
)
def test_what_cannot_work_is_refused(error: type[Exception], message: str, how: dict[str, Any]) -> None:
    links = (BUYS, torch.tensor([[0, 1], [0, 1]]))
    with pytest.raises(error, match=message):
        LinkNeighborLoader(several_types("out")[0], **{"num_neighbors": [1], "edge_label_index": links, **how})


def test_a_relation_that_is_not_there_has_no_edges() -> None:
    with pytest.raises(InputError, match="names no relation of the Dataset"):
        get_edge_label_index(several_types("out")[0], ("user", "sells", "shop"))
