"""Records of samplers: what is asked for, and what is returned."""

from pathlib import Path

import pytest
import torch

import halohop.glt as glt
from halohop.errors import InputError
from halohop.glt.sampler import (
    EdgeSamplerInput,
    HeteroSamplerOutput,
    NegativeSampling,
    NegativeSamplingMode,
    NeighborOutput,
    NodeSamplerInput,
    RemoteNodePathSamplerInput,
    RemoteNodeSplitSamplerInput,
)
from halohop.glt.typing import Split


def test_seeds_are_indexed_and_shared() -> None:
    nodes = NodeSamplerInput.cast(torch.tensor([5, 6, 7]))
    assert len(nodes) == 3
    assert nodes[[2, 0]].node.tolist() == [7, 5]
    edges = EdgeSamplerInput(torch.arange(4), torch.arange(4) + 1, torch.ones(4), ("a", "to", "b"), NegativeSampling("binary"))
    some = edges[torch.tensor([1, 3])].share_memory().to("cpu")
    assert [some.row.tolist(), some.col.tolist(), some.label.tolist()] == [[1, 3], [2, 4], [1, 1]]
    assert some.row.is_shared()
    assert (some.input_type, some.neg_sampling) == (("a", "to", "b"), edges.neg_sampling)
    assert EdgeSamplerInput(torch.arange(2), torch.arange(2))[0:1].label is None


def test_negatives_say_what_they_are() -> None:
    negatives = NegativeSampling(NegativeSamplingMode.triplet, 2.0, torch.ones(3))
    assert negatives.is_triplet()
    assert not negatives.is_binary()
    assert negatives.amount == 2
    assert negatives.weight.tolist() == [1, 1, 1]
    for mode, amount in (("unary", 1), ("binary", 0), ("triplet", 1.5)):
        with pytest.raises(InputError, match=f"'{mode}', {amount}"):
            NegativeSampling(mode, amount)


def test_relations_without_edges_are_there() -> None:
    both = ("a", "to", "b"), ("b", "to", "a")
    out = HeteroSamplerOutput({}, {both[0]: torch.tensor([0])}, {both[0]: torch.tensor([1])}, edge_types=list(both))
    assert {etype: ends.tolist() for etype, ends in out.get_edge_index().items()} == {both[0]: [[0], [1]], both[1]: [[], []]}
    assert NeighborOutput(torch.ones(1), torch.ones(1), None).to("cpu").edge is None


def test_seeds_of_a_server(tmp_path: Path) -> None:
    torch.save(torch.tensor([3, 1]), tmp_path / "seeds.pt")
    there = RemoteNodePathSamplerInput(str(tmp_path / "seeds.pt"), "user").to_local_sampler_input(None)
    assert (there.node.tolist(), there.input_type) == ([3, 1], "user")
    dataset = glt.data.Dataset(node_split=(torch.tensor([0]), torch.tensor([1]), {"user": torch.tensor([2])}))
    splits = [RemoteNodeSplitSamplerInput(split, "user").to_local_sampler_input(dataset).node.tolist() for split in Split]
    assert splits == [[0], [1], [2]]
