"""A sampler of the face draws what its loaders draw, and says what is probable."""

import pickle
from typing import Any

import pytest
import torch

import halohop.glt as glt
from halohop.errors import IdError, InputError, SchemaError
from halohop.glt.sampler import (
    EdgeSamplerInput,
    HeteroSamplerOutput,
    NegativeSampling,
    NeighborSampler,
    NodeSamplerInput,
    SamplerOutput,
)

BUYS, REV_BUYS, KNOWS = ("user", "buys", "item"), ("item", "rev_buys", "user"), ("user", "knows", "user")


def one_type(edge_dir: str, num_nodes: int = 60, num_edges: int = 500) -> glt.data.Dataset:
    """Edges with ids of their own, weights, and an isolated node, the last one."""
    generator = torch.Generator().manual_seed(1)
    dataset = glt.data.Dataset(edge_dir=edge_dir)
    edges = torch.randint(num_nodes - 1, (2, num_edges), generator=generator)
    ids, weights = 7 * torch.arange(num_edges), torch.rand(num_edges, generator=generator)
    dataset.init_graph(edges, edge_ids=ids, edge_weights=weights, graph_mode="CPU")
    dataset.init_node_features(torch.randn(num_nodes, 3, generator=generator))
    return dataset


def two_types(edge_dir: str) -> glt.data.Dataset:
    generator = torch.Generator().manual_seed(2)
    dataset = glt.data.Dataset(edge_dir=edge_dir)
    buys = torch.stack([torch.randint(30, (200,), generator=generator), torch.randint(20, (200,), generator=generator)])
    knows = torch.randint(30, (2, 150), generator=generator)
    graph_of = {BUYS: buys, REV_BUYS: buys.flip(0), KNOWS: knows}
    dataset.init_graph(graph_of, edge_ids={BUYS: torch.arange(200) + 1000}, graph_mode="CPU")
    return dataset


@pytest.mark.parametrize("options", [{}, {"with_weight": True}, {"with_edge": True}], ids=str)
def test_nodes_are_sampled_as_the_loader_does(edge_dir: str, options: dict[str, Any]) -> None:
    dataset = one_type(edge_dir)
    sampler = NeighborSampler(dataset.graph, [4, 3], edge_dir=edge_dir, seed=3, **options)
    for batch in glt.loader.NeighborLoader(dataset, [4, 3], torch.arange(50), batch_size=16, seed=3, **options):
        out = sampler.sample_from_nodes(NodeSamplerInput(batch.batch))
        assert isinstance(out, SamplerOutput)
        assert out.node.equal(batch.node)
        assert torch.stack([out.row, out.col]).equal(batch.edge_index)
        assert out.batch.equal(batch.batch)
        assert out.num_sampled_nodes == list(batch.num_sampled_nodes)
        assert out.num_sampled_edges == list(batch.num_sampled_edges)
        assert out.edge.equal(batch.edge) if "with_edge" in options else out.edge is None
    again = sampler.sample_from_nodes(batch.batch)  # a later call draws anew
    assert not again.node.equal(out.node)


def test_types_are_sampled_as_the_loader_does(edge_dir: str) -> None:
    dataset = two_types(edge_dir)
    fanouts = {BUYS: [3, 0], REV_BUYS: [2, 2], KNOWS: [0, 4]}
    sampler = NeighborSampler(dataset.graph, fanouts, with_edge=True, edge_dir=edge_dir, seed=8)
    for batch in glt.loader.NeighborLoader(dataset, fanouts, ("user", torch.arange(30)), batch_size=8, with_edge=True, seed=8):
        out = sampler.sample_from_nodes(NodeSamplerInput(batch["user"].batch, "user"))
        assert isinstance(out, HeteroSamplerOutput)
        assert out.input_type == "user"
        for name in ("user", "item"):
            assert out.node[name].equal(batch[name].node)
            assert out.num_sampled_nodes[name].equal(batch.num_sampled_nodes[name])
        assert out.batch is not None
        assert out.batch.keys() == {"user"}
        assert set(out.get_edge_index()) == set(out.edge_types) == set(batch.edge_types)
        for relation, edge_index in out.get_edge_index().items():
            assert edge_index.equal(batch[relation].edge_index)
            assert out.edge[relation].equal(batch[relation].edge)
            assert out.num_sampled_edges[relation].equal(batch.num_sampled_edges[relation])


@pytest.mark.parametrize("negatives", [None, NegativeSampling("binary", 2), NegativeSampling("triplet", 2)], ids=str)
def test_edges_are_sampled_as_the_loader_does(edge_dir: str, negatives: NegativeSampling | None) -> None:
    dataset = two_types(edge_dir)
    sampler = NeighborSampler(dataset.graph, [2, 2], edge_dir=edge_dir, with_neg=True, seed=8)
    ends = torch.stack(dataset.graph[BUYS].topo.edge_index)
    plan = {"edge_label_index": (BUYS, ends), "neg_sampling": negatives, "batch_size": 64, "seed": 8}
    for number, batch in enumerate(glt.loader.LinkNeighborLoader(dataset, [2, 2], **plan)):
        row, col = ends[:, 64 * number : 64 * number + 64]
        out = sampler.sample_from_edges(EdgeSamplerInput(row, col, None, BUYS, negatives))
        assert all(out.node[name].equal(batch[name].node) for name in ("user", "item"))
        users, items = out.node["user"], out.node["item"]
        if negatives is not None and negatives.is_triplet():
            assert out.metadata["dst_neg_index"].equal(batch["item"].dst_neg_index)
            assert users[out.metadata["src_index"]].equal(row)
            assert items[out.metadata["dst_pos_index"]].equal(col)
        else:
            pairs = out.metadata["edge_label_index"]
            assert torch.stack([users[pairs[0, : len(row)]], items[pairs[1, : len(row)]]]).equal(torch.stack([row, col]))
            assert pairs.size(1) == len(row) * (1 if negatives is None else 3)
    if negatives is None:
        assert out.metadata["edge_label"] is None
    elif negatives.is_binary():
        assert out.metadata["edge_label"].tolist() == [1] * len(row) + [0] * 2 * len(row)


def test_one_hop(edge_dir: str) -> None:
    dataset = one_type(edge_dir)
    sampler = NeighborSampler(dataset.graph, with_edge=True, edge_dir=edge_dir)
    row, col, ids, _ = dataset.graph.topo.to_coo()
    own, other = (row, col) if edge_dir == "out" else (col, row)
    seeds = torch.tensor([5, 59, 7, 5])  # 59 is isolated, 5 occurs twice
    found = sampler.sample_one_hop(seeds, -1)
    assert found.nbr_num.tolist() == [int((own == seed).sum()) for seed in seeds]
    for seed, neighbors, edges in zip(
        seeds, found.nbr.split(found.nbr_num.tolist()), found.edge.split(found.nbr_num.tolist()), strict=True
    ):
        assert neighbors.equal(other[own == seed])
        assert edges.equal(ids[own == seed])
    few = sampler.sample_one_hop(torch.arange(59), 3)
    assert few.nbr_num.equal(own.bincount(minlength=59).clamp(max=3))
    for edges in few.edge.split(few.nbr_num.tolist()):
        assert len(edges.unique()) == len(edges)  # without replacement


def test_one_hop_along_a_relation(edge_dir: str) -> None:
    dataset = two_types(edge_dir)
    row, col, ids, _ = dataset.graph[BUYS].topo.to_coo()
    own, other = (row, col) if edge_dir == "out" else (col, row)
    found = NeighborSampler(dataset.graph, with_edge=True, edge_dir=edge_dir).sample_one_hop(torch.tensor([4, 2]), -1, BUYS)
    assert found.nbr.equal(torch.cat([other[own == 4], other[own == 2]]))
    assert found.edge.equal(torch.cat([ids[own == 4], ids[own == 2]]))
    assert found.nbr_num.tolist() == [int((own == 4).sum()), int((own == 2).sum())]


def test_the_first_format_of_pyg(edge_dir: str) -> None:
    dataset = one_type(edge_dir)
    sampler = NeighborSampler(dataset.graph, [3, 2], with_edge=True, edge_dir=edge_dir, seed=3)
    for batch in glt.loader.NeighborLoader(
        dataset, [3, 2], torch.arange(40), batch_size=9, with_edge=True, seed=3, as_pyg_v1=True
    ):
        size, node, adjs = sampler.sample_pyg_v1(batch[1][: batch[0]])
        assert size == batch[0]
        assert node.equal(batch[1])
        for adj, expected in zip(adjs, batch[2], strict=True):
            assert adj.edge_index.equal(expected.edge_index)
            assert adj.e_id.equal(expected.e_id)
            assert adj.size.tolist() == expected.size.tolist()
    with pytest.raises(InputError, match="several node types"):
        NeighborSampler(two_types(edge_dir).graph, [1], edge_dir=edge_dir).sample_pyg_v1(torch.arange(2))


@pytest.mark.parametrize("num_neighbors", [None, [-1]])
def test_induced_subgraphs(edge_dir: str, num_neighbors: list[int] | None) -> None:
    dataset = one_type(edge_dir, num_edges=90)
    out = NeighborSampler(dataset.graph, num_neighbors, with_edge=True, edge_dir=edge_dir).subgraph(torch.tensor([9, 3, 9]))
    assert out.node[out.metadata].tolist() == [9, 3, 9]
    row, col, ids, _ = dataset.graph.topo.to_coo()
    own, other = (row, col) if edge_dir == "out" else (col, row)
    nodes = {3, 9} if num_neighbors is None else {3, 9, *other[(own == 3) | (own == 9)].tolist()}
    assert sorted(out.node.tolist()) == sorted(nodes)
    inside = torch.isin(row, out.node) & torch.isin(col, out.node)
    found = {(int(out.node[c]), int(out.node[r]), int(e)) for r, c, e in zip(out.row, out.col, out.edge, strict=True)}
    assert found == set(zip(own[inside].tolist(), other[inside].tolist(), ids[inside].tolist(), strict=True))


@pytest.mark.parametrize("with_weight", [False, True])
def test_probabilities_are_what_is_counted(edge_dir: str, with_weight: bool) -> None:
    """A node is drawn as often as is said, but for chance, and for lists, which count as independent."""
    dataset = one_type(edge_dir, num_edges=200)
    seeds = torch.tensor([4, 11, 20])
    sampler = NeighborSampler(dataset.graph, [2, 2], edge_dir=edge_dir, with_weight=with_weight, seed=1)
    prob = sampler.sample_prob(NodeSamplerInput(seeds), 70)
    counts = torch.zeros(70)
    for _ in range(300):
        counts[sampler.sample_from_nodes(seeds).node] += 1
    assert prob.dtype == torch.float32
    assert prob[seeds].tolist() == [1, 1, 1]
    assert (prob - counts / 300).abs().max() < 0.1
    assert (prob - counts / 300).abs().mean() < 0.02
    assert prob[60:].tolist() == [0] * 10
    assert ((prob > 0) & (prob < 1)).sum() > 10
    assert sampler.sample_prob(NodeSamplerInput(seeds[:0]), 60).tolist() == [0] * 60


def test_probabilities_of_several_types(edge_dir: str) -> None:
    dataset = two_types(edge_dir)
    sampler = NeighborSampler(dataset.graph, [2, 1], edge_dir=edge_dir, seed=1)
    seeds = NodeSamplerInput(torch.tensor([4, 11]), "user")
    prob = sampler.sample_prob(seeds, {"user": 30, "item": 20})
    counts = {"user": torch.zeros(30), "item": torch.zeros(20)}
    for _ in range(300):
        for name, node in sampler.sample_from_nodes(seeds).node.items():
            counts[name][node] += 1
    for name, count in counts.items():
        assert (prob[name] - count / 300).abs().max() < 0.1
    with pytest.raises(InputError, match=r"node_cnt=.* but there are 20 nodes of 'item'"):
        sampler.sample_prob(seeds, {"user": 30, "item": 19})


def test_torch_seeds_samplers_that_have_no_seed() -> None:
    dataset = one_type("in")
    drawn = []
    for seed in (1, 1, 2):
        glt.utils.seed_everything(seed)
        drawn.append(NeighborSampler(dataset.graph, [2], edge_dir="in").sample_from_nodes(torch.arange(40)).node)
    assert drawn[0].equal(drawn[1])
    assert not drawn[0].equal(drawn[2])


def test_samplers_and_loaders_of_a_dataset_share_one_graph_with_its_isolated_nodes(edge_dir: str) -> None:
    """Node 59 has features, and no edge that says that it is there."""
    dataset = one_type(edge_dir)
    sampler = NeighborSampler(dataset.graph, [2], edge_dir=edge_dir)
    assert sampler.sample_from_nodes(torch.tensor([59])).node.tolist() == [59]
    assert sampler.sample_prob(NodeSamplerInput(torch.tensor([59])), 60).nonzero().tolist() == [[59]]
    assert sampler._sampler.graph is dataset.halohop_graph
    alone = NeighborSampler(glt.data.Graph(dataset.graph.topo, "CPU"), [2], edge_dir=edge_dir)
    with pytest.raises(IdError, match="59"):
        alone.sample_from_nodes(torch.tensor([59]))
    del dataset  # the sampler goes on
    assert sampler.sample_from_nodes(torch.tensor([1, 59])).node[:2].tolist() == [1, 59]


def test_a_sampler_goes_to_another_process_as_it_stands(edge_dir: str) -> None:
    sampler = NeighborSampler(one_type(edge_dir).graph, [2, 2], with_edge=True, edge_dir=edge_dir, seed=6)
    sampler.sample_from_nodes(torch.arange(9))
    there = pickle.loads(pickle.dumps(sampler))
    out, other = sampler.sample_from_nodes(torch.arange(9)), there.sample_from_nodes(torch.arange(9))
    assert out.node.equal(other.node)
    assert out.edge.equal(other.edge)


def test_what_cannot_be_sampled(edge_dir: str) -> None:
    dataset, typed = one_type(edge_dir), two_types(edge_dir)
    with pytest.raises(IdError, match="900"):
        NeighborSampler(dataset.graph, [2], edge_dir=edge_dir).sample_from_nodes(torch.tensor([900]))
    with pytest.raises(InputError, match="with_weight=True"):
        NeighborSampler(typed.graph, [2], with_weight=True, edge_dir=edge_dir).sample_from_nodes(
            NodeSamplerInput(torch.tensor([1]), "user")
        )
    with pytest.raises(InputError, match="with_neg=False"):
        NeighborSampler(dataset.graph, [2]).sample_from_edges(
            EdgeSamplerInput(torch.tensor([1]), torch.tensor([2]), neg_sampling="binary")
        )
    with pytest.raises(InputError, match=r"fanout 1\.5"):
        NeighborSampler(dataset.graph, [1.5]).sample_from_nodes(torch.tensor([1]))
    with pytest.raises(InputError, match="no fanouts"):
        NeighborSampler(typed.graph, {BUYS: [1]}).sample_from_nodes(NodeSamplerInput(torch.tensor([1]), "user"))
    with pytest.raises(SchemaError):
        NeighborSampler(typed.graph, [1]).sample_from_nodes(NodeSamplerInput(torch.tensor([1]), "shop"))
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="cuda"):
            NeighborSampler(dataset.graph, [1], device="cuda:0")
    with pytest.warns(UserWarning, match="strategy"):
        NeighborSampler(dataset.graph, [1], strategy="best")
