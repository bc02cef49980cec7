"""Loaders around edges: pairs, negatives, and what is left out of the blocks."""

import pytest
import torch

import halohop
import halohop.dgl as dgl
from halohop.dgl.dataloading import (
    BlockSampler,
    DataLoader,
    EdgeDataLoader,
    NeighborSampler,
    as_edge_prediction_sampler,
    find_exclude_eids,
    negative_sampler,
)
from halohop.dgl.sampling import making
from halohop.errors import IdError, InputError, SchemaError
from tests.support.dgl_batches import EDGES, NODES, epochs, plain, typed


class OwnBlocks(BlockSampler):
    def __init__(self, fanouts):
        super().__init__(len(fanouts))
        self.fanouts = fanouts

    def sample_frontier(self, block_id, g, seed_nodes):
        return dgl.sampling.sample_neighbors(g, seed_nodes, self.fanouts[block_id])


class InEdges(BlockSampler):
    """Takes all edges, and knows nothing of those that are left out."""

    def sample_frontier(self, block_id, g, seed_nodes):
        whole = dgl.in_subgraph(g, seed_nodes)
        found = dgl.graph(whole.edges(), num_nodes=g.num_nodes())
        found.edata[dgl.EID] = whole.edata[dgl.EID]
        return found


def checked(g, batch, relation=None):
    """What holds of every batch: pairs are the edges of their ids, and the blocks lead to the ends of all pairs."""
    _, positive, negative, blocks = batch
    for kind in g.ntypes:
        assert torch.equal(positive.nodes[kind].data[dgl.NID], blocks[-1].dstnodes[kind].data[dgl.NID])
        assert torch.equal(positive.nodes[kind].data[dgl.NID], negative.nodes[kind].data[dgl.NID])
    for name in g.canonical_etypes if relation is None else [relation]:
        ids = positive.edges[name].data[dgl.EID]
        for kind, place, whole in zip(name[::2], positive.edges(etype=name), g.find_edges(ids, name), strict=True):
            assert torch.equal(positive.nodes[kind].data[dgl.NID][place], whole)
    return positive, negative, blocks


@pytest.mark.parametrize("sampler", [NeighborSampler([3, 4]), OwnBlocks([3, 4])], ids=["built-in", "own"])
def test_excluded_edges_are_not_drawn_and_others_are_in_their_place(sampler):
    g = plain()
    reverse = torch.arange(EDGES).flip(0)
    how = {"exclude": "reverse_id", "reverse_eids": reverse, "negative_sampler": negative_sampler.Uniform(2), "batch_size": 40}
    for batch in EdgeDataLoader(g, torch.arange(0, EDGES, 3), sampler, shuffle=True, **how):
        positive, negative, blocks = checked(g, batch)
        ids = positive.edata[dgl.EID]
        excluded = torch.cat([ids, reverse[ids]]).unique()
        left = g.in_degrees() - torch.bincount(g.find_edges(excluded)[1], minlength=NODES)
        for block, fanout in zip(blocks, (3, 4), strict=True):
            assert not torch.isin(block.edata[dgl.EID], excluded).any()
            assert torch.equal(block.in_degrees(), left[block.dstdata[dgl.NID]].clamp(max=fanout))
        sources, destinations = (negative.ndata[dgl.NID][place] for place in negative.edges())
        assert torch.equal(sources, g.find_edges(ids)[0].repeat_interleave(2))
        assert destinations.max() < NODES


def test_own_samplers_make_the_same_batches_for_any_workers_and_partitions(tmp_path):
    g = plain()
    how = {"exclude": "self", "negative_sampler": negative_sampler.GlobalUniform(2), "batch_size": 40, "shuffle": True}
    ids = torch.arange(0, EDGES, 4)
    expected = epochs(EdgeDataLoader(g, ids, NeighborSampler([3, 4]), **how))
    assert expected[0] != expected[1]
    assert epochs(EdgeDataLoader(g, ids, OwnBlocks([3, 4]), num_workers=2, **how)) == expected
    assert epochs(EdgeDataLoader(g, ids, NeighborSampler([3, 4]), num_workers=2, run="processes", **how)) == expected
    dgl.distributed.partition_graph(g, "graph", 3, tmp_path, part_method="random")
    try:
        divided = dgl.distributed.DistGraph("graph", part_config=f"{tmp_path}/graph.json")
        assert epochs(EdgeDataLoader(divided, ids, NeighborSampler([3, 4]), **how)) == expected
    finally:
        dgl.distributed.exit_client()


def test_edges_are_removed_from_frontiers_that_do_not_know_of_them():
    g = plain()
    for batch in EdgeDataLoader(g, torch.arange(50), InEdges(1), exclude="self", batch_size=20):
        _, positive, (block,) = batch
        assert not torch.isin(block.edata[dgl.EID], positive.edata[dgl.EID]).any()
        left = g.in_degrees() - torch.bincount(g.find_edges(positive.edata[dgl.EID])[1], minlength=NODES)
        assert torch.equal(block.in_degrees(), left[block.dstdata[dgl.NID]])


def test_edges_of_several_relations_and_of_those_that_hold_the_reverses():
    g = typed()
    turned = {"likes": "liked", "liked": "likes"}
    sampler = as_edge_prediction_sampler(
        NeighborSampler([-1]),
        exclude="reverse_types",
        reverse_etypes=turned,
        negative_sampler=negative_sampler.PerSourceUniform(1),
        prefetch_labels={"likes": ["stars"]},
    )
    met = {"likes": [], "follows": []}
    seeds = {"likes": torch.arange(0, 200, 9), "follows": torch.arange(30)}
    for batch in DataLoader(g, seeds, sampler, batch_size=16, shuffle=True):
        positive, negative, (block,) = checked(g, batch)
        for name in met:
            met[name] += positive.edges[name].data[dgl.EID].tolist()
            assert negative.num_edges(name) == positive.num_edges(name)
        for name in ("likes", "liked"):
            assert not torch.isin(block.edges[name].data[dgl.EID], positive.edges["likes"].data[dgl.EID]).any()
        assert torch.equal(positive.edges["likes"].data["stars"], positive.edges["likes"].data[dgl.EID])
    assert {name: sorted(ids) for name, ids in met.items()} == {name: ids.tolist() for name, ids in seeds.items()}


def test_negatives_that_are_no_edges():
    g = plain()
    found = negative_sampler.GlobalUniform(3)(g, torch.arange(30))
    assert len(found[0]) <= 90
    assert not g.has_edges_between(*found).any()
    assert (found[0] != found[1]).all()
    assert len(torch.stack(found).unique(dim=1).T) == len(found[0])
    loops = negative_sampler.GlobalUniform(40, exclude_self_loops=False, replace=True)(g, torch.arange(30))
    assert len(loops[0]) == 1200
    assert (loops[0] == loops[1]).any()


@pytest.mark.parametrize(("one", "other"), [((1 << 32, 0), (0, 1)), ((5, 1), (5 + (1 << 32), 0)), ((0, 3), (3 << 32, 0))])
def test_negatives_of_another_seed_and_epoch_are_others(one, other):
    g, found = plain(), []
    for seed, epoch in (one, other, one):
        with making(g, halohop.records.Draws(g.engine, seed=seed, epoch=epoch)):
            found.append(torch.stack(negative_sampler.GlobalUniform(3)(g, torch.arange(30))).tolist())
    assert found[0] != found[1]
    assert found[0] == found[2]


def test_draws_of_a_second_graph_are_not_those_of_another_seed():
    """With seed + 1 for the second graph its draws were those of the first graph in the run with the next seed."""
    g, other = plain(), plain(seed=3)
    found = []
    for seed, graphs in ((0, [g, other]), (1, [other])):
        with making(graphs[0], halohop.records.Draws(graphs[0].engine, seed=seed)):
            found += [graph.sample_neighbors(torch.arange(NODES), 2).edata[dgl.EID].tolist() for graph in graphs]
    assert found[1] != found[2]


def test_excluded_edges_are_given_on_the_device_that_is_asked_for():
    found = find_exclude_eids(plain(), torch.arange(5), "self", output_device="meta")
    assert [ids.device.type for ids in found.values()] == ["meta"]
    assert find_exclude_eids(plain(), torch.arange(5), None, output_device="meta") is None


def test_another_graph_may_be_sampled_from():
    g, other = plain(), plain(seed=3)
    loader = EdgeDataLoader(g, torch.arange(20), NeighborSampler([-1]), g_sampling=other, batch_size=20)
    _, positive, (block,) = next(iter(loader))
    assert torch.equal(block.in_degrees(), other.in_degrees(positive.ndata[dgl.NID]))


def test_what_is_lacking_is_named():
    blocks = NeighborSampler([1])
    with pytest.raises(InputError, match="needs reverse_eids"):
        as_edge_prediction_sampler(blocks, exclude="reverse_id")
    with pytest.raises(InputError, match="needs reverse_etypes"):
        as_edge_prediction_sampler(blocks, exclude="reverse_types")
    with pytest.raises(InputError, match="exclude='all'"):
        as_edge_prediction_sampler(blocks, exclude="all")
    with pytest.raises(SchemaError, match="no relation is given"):
        DataLoader(typed(), [1], as_edge_prediction_sampler(blocks))
    with pytest.raises(IdError, match="500"):
        next(iter(DataLoader(plain(), [500], as_edge_prediction_sampler(blocks))))
    with pytest.raises(InputError, match="does not say its ids"):
        next(iter(EdgeDataLoader(plain(), [1], Unnamed(1), exclude="self")))


class Unnamed(BlockSampler):
    def sample_frontier(self, block_id, g, seed_nodes):
        return dgl.graph(dgl.in_subgraph(g, seed_nodes).edges(), num_nodes=g.num_nodes())
