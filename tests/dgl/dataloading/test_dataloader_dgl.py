"""Frontiers and blocks beside those of real DGL, where it is installed."""

import pytest
import torch

import halohop.dgl as dgl
from tests.support.dgl_batches import EDGES, NODES, plain, typed
from tests.support.real_dgl import real_dgl


def both(g, real):
    """The graph of real DGL with the same edges."""
    counts = {kind: g.num_nodes(kind) for kind in g.ntypes}
    return real.heterograph({relation: g.edges(etype=relation) for relation in g.canonical_etypes}, counts)


def assert_same_block(mine, theirs):
    assert mine.canonical_etypes == theirs.canonical_etypes
    assert (mine.srctypes, mine.dsttypes) == (theirs.srctypes, theirs.dsttypes)
    for kind in mine.srctypes:
        for ours, others in ((mine.srcnodes, theirs.srcnodes), (mine.dstnodes, theirs.dstnodes)):
            assert torch.equal(ours[kind].data[dgl.NID], others[kind].data[dgl.NID])
            assert ours[kind].data[dgl.NID].dtype == others[kind].data[dgl.NID].dtype
    for relation in mine.canonical_etypes:
        for ours, others in zip(mine.edges(etype=relation), theirs.edges(etype=relation), strict=True):
            assert torch.equal(ours, others)
        assert torch.equal(mine.edges[relation].data[dgl.EID], theirs.edges[relation].data[dgl.EID])


@pytest.mark.parametrize("made", [plain, typed])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32], ids=str)
def test_blocks_of_any_edges_are_those_of_dgl(made, dtype):
    """Edges in any order, some of them several times; destinations in any order, some without edges, or not named."""
    real = real_dgl()
    g = made(dtype=dtype)
    for seed in range(20):
        chance = torch.Generator().manual_seed(seed)
        some = {}
        for relation in g.canonical_etypes:
            number = g.num_edges(relation)
            some[relation] = torch.randint(max(number, 1), (min(number, 5 * seed),), generator=chance)
        mine = dgl.edge_subgraph(g, some, relabel_nodes=False)
        theirs = real.edge_subgraph(both(g, real), {key: ids.to(dtype) for key, ids in some.items()}, relabel_nodes=False)
        ends = {kind: [mine.edges(etype=name)[1] for name in mine.canonical_etypes if name[2] == kind] for kind in mine.ntypes}
        nodes = {}
        for kind, parts in ends.items():
            more = torch.randint(g.num_nodes(kind), (6,), generator=chance).to(dtype)
            ids = torch.cat([*parts, more]).unique()
            nodes[kind] = ids[torch.randperm(len(ids), generator=chance)]
        assert_same_block(dgl.to_block(mine, nodes), real.to_block(theirs, nodes))
        assert_same_block(dgl.to_block(mine), real.to_block(theirs))


def test_columns_of_blocks_are_those_of_dgl():
    real = real_dgl()
    g = plain()
    theirs = both(g, real)
    theirs.ndata["feat"], theirs.edata["weight"] = g.ndata["feat"], g.edata["weight"]
    mine, other = (
        of.to_block(of.edge_subgraph(graph, torch.arange(0, EDGES, 7), relabel_nodes=False))
        for of, graph in ((dgl, g), (real, theirs))
    )
    for name in ("srcdata", "dstdata"):
        assert torch.equal(getattr(mine, name)["feat"], getattr(other, name)["feat"])
    assert torch.equal(mine.edata["weight"], other.edata["weight"])


def test_all_neighbours_are_those_of_dgl():
    """Blocks of all neighbours have the same nodes and edges, but DGL lists the edges of a node in another order."""
    real = real_dgl()
    g, seeds = plain(), torch.arange(0, NODES, 3)
    mine = dgl.dataloading.MultiLayerFullNeighborSampler(2).sample(g, seeds)[2]
    theirs = real.dataloading.MultiLayerFullNeighborSampler(2).sample(both(g, real), seeds)[2]
    for ours, others in zip(mine, theirs, strict=True):
        assert torch.equal(ours.dstdata[dgl.NID].sort().values, others.dstdata[dgl.NID].sort().values)
        assert torch.equal(ours.edata[dgl.EID].sort().values, others.edata[dgl.EID].sort().values)
    assert torch.equal(mine[-1].dstdata[dgl.NID], seeds)


@pytest.mark.parametrize("exclude", ["self", "reverse_id"])
def test_pairs_of_edge_loaders_are_those_of_dgl(exclude):
    """With all neighbours and given negatives everything is determined. (DGL sorts the ids that it is given in place.)"""
    real = real_dgl()
    g = plain()

    def negatives(graph, ids):
        return torch.arange(len(ids)) + 3, torch.arange(len(ids)) + 1

    found = []
    for of, graph in ((dgl, g), (real, both(g, real))):
        how = {"exclude": exclude, "reverse_eids": torch.arange(EDGES).flip(0), "negative_sampler": negatives}
        if exclude == "self":
            del how["reverse_eids"]
        sampler = of.dataloading.as_edge_prediction_sampler(of.dataloading.MultiLayerFullNeighborSampler(1), **how)
        found.append(sampler.sample(graph, torch.tensor([3, 5, 80, 400])))
    mine, theirs = found
    for ours, others in zip(mine[1:3], theirs[1:3], strict=True):
        assert torch.equal(ours.ndata[dgl.NID], others.ndata[dgl.NID])
        for one, other in zip(ours.edges(), others.edges(), strict=True):
            assert torch.equal(one, other)
    assert torch.equal(mine[1].edata[dgl.EID], theirs[1].edata[dgl.EID])
    assert torch.equal(mine[3][0].dstdata[dgl.NID], theirs[3][0].dstdata[dgl.NID])
    assert torch.equal(mine[3][0].edata[dgl.EID].sort().values, theirs[3][0].edata[dgl.EID].sort().values)
