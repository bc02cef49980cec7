"""What a batch begins with and is made of, on a device."""

from dataclasses import fields, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from halohop import ops
from halohop.sampling.batch import AnySeeds, Batch, NodeSet, Seeds
from halohop.sampling.caps import Room, Sizes
from halohop.sampling.collect import collect
from halohop.sampling.fanouts import Fanouts
from halohop.sampling.link_seeds import LinkSeeds
from halohop.sampling.neighbor import NeighborSampler
from halohop.sampling.padding import pad
from halohop.store.draw import Rules
from halohop.telemetry import Counters
from halohop.testing import graphs
from halohop.testing.worlds import partitioned
from halohop.typing import EDGE, NODE
from tests.support.pretend_gpu import PretendPool, home

TIMES = torch.tensor([5, 7, 6])
ENDS = {"src_gid": torch.tensor([1, 2, 3, 0]), "dst_gid": torch.tensor([0, 2, 1, 1]), "input_id": torch.tensor([8, 9])}
SEEDS: dict[str, AnySeeds] = {
    "nodes": Seeds(node_type=NODE, gid=torch.tensor([3, 1, 3]), input_id=torch.arange(3), epoch=0, index=1, time=TIMES),
    "links": LinkSeeds(relation=EDGE, **ENDS, epoch=0, index=1, label=torch.ones(4), excluded={EDGE: torch.tensor([1])}),
    "a set": NodeSet(gid={NODE: torch.tensor([3, 1])}, epoch=0, index=1),
}


def tensors(record: Any) -> list[Tensor]:
    """All that a record holds, however deep."""
    if isinstance(record, Tensor):
        return [record]
    if isinstance(record, dict):
        return [tensor for value in record.values() for tensor in tensors(value)]
    if isinstance(record, tuple):
        return [tensor for value in record for tensor in tensors(value)]
    if hasattr(type(record), "__dataclass_fields__"):
        return [tensor for field in fields(record) for tensor in tensors(getattr(record, field.name))]
    return []


def assert_moved(moved: Any, original: Any) -> None:
    there, here = tensors(moved), tensors(original)
    assert len(there) == len(here) > 0
    for one, other in zip(there, here, strict=True):
        assert one.is_cuda
        assert not other.is_cuda
        assert one.dtype == other.dtype
        assert torch.equal(home(one), other)


@pytest.mark.parametrize("name", SEEDS)
def test_seeds_move_with_all_that_they_hold(name: str) -> None:
    assert_moved(SEEDS[name].put(PretendPool()), SEEDS[name])
    assert all(end.gid.is_cuda and end.tree.is_cuda for end in SEEDS[name].put(PretendPool()).ends)


@pytest.mark.parametrize("subgraph", ["directional", "bidirectional"])
def test_a_batch_moves_with_its_rows_and_shared_tensors_are_copied_once(subgraph: Any) -> None:
    graph = partitioned(graphs.typed({"a": 20, "b": 9}, {("a", "to", "b"): 40, ("b", "rev_to", "a"): 30}), 1)
    rules = Rules(subgraph=subgraph, disjoint=subgraph == "directional")
    sampler = NeighborSampler(graph, Fanouts.uniform([3, 2], graph.schema), rules=rules)
    seeds = Seeds(node_type="a", gid=torch.tensor([3, 1, 3]), input_id=torch.arange(3), epoch=0, index=0)
    batch = collect(graph, sampler.sample(seeds))
    batch = replace(batch, ends_bid=(batch.nodes["a"].gid,))
    pool = PretendPool(Counters())
    moved = batch.put(pool)
    assert_moved(moved, batch)
    assert moved.ends_bid[0] is moved.nodes["a"].gid
    assert (moved.num_edges, moved.num_bytes) == (batch.num_edges, batch.num_bytes)
    for there, here in zip(moved.edges.values(), batch.edges.values(), strict=True):
        if here.flips is not None:
            for one, other in zip(there.own_and_flipped(), here.own_and_flipped(), strict=True):
                assert torch.equal(home(one), other)
    assert "device_waits" not in pool.counters.snapshot()


@pytest.mark.parametrize("triplet", [False, True])
@pytest.mark.parametrize(("num_pos", "num_neg"), [(0, 0), (3, 0), (1, 1), (3, 6), (2, 8)])
def test_trees_of_links_on_a_device(num_pos: int, num_neg: int, triplet: bool) -> None:
    beside = PretendPool().put(torch.zeros(num_pos + num_neg))
    expected = ops.link_trees(num_pos, num_neg, triplet=triplet)
    assert torch.equal(home(ops.link_trees(num_pos, num_neg, triplet=triplet, beside=beside)), expected)


def test_edges_of_a_padded_batch_are_counted_without_empty_places() -> None:
    graph = partitioned(graphs.ring(30), 1)
    sampler = NeighborSampler(graph, Fanouts.uniform([2, 2], graph.schema), rules=Rules(subgraph="bidirectional"))
    seeds = Seeds(node_type=NODE, gid=torch.tensor([3, 1]), input_id=torch.arange(2), epoch=0, index=0)
    batch = sampler.sample(seeds)
    room = Sizes(inputs=Room(seeds=5, pairs=0), nodes={NODE: (9, 9, 30)}, edges={EDGE: (100,)})
    padded = pad(batch, room, graph.pool)
    assert isinstance(padded, Batch)
    assert padded.edges[EDGE].gid.numel() == 100
    assert padded.put(PretendPool()).num_edges == batch.num_edges < 100
