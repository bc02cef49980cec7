"""Padded batches of a pretended GPU for whose sizes the host does not wait: those of the CPU, bit for bit."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from halohop.cluster.device import DeviceOptions
from halohop.cluster.device.graph import DeviceGraph
from halohop.cluster.graph import Graph
from halohop.errors import InputError
from halohop.ops import gpu_places
from halohop.sampling.batch import AnySeeds, Room, Seeds
from halohop.sampling.caps import Padding, bound
from halohop.sampling.collect import collect
from halohop.sampling.fanouts import Fanouts
from halohop.sampling.neighbor import NeighborSampler
from halohop.sampling.padding import pad
from halohop.sampling.placed import Places
from halohop.store.draw import Rules
from halohop.testing import graphs
from halohop.testing.worlds import partitioned
from halohop.typing import EDGE, NODE
from tests.sampling.test_on_device import links_of, seeds_of
from tests.support.pretend_gpu import PretendPool, home

PLAIN = graphs.power_law(16, 4, shuffled_ids=True)
WRITES = ("author", "writes", "paper")
TYPED = graphs.typed(
    {"paper": 10, "author": 6, "none": 0},
    {WRITES: 20, ("paper", "rev_writes", "author"): 12, ("paper", "cites", "paper"): 15, ("none", "is", "paper"): 0},
)
FULL = pytest.mark.full
LONELY = graphs.isolated(6)
RULES = {"new": Rules(), "all": Rules(expand="all"), "replace": Rules(replace=True)}


def assert_same(there: Any, here: Any) -> None:
    """As far as a user sees it: with the gids in empty places."""
    for name, block in here.nodes.items():
        found = there.nodes[name]
        assert found.num_sampled == block.num_sampled
        assert torch.equal(home(found.gid), block.gid)
        assert found.padded
        for key, column in block.columns.items():
            assert torch.equal(home(found.columns[key]), column), key
    for relation, edges in here.edges.items():
        listed = there.edges[relation]
        assert listed.num_sampled == edges.num_sampled
        assert torch.equal(home(listed.gid), edges.gid)
        assert torch.equal(home(listed.ends_bid), edges.ends_bid)
        for key, column in edges.columns.items():
            assert torch.equal(home(listed.columns[key]), column), key
    assert there.room == here.room
    assert [home(bids).tolist() for bids in there.ends_bid] == [bids.tolist() for bids in here.ends_bid]


def check(graph: Graph, fanout: list[int], rules: Rules, widest: AnySeeds, *others: AnySeeds, **padding: Any) -> None:
    device = DeviceGraph(graph, PretendPool(), DeviceOptions(device="cuda:0", mode="cuda"))
    near = NeighborSampler(graph, Fanouts.uniform(fanout, graph.schema), seed=3, rules=rules)
    caps = bound(near, near.sample(widest)).overridden(Padding(caps="bound", **padding), graph.schema)
    far = NeighborSampler(device, near.fanouts, seed=3, rules=rules).placed(caps.places())
    assert far is not None
    for seeds in (widest, *others, widest):
        expected = collect(graph, pad(near.sample(seeds), caps, graph.pool))
        before = device.pool.counters.snapshot().get("device_waits", 0)
        found = collect(device, far.sample(seeds))
        assert device.pool.counters.snapshot().get("device_waits", 0) == before
        assert_same(found, expected)
        device.pool.check()


@pytest.mark.parametrize("rules", ["new", *(pytest.param(name, marks=FULL) for name in ("all", "replace"))])
@pytest.mark.parametrize("fanout", [[3, 2], [-1, -1], pytest.param([2, 0, 2], marks=FULL), [40], []], ids=str)
def test_batches_of_one_type(fanout: list[int], rules: str) -> None:
    check(partitioned(PLAIN, 2), fanout, RULES[rules], seeds_of(NODE, [5, 12, 5, 3]), seeds_of(NODE, [2], 1), seeds_of(NODE, []))


@FULL  # the loaders show it with fewer batches
@pytest.mark.parametrize("rules", RULES)
def test_batches_of_several_types(rules: str) -> None:
    check(partitioned(TYPED, 2), [2, 2], RULES[rules], seeds_of("paper", [5, 7, 8]), seeds_of("paper", [1], 1))


def test_nodes_without_neighbours() -> None:
    check(partitioned(LONELY, 2), [2, 2], Rules(), seeds_of(NODE, [5, 0, 3]))


@FULL
@pytest.mark.parametrize("triplet", [False, True])
def test_links(triplet: bool) -> None:
    check(partitioned(TYPED, 1), [2, 2], Rules(), links_of(WRITES, triplet=triplet))


def test_a_table_of_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(gpu_places.PlacedRelabeler.__init__.__kwdefaults__, "dense_limit", 0)
    check(partitioned(PLAIN, 2), [3, 2], Rules(), seeds_of(NODE, [5, 12, 5, 3]), seeds_of(NODE, [2], 1))


@settings(deadline=None, max_examples=3)
@given(st.lists(st.integers(0, 15), max_size=6), st.lists(st.integers(-1, 4), max_size=2), st.sampled_from(list(RULES)))
def test_any_seeds_and_fanouts(nodes: list[int], fanout: list[int], rules: str) -> None:
    check(partitioned(PLAIN, 3), fanout, RULES[rules], seeds_of(NODE, nodes))


def test_places_that_are_the_users_own() -> None:
    check(partitioned(PLAIN, 2), [3, 2], Rules(), seeds_of(NODE, [5, 12]), nodes={NODE: [4, 30, 40]}, edges={EDGE: [9, 50]})


@pytest.mark.parametrize("places", [{"nodes": {NODE: [4, 1, 40]}}, {"edges": {EDGE: [9, 3]}}], ids=str)
def test_more_than_the_places_is_refused_with_the_remedy(places: dict[str, Any]) -> None:
    graph = partitioned(PLAIN, 2)
    with pytest.raises(InputError, match=r"^\d+ nodes or edges are more than the padded batch has places for; give more"):
        check_overflow(graph, places)


def check_overflow(graph: Graph, places: dict[str, Any]) -> None:
    device = DeviceGraph(graph, PretendPool(), DeviceOptions(device="cuda:0", mode="cuda"))
    seeds = Seeds(node_type=NODE, gid=torch.tensor([5, 12, 3]), input_id=torch.arange(3), epoch=0, index=0)
    far = NeighborSampler(device, Fanouts.uniform([3, 2], graph.schema))
    caps = bound(far, far.sample(seeds)).overridden(Padding(caps="bound", **places), graph.schema)
    placed = far.placed(caps.places())
    assert placed is not None
    batch = placed.sample(seeds)
    ends = home(batch.edges[EDGE].ends_bid)
    assert ends.min() >= 0
    assert ends.max() < len(batch.nodes[NODE].gid)  # a model may read it before the fault is raised
    device.pool.check()


def test_more_places_than_positions_have_bits() -> None:
    graph = partitioned(PLAIN, 1)
    device = DeviceGraph(graph, PretendPool(), DeviceOptions(device="cuda:0", mode="cuda"))
    sampler = NeighborSampler(device, Fanouts.uniform([2], graph.schema))
    room = Room(seeds=1, pairs=0)
    assert sampler.placed(Places(inputs=room, nodes={NODE: (2, 8)}, edges={EDGE: (2**31,)})) is None
    lists_of_the_host = DeviceGraph(graph, PretendPool(), DeviceOptions(device="cuda:0", mode="cpu"))
    sampler = NeighborSampler(lists_of_the_host, sampler.fanouts)
    assert sampler.placed(Places(inputs=room, nodes={NODE: (2, 8)}, edges={EDGE: (2,)})) is None


@pytest.mark.parametrize(
    "rules", [Rules(disjoint=True), Rules(subgraph="induced"), Rules(weight="weight"), Rules(labor=True)], ids=str
)
def test_what_has_to_wait(rules: Rules) -> None:
    graph = partitioned(PLAIN, 1)
    device = DeviceGraph(graph, PretendPool(), DeviceOptions(device="cuda:0", mode="cuda"))
    sampler = NeighborSampler(device, Fanouts.uniform([2], graph.schema))
    sampler.rules = rules
    assert sampler.placed(bound(sampler, NeighborSampler(graph, sampler.fanouts).sample(seeds_of(NODE, [1]))).places()) is None
