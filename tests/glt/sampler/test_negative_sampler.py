"""Pairs of nodes that are no edges, over all nodes and by their weights."""

import pytest
import torch

import halohop.glt as glt
from halohop.errors import InputError
from halohop.glt.sampler import EdgeSamplerInput, NegativeSampling, NeighborSampler, RandomNegativeSampler


def test_pairs_are_no_edges_and_reach_all_nodes(edge_dir: str) -> None:
    """In GLT ids of columns end at the number of different ones: of {100, 200} only 0 and 1 were drawn."""
    edges = torch.tensor([[0, 3, 200, 200], [100, 200, 3, 100]])
    graph = glt.data.Graph(glt.data.Topology(edges), mode="CPU")
    sampler = RandomNegativeSampler(graph, "CPU", edge_dir)
    pairs = sampler.sample(4000)
    assert pairs.shape == (2, 4000)
    assert set(zip(*edges.tolist(), strict=True)).isdisjoint(zip(*pairs.tolist(), strict=True))
    assert all(ends.unique().tolist() == list(range(201)) for ends in pairs)
    assert not pairs.equal(sampler.sample(4000))
    with pytest.warns(UserWarning, match="trials_num"):
        assert sampler.sample(3, padding=True).shape == (2, 3)


@pytest.mark.parametrize("mode", ["binary", "triplet"])
def test_negatives_heed_weights(mode: str) -> None:
    """A chi-square test of 4,000 draws with 9 degrees of freedom: 27.9 is exceeded once in a thousand seeds."""
    row = torch.arange(10)
    graph = glt.data.Graph(glt.data.Topology((row, row)), mode="CPU")
    weight = torch.arange(10).float()
    sampler = NeighborSampler(graph, [0], with_neg=True, seed=5)
    out = sampler.sample_from_edges(EdgeSamplerInput(row, row, neg_sampling=NegativeSampling(mode, 400, weight)))
    if mode == "triplet":
        drawn = [out.node[out.metadata["dst_neg_index"].reshape(-1)]]
        expected = weight / weight.sum()
    else:
        drawn = [out.node[ends[10:]] for ends in out.metadata["edge_label_index"]]
        joint = weight.outer(weight) * (1 - torch.eye(10))  # the only edges are loops
        expected = joint.sum(0) / joint.sum()
    for nodes in drawn:
        counts = nodes.bincount(minlength=10)
        assert counts.sum() == 4000
        assert counts[0] == 0
        assert ((counts - 4000 * expected)[1:].square() / (4000 * expected)[1:]).sum() < 27.9
    wrong = NegativeSampling(mode, 1, torch.ones(3))
    with pytest.raises(InputError, match=r"weights of negatives have shape \(3,\), but 'node' has 10 nodes"):
        sampler.sample_from_edges(EdgeSamplerInput(row, row, neg_sampling=wrong))


def test_a_graph_with_all_edges_and_a_gpu_that_is_not_there() -> None:
    whole = glt.data.Graph(glt.data.Topology(torch.cartesian_prod(torch.arange(3), torch.arange(3)).T), mode="CPU")
    with pytest.raises(InputError, match="every pair of nodes is joined"):
        RandomNegativeSampler(whole).sample(1)
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="CUDA"):
            RandomNegativeSampler(whole, "CUDA")
