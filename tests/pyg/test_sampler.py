"""HalohopSampler inside PyG's own loaders."""

import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import LinkLoader, LinkNeighborLoader, NeighborLoader, NodeLoader
from torch_geometric.sampler import EdgeSamplerInput, NegativeSampling, NodeSamplerInput

import halohop
from halohop import HalohopSampler
from halohop.errors import InputError
from halohop.testing import graphs
from halohop.testing.worlds import partitioned
from halohop.typing import EDGE, NODE

WRITES = ("author", "writes", "paper")
REV_WRITES = ("paper", "rev_writes", "author")


@pytest.fixture(scope="module")
def data() -> Data:
    torch.manual_seed(1)
    return Data(
        x=torch.randn(200, 8),
        y=torch.randint(5, (200,)),
        edge_index=torch.randint(200, (2, 1500)),
        edge_attr=torch.randn(1500, 3),
        weight=torch.rand(1500).round(decimals=1) * (torch.arange(1500) % 3 > 0),
        when=torch.randint(100, (1500,)),
        born=torch.arange(200) % 90,
    )


@pytest.fixture(scope="module")
def hetero() -> HeteroData:
    torch.manual_seed(2)
    data = HeteroData()
    data["paper"].x = torch.randn(60, 4)
    data["author"].x = torch.randn(40, 6)
    data[WRITES].edge_index = torch.stack([torch.randint(40, (150,)), torch.randint(60, (150,))])
    data[REV_WRITES].edge_index = data[WRITES].edge_index.flip(0)
    for relation in (WRITES, REV_WRITES):
        data[relation].when = torch.randint(100, (150,))
        data[relation].edge_attr = torch.randn(150, 2)
    return data


def same(ours, pygs, *, but=()) -> None:
    """Whether two batches hold the same. (PyG's lists and None stay PyG's affair.)"""
    assert type(ours) is type(pygs)
    for one, other in zip(ours.stores, pygs.stores, strict=True):
        for key, value in one.items():
            if isinstance(value, torch.Tensor) and key not in but:
                assert torch.equal(value, other[key]), key


CERTAIN = [
    {},
    {"disjoint": True},
    {"subgraph_type": "induced"},
    {"directed": False},
    {"subgraph_type": "bidirectional"},
    {"time_attr": "when"},
    {"time_attr": "when", "temporal_strategy": "last"},
    {"weight_attr": "weight"},
]


@pytest.mark.parametrize("options", CERTAIN, ids=str)
def test_what_is_not_drawn_by_chance_is_what_our_loader_gives(data, options):
    """Through NodeLoader, and through NeighborLoader, which has its own ideas of the options but must not heed them."""
    time = torch.arange(50) + 30 if "time_attr" in options else None
    plan = {"input_nodes": torch.arange(50), "input_time": time, "batch_size": 20}
    certain = [3, 3] if "temporal_strategy" in options else [-1, -1]
    for ours, one, other in zip(
        halohop.NeighborLoader(data, certain, **plan, **options),
        NodeLoader(data, HalohopSampler(data, certain, **options), **plan),
        NeighborLoader(
            data, [1], neighbor_sampler=HalohopSampler(data, certain, **options), time_attr=options.get("time_attr"), **plan
        ),
        strict=True,
    ):
        same(ours, one)
        same(ours, other)


@pytest.mark.parametrize("options", [CERTAIN[0], CERTAIN[1], CERTAIN[5]], ids=str)
@pytest.mark.parametrize("mode", [None, "triplet"])
def test_links_through_pygs_loaders(hetero, options, mode):
    time = torch.arange(150) if "time_attr" in options else None
    plan = {"edge_label_index": (WRITES, None), "edge_label_time": time, "neg_sampling": mode, "batch_size": 64}
    index = {"edge_label_index": (WRITES, hetero[WRITES].edge_index)}
    sampler = HalohopSampler(hetero, [-1], **options)
    for ours, one, other in zip(
        halohop.LinkNeighborLoader(hetero, [-1], **plan, **options),
        LinkLoader(hetero, sampler, **(plan | index)),
        LinkNeighborLoader(hetero, [1], neighbor_sampler=sampler, time_attr=options.get("time_attr"), **(plan | index)),
        strict=True,
    ):
        if mode is None:  # negatives are drawn by the batch's number, which PyG does not tell
            same(ours, one)
        same(one, other)
        assert ("seed_time" in one["author"]) == (mode is not None and time is not None)


def test_flips_of_another_relation_come_without_what_pyg_cannot_ask_for(hetero):
    plan = {"input_nodes": ("paper", torch.arange(20)), "batch_size": 20}
    (ours,) = halohop.NeighborLoader(hetero, [-1], subgraph_type="bidirectional", **plan)
    (pygs,) = NodeLoader(hetero, HalohopSampler(hetero, [-1], subgraph_type="bidirectional"), **plan)
    for relation in (WRITES, REV_WRITES):
        assert torch.equal(pygs[relation].edge_index, ours[relation].edge_index)
        assert "e_id" not in pygs[relation]
        assert pygs[relation].get("edge_attr") is None


def test_nodes_bring_their_own_time_and_nothing_later(data):
    sampler = HalohopSampler(data, [5, 5], time_attr="born")
    loader = NodeLoader(data, sampler, input_nodes=torch.arange(50, 60), input_time=None, batch_size=5)
    for batch in loader:
        assert batch.seed_time.tolist() == batch.n_id[: batch.batch_size].tolist()
        assert (batch.born <= batch.seed_time[batch.batch]).all()


def test_what_does_not_fit_is_refused(data):
    nodes = NodeSamplerInput(None, torch.arange(3), torch.arange(3))
    with pytest.raises(InputError, match="without time_attr"):
        HalohopSampler(data, [1]).sample_from_nodes(nodes)
    with pytest.raises(InputError, match="have times 'then'"):
        HalohopSampler(data, [1], time_attr="then")
    with pytest.raises(InputError, match="give the time"):
        HalohopSampler(data, [1], time_attr="when").sample_from_nodes(NodeSamplerInput(None, torch.arange(3)))
    with pytest.raises(InputError, match="neither 'uniform' nor 'last'"):
        HalohopSampler(data, [1], temporal_strategy="first")


def test_options_may_be_set(data):
    """As LightningNodeData does for evaluation, on a shallow copy."""
    sampler = HalohopSampler(data, [1])
    seeds = NodeSamplerInput(None, torch.arange(30))
    before = sampler.sample_from_nodes(seeds)
    sampler.num_neighbors, sampler.disjoint = [-1], True
    fresh = HalohopSampler(data, [-1], disjoint=True).sample_from_nodes(seeds)
    after = sampler.sample_from_nodes(seeds)
    assert len(before.edge) < len(after.edge)
    assert torch.equal(after.edge, fresh.edge)
    assert torch.equal(after.batch, fresh.batch)
    sampler.num_neighbors, sampler.disjoint, sampler.seed = [1], False, 5
    assert not torch.equal(sampler.sample_from_nodes(seeds).edge, before.edge)


@pytest.mark.parametrize("options", [{}, {"weight_attr": "weight"}, {"expand": "all"}, {"subgraph_type": "induced"}], ids=str)
def test_a_batch_by_its_number_is_the_loaders(data, options):
    sampler = HalohopSampler(data, [3, 2], seed=9, **options)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        loader = halohop.NeighborLoader(data, [3, 2], torch.arange(60), batch_size=20, seed=9, **options)
        loader.set_epoch(epoch)
        for number, batch in enumerate(loader):
            seeds = NodeSamplerInput(input_id=None, node=batch.n_id[: batch.batch_size])
            out = sampler.sample_from_nodes(seeds, batch=number)
            assert out.node.equal(batch.n_id)
            assert torch.stack([out.row, out.col]).equal(batch.edge_index)
            assert out.edge.equal(batch.e_id)
    assert not sampler.sample_from_nodes(seeds).edge.equal(out.edge) or options == {"subgraph_type": "induced"}


@pytest.mark.parametrize("mode", ["binary", "triplet"])
@pytest.mark.parametrize("strict", [False, True])
def test_links_by_the_number_of_their_batch_are_the_loaders(hetero, mode, strict):
    negatives = NegativeSampling(mode, 2)
    sampler, plan = HalohopSampler(hetero, [2], seed=4), {"neg_sampling": negatives, "strict_negatives": strict, "seed": 4}
    for number, batch in enumerate(halohop.LinkNeighborLoader(hetero, [2], edge_label_index=WRITES, batch_size=50, **plan)):
        row, col = hetero[WRITES].edge_index[:, 50 * number : 50 * number + 50]
        edges = EdgeSamplerInput(input_id=None, row=row, col=col, input_type=WRITES)
        out = sampler.sample_from_edges(edges, negatives, batch=number, strict_negatives=strict)
        for name in ("author", "paper"):
            assert out.node[name].equal(batch[name].n_id)
        if mode == "binary":
            assert out.metadata[1].equal(batch[WRITES].edge_label_index)
        else:
            assert out.metadata[3].equal(batch["paper"].dst_neg_index)


@pytest.mark.parametrize("num_parts", [1, 3])
def test_pairs_alone_are_no_edges_whatever_the_partitions(num_parts):
    tables = graphs.power_law(30, 300, shuffled_ids=True)
    sampler = HalohopSampler(partitioned(tables, num_parts), [1], seed=2)
    raw = tables.nodes[NODE].raw_id
    edges = set(zip(raw[tables.edges[EDGE].src].tolist(), raw[tables.edges[EDGE].dst].tolist(), strict=True))
    pairs = sampler.sample_negatives(500, batch=7)
    assert pairs.shape == (2, 500)
    assert edges.isdisjoint(zip(*pairs.tolist(), strict=True))
    assert set(pairs.view(-1).tolist()) <= set(raw.tolist())
    assert pairs.equal(HalohopSampler(partitioned(tables, 2), [1], seed=2).sample_negatives(500, batch=7))
    assert not pairs.equal(sampler.sample_negatives(500, batch=8))
    sampler.set_epoch(1)
    assert not pairs.equal(sampler.sample_negatives(500, batch=7))
    loose = sampler.sample_negatives(3000, strict=False)
    assert not edges.isdisjoint(zip(*loose.tolist(), strict=True))


def test_pairs_alone_heed_weights_and_types(hetero):
    sampler = HalohopSampler(hetero, [1])
    weights = torch.zeros(60)
    weights[[3, 50]] = torch.tensor([1.0, 3.0])
    author, paper = sampler.sample_negatives(4000, WRITES, NegativeSampling("triplet", 1, None, weights), strict=False)
    assert author.unique().tolist() == list(range(40))
    assert set(paper.tolist()) == {3, 50}
    assert abs((paper == 50).float().mean() - 0.75) < 0.03
    assert sampler.sample_negatives(10, ("paper", "cites", "paper")).shape == (2, 10)  # which has no edges


def test_pairs_alone_of_a_graph_that_has_all_edges():
    whole = Data(edge_index=torch.cartesian_prod(torch.arange(4), torch.arange(4)).T, num_nodes=4)
    with pytest.raises(InputError, match=r"every pair of nodes is joined by .*; draw pairs with strict=False"):
        HalohopSampler(whole, [1]).sample_negatives(1)
    assert HalohopSampler(whole, [1]).sample_negatives(0).shape == (2, 0)
