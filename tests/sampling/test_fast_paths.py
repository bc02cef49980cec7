"""A sampling option that a fast path does not know: the path leaves the batch to the general way, or refuses it."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

import pytest
import torch

import halohop
from halohop.access import vip
from halohop.access.dealing import Batches
from halohop.cluster import replicas
from halohop.cluster.device import DeviceOptions
from halohop.cluster.device.graph import DeviceGraph
from halohop.cluster.replicas import Replicas
from halohop.errors import InputError
from halohop.sampling import caps, near, placed
from halohop.sampling.caps import bound
from halohop.sampling.fanouts import Fanouts
from halohop.sampling.neighbor import NeighborSampler
from halohop.store.disk import map_replica, read_manifest
from halohop.store.draw import Draw, Rules
from halohop.store.topology import Topology
from halohop.telemetry import Counters
from halohop.testing import graphs
from halohop.testing.worlds import partitioned
from halohop.typing import EDGE, NODE
from tests.sampling.test_neighbor import sampled
from tests.sampling.test_on_device import seeds_of
from tests.support.divisions import DIVISIONS
from tests.support.pretend_gpu import PretendPool

TABLES = graphs.power_law(80, 11, shuffled_ids=True)
EXISTING = [
    *(Rules(), Rules(replace=True), Rules(expand="all"), Rules(toward_seeds=True), Rules(disjoint=True)),
    *(Rules(weight="weight"), Rules(time="time", disjoint=True), Rules(time="time", disjoint=True, time_window=3)),
    *(Rules(time="time", disjoint=True, last=True), Rules(labor=True), Rules(labor=True, layer_dependency=True)),
    *(Rules(subgraph="induced"), Rules(subgraph="bidirectional")),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Extended(Rules):
    """`Rules` with an option more: nobody but the owner of a list knows that it draws one neighbor only."""

    single: bool = False


@pytest.fixture
def single(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rules]:
    """The option, which the owner honors as the recipe for sampling options says."""
    draw = Topology._draw

    def drawn(self, query, of, pool):
        return draw(self, replace(query, fanout=1) if getattr(of.rules, "single", False) else query, of, pool)

    monkeypatch.setattr(Topology, "_draw", drawn)
    return Extended(single=True)


def test_the_options_that_differ_from_their_defaults():
    assert Rules().changed == Extended().changed == frozenset()
    assert Rules(time="when", disjoint=True, time_window=0).changed == {"time", "disjoint", "time_window"}
    assert Extended(single=True, expand="all").changed == {"single", "expand"}


@pytest.mark.parametrize("options", [near.SUPPORTED, placed.SUPPORTED, replicas.SUPPORTED, vip.SUPPORTED, caps.BOUNDED])
def test_supported_options_are_options(options):
    assert options <= {option.name for option in fields(Rules)}


@pytest.mark.parametrize(("num_parts", "shard_each"), DIVISIONS)
@pytest.mark.parametrize("more", [{}, {"expand": "all"}, {"replace": True}], ids=str)
def test_a_new_option_is_honored_for_every_division(single, num_parts, shard_each, more):
    graph = partitioned(TABLES, num_parts, shard_each=shard_each)
    _, raw = graph.select(None, NODE)
    given = graph, Fanouts.uniform([3, 2], graph.schema), NODE, raw[:9].tolist(), 0, 0
    wanted = sampled(given[0], Fanouts.uniform([1, 1], graph.schema), *given[2:], rules=Rules(**more))
    assert sampled(*given, rules=replace(single, **more)) == wanted


def test_a_gpu_that_does_not_wait_leaves_a_new_option_to_the_general_way(single):
    graph = partitioned(TABLES, 2)
    sampler = NeighborSampler(graph, Fanouts.uniform([3, 2], graph.schema))
    places = bound(sampler, sampler.sample(seeds_of(NODE, [5, 12]))).places()
    device = DeviceGraph(graph, PretendPool(), DeviceOptions(device="cuda:0", mode="cuda"))
    for rules, can in ((Rules(replace=True), True), (single, False)):
        assert (NeighborSampler(device, sampler.fanouts, rules=rules).placed(places) is not None) is can


def test_copies_leave_a_new_option_to_the_owners(tmp_path, single):
    parts = tmp_path / "parts"
    halohop.partition(TABLES, parts, num_parts=2, method="random", halo=("raw_id",))
    halohop.add_replicas(parts, halohop.Replicas(fanouts=[4, 3], batch_size=8, ratio=0.4, lists=True))
    with halohop.open(parts) as graph:
        copies = Replicas(map_replica(parts, read_manifest(parts), 0), graph.schema, graph.book, graph.pool, Counters())
    for rules in (*EXISTING, single):
        found = copies.lists(EDGE, torch.arange(5), Draw(seed=0, epoch=0, batch=0, hop=0, rules=rules))
        assert (found is None) is (rules is single), rules


def test_what_is_computed_of_rules_refuses_a_new_option(single):
    graph = partitioned(TABLES, 1)
    fanouts = Fanouts.uniform([3, 2], graph.schema)
    batches = Batches(node_type=NODE, groups=(torch.arange(9),), batch_size=3)
    with pytest.raises(InputError, match=r"method='vip' does not support \['single'\]; leave them out"):
        vip.inclusion(graph, batches, fanouts, single)
    for rules in EXISTING:
        if rules.changed <= {"replace", "expand", "weight"}:
            vip.inclusion(graph, batches, fanouts, rules)
    sampler = NeighborSampler(graph, fanouts, rules=single)
    with pytest.raises(InputError, match=r"pad does not support \['single'\]; leave them out"):
        bound(sampler, sampler.sample(seeds_of(NODE, [5, 12])))
