"""The one hop loop on a GPU: the batches of the CPU, bit for bit. In Triton's interpreter, on a GPU that is pretended."""

import re
from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import halohop
from halohop.cluster.device import DeviceGraph, DeviceOptions, Mode
from halohop.cluster.graph import Graph
from halohop.errors import InputError
from halohop.sampling import subgraph
from halohop.sampling.batch import AnySeeds, Batch, NodeSet, Seeds
from halohop.sampling.collect import collect
from halohop.sampling.exclusion import SeedEdges
from halohop.sampling.fanouts import Fanouts
from halohop.sampling.link_seeds import LinkSeeds
from halohop.sampling.neighbor import NeighborSampler
from halohop.store.draw import Rules
from halohop.store.tables import GraphTables
from halohop.telemetry import Counters
from halohop.testing import graphs
from halohop.testing.worlds import partitioned
from halohop.typing import EDGE, NODE
from tests.support.pretend_gpu import any_pool

pytestmark = pytest.mark.full  # tests/pyg/test_on_device.py runs the same loop under every loader


def on_device(graph: Graph, mode: Mode = "cuda") -> DeviceGraph:
    return DeviceGraph(graph, any_pool(Counters()), DeviceOptions(device="cuda", mode=mode, feature_cache=1000))


def assert_same(there: Any, here: Any, path: str = "batch") -> None:
    """All tensors of a record are on the device, and hold what those of the CPU's do."""
    if isinstance(here, Tensor):
        assert there.is_cuda, path
        assert there.dtype == here.dtype, path
        assert torch.equal(there.cpu(), here), path
    elif is_dataclass(here):
        for field in fields(here):
            assert_same(getattr(there, field.name), getattr(here, field.name), f"{path}.{field.name}")
    elif isinstance(here, dict):
        assert list(there) == list(here), path
        for key, value in here.items():
            assert_same(there[key], value, f"{path}[{key!r}]")
    elif isinstance(here, tuple):
        assert len(there) == len(here), path
        for number, (one, other) in enumerate(zip(there, here, strict=True)):
            assert_same(one, other, f"{path}[{number}]")
    else:
        assert there == here, path


def check(graph: Graph, fanout: list[int], rules: Rules, *all_seeds: AnySeeds, mode: Mode = "cuda") -> Batch:
    """Compares batches with their rows; the tables of the first are used again for the others. Returns the last."""
    device, fanouts = on_device(graph, mode), Fanouts.uniform(fanout, graph.schema)
    far = NeighborSampler(device, fanouts, seed=3, rules=rules, edge_ids=True)
    near = NeighborSampler(graph, fanouts, seed=3, rules=rules, edge_ids=True)
    for seeds in all_seeds:
        batch = near.sample(seeds)
        found = far.sample(seeds)
        assert_same(found, batch)
        assert_same(collect(device, found), collect(graph, batch))
    device.pool.check()
    return batch


def seeds_of(node_type: str, gid: list[int], index: int = 0, time: Tensor | None = None) -> Seeds:
    gids = torch.tensor(gid, dtype=torch.int64)
    return Seeds(node_type=node_type, gid=gids, input_id=torch.arange(len(gid)), epoch=1, index=index, time=time)


PLAIN = graphs.power_law(60, 9, shuffled_ids=True)
LONELY = graphs.isolated(10)
TYPED = graphs.typed(
    {"paper": 40, "author": 25, "lonely": 3, "none": 0},
    {
        ("author", "writes", "paper"): 120,
        ("paper", "rev_writes", "author"): 60,
        ("paper", "cites", "paper"): 150,
        ("author", "reads", "paper"): 0,
        ("none", "is", "paper"): 0,
        ("paper", "rev_is", "none"): 0,
        ("paper", "rev_reads", "author"): 0,
    },
)
RULES = {
    "new": Rules(),
    "all": Rules(expand="all"),
    "disjoint": Rules(disjoint=True),
    "disjoint all": Rules(disjoint=True, expand="all"),
    "replace": Rules(replace=True),
    "toward seeds": Rules(toward_seeds=True),
    "induced": Rules(subgraph="induced"),
    "induced disjoint": Rules(subgraph="induced", disjoint=True),
    "bidirectional": Rules(subgraph="bidirectional"),
    "bidirectional disjoint": Rules(subgraph="bidirectional", disjoint=True),
}


def few_of(names: Iterable[str], *few: str) -> list[Any]:
    """All names; those that are not among the few are for the full run."""
    return [name if name in few else pytest.param(name, marks=pytest.mark.full) for name in names]


@pytest.mark.parametrize("num_parts", [pytest.param(1, marks=pytest.mark.full), 3])
@pytest.mark.parametrize("rules", RULES)
def test_batches_of_one_type(rules: str, num_parts: int) -> None:
    graph = partitioned(PLAIN, num_parts)
    all_seeds = [seeds_of(NODE, raw, index) for index, raw in enumerate(([5, 17, 5, 40], [], [2]))]
    batch = check(graph, [4, 3], RULES[rules], *all_seeds)
    assert batch.num_edges > 3


@pytest.mark.parametrize("rules", few_of(RULES, "disjoint", "replace", "induced disjoint", "bidirectional"))
def test_batches_of_several_types(rules: str) -> None:
    graph = partitioned(TYPED, 2)
    batch = check(graph, [3, 2], RULES[rules], seeds_of("paper", [5, 17, 5]))
    assert sum(block.num_edges > 0 for block in batch.edges.values()) >= 3


@pytest.mark.parametrize(
    "rules", ["new", *(pytest.param(name, marks=pytest.mark.full) for name in ("disjoint", "bidirectional"))]
)
@pytest.mark.parametrize("fanout", [[-1, -1], [40], [2, 0, 2], []], ids=str)
def test_fanouts(rules: str, fanout: list[int]) -> None:
    graph = partitioned(PLAIN, 2)
    check(graph, fanout, RULES[rules], seeds_of(NODE, [5, 17]))


@pytest.mark.parametrize("rules", ["new", "replace", "disjoint", "induced", "bidirectional"])
def test_nodes_without_neighbours(rules: str) -> None:
    graph = partitioned(LONELY, 2)
    batch = check(graph, [2, 2], RULES[rules], seeds_of(NODE, [9, 0, 9, 4]))
    assert 9 in batch.nodes[NODE].gid.tolist()


@pytest.mark.parametrize("rules", ["new", "disjoint", "induced"])
def test_lists_in_memory_of_the_host(rules: str) -> None:
    check(partitioned(TYPED, 3), [3, -1], RULES[rules], seeds_of("paper", [5, 17, 5]), mode="zero_copy")


def test_a_set_of_nodes() -> None:
    graph = partitioned(TYPED, 2)
    gid = {"paper": torch.tensor([3, 8, 30]), "author": torch.tensor([24, 0])}
    check(graph, [], Rules(subgraph="induced"), NodeSet(gid=gid, epoch=0, index=2))


def test_induced_subgraphs_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subgraph, "_FIRST_SLICE", 3)
    monkeypatch.setattr(subgraph, "_EDGES_PER_SLICE", 20)
    graph = partitioned(PLAIN, 2)
    check(graph, [4, 3], Rules(subgraph="induced"), seeds_of(NODE, [5, 17, 5, 40]))


TIMES = {
    "past": Rules(disjoint=True, time="time"),
    "window": Rules(disjoint=True, time="time", time_window=5),
    "last": Rules(disjoint=True, time="time", last=True),
    "replace": Rules(disjoint=True, time="time", replace=True),
}


@pytest.mark.parametrize("rules", few_of(TIMES, "window", "last"))
@pytest.mark.parametrize("of_nodes", [False, True])
def test_times_of_edges_and_nodes(rules: str, of_nodes: bool) -> None:
    edges, nodes = {}, {}
    for relation, table in TYPED.edges.items():
        column = {} if of_nodes else {"time": torch.arange(table.num_edges) * 7 % 20}
        edges[relation] = replace(table, columns=table.columns | column)
    for name, known in TYPED.nodes.items():
        column = {"time": torch.arange(known.num_nodes) * 7 % 20} if of_nodes else {}
        nodes[name] = replace(known, columns=known.columns | column)
    graph = partitioned(replace(TYPED, nodes=nodes, edges=edges), 2)
    check(graph, [3, 2], TIMES[rules], seeds_of("paper", [5, 17, 5], time=torch.tensor([12, 19, 3])))


WEIGHTS = {
    "weights": Rules(weight="weight"),
    "replace": Rules(weight="weight", replace=True),
    "disjoint": Rules(weight="weight", disjoint=True),
    "labor": Rules(weight="weight", labor=True),
    "labor, disjoint": Rules(weight="weight", labor=True, disjoint=True),
    "past": Rules(weight="weight", disjoint=True, time="time"),
}


def weighted(tables: GraphTables) -> GraphTables:
    """With a third of the weights 0; one relation of several has none."""
    generator = torch.Generator().manual_seed(7)
    edges = {}
    for relation, table in tables.edges.items():
        weight = torch.rand(table.num_edges, generator=generator) ** 4 * (torch.arange(table.num_edges) % 3)
        columns = table.columns | {"weight": weight, "time": torch.arange(table.num_edges) * 7 % 20}
        if relation == ("paper", "rev_writes", "author"):
            del columns["weight"]
        edges[relation] = replace(table, columns=columns)
    return replace(tables, edges=edges)


@pytest.mark.parametrize("num_parts", [pytest.param(1, marks=pytest.mark.full), 4])
@pytest.mark.parametrize("rules", few_of(WEIGHTS, "weights", "labor", "past"))
def test_weights(rules: str, num_parts: int) -> None:
    graph = partitioned(weighted(TYPED), num_parts)
    times = torch.tensor([12, 19, 3]) if WEIGHTS[rules].time else None
    batch = check(graph, [3, 2], WEIGHTS[rules], seeds_of("paper", [5, 17, 5], time=times))
    assert batch.num_edges > 2


@pytest.mark.parametrize(("mode", "stored"), [("cuda", True), ("zero_copy", False)])
def test_sums_of_weights_are_moved_or_formed(tmp_path: Path, mode: Mode, stored: bool) -> None:
    """Where batches first need them; a byte for each edge, and 8 for each node."""
    tables = weighted(PLAIN)
    halohop.partition(tables, tmp_path / "parts", num_parts=2, method="random", weight_sums=["weight"] if stored else [])
    with halohop.open(tmp_path / "parts") as graph:
        check(graph, [4, -1], Rules(weight="weight"), seeds_of(NODE, [5, 17, 5, 40]), mode=mode)
        device = on_device(graph, mode)
        lists = device._lists.of(EDGE, edge_ids=False)  # type: ignore[union-attr]
        sums = lists.weight_sums["weight"]
        assert sums is lists.weight_sums["weight"]
        assert sum(tensor.nbytes for tensor in sums.sums.tensors) <= tables.edges[EDGE].num_edges + 8 * 60  # type: ignore[union-attr]
        assert ("weight" in graph.router.only_shard.topologies[EDGE].weight_sums) == stored  # type: ignore[union-attr]


@pytest.mark.parametrize(("labor", "num_parts"), [(False, 2), (True, 1)])
def test_an_impossible_weight_is_named_as_the_cpu_names_it(labor: bool, num_parts: int) -> None:
    """By the user's id of the edge, at once; in a list that is not drawn from it is no error."""
    table, wrong = PLAIN.edges[EDGE], 100
    weight = torch.ones(table.num_edges)
    weight[wrong] = -1
    graph = partitioned(replace(PLAIN, edges={EDGE: replace(table, columns={"weight": weight})}), num_parts)
    ids = PLAIN.nodes[NODE].raw_id
    assert ids is not None
    (hit,) = graph.locate(ids[table.dst[wrong : wrong + 1]]).tolist()
    device, rules = on_device(graph), Rules(weight="weight", labor=labor)
    near, far = (NeighborSampler(one, Fanouts.uniform([3], graph.schema), rules=rules) for one in (graph, device))
    assert far.sample(seeds_of(NODE, [gid for gid in range(6) if gid != hit])).num_edges > 0
    words = f"edge {wrong} of {EDGE} has the weight -1 in 'weight'; a weight is a finite number, 0 or more: correct it, or leave"
    for sampler in (near, far):
        with pytest.raises(InputError, match=re.escape(words)):
            sampler.sample(seeds_of(NODE, [hit]))


@pytest.mark.parametrize("rules", [Rules(), Rules(disjoint=True), Rules(weight="weight")], ids=["plain", "disjoint", "weights"])
def test_excluded_edges_are_not_drawn(rules: Rules) -> None:
    graph = partitioned(PLAIN, 3)
    links = SeedEdges(graph=graph, relation=EDGE, reverse=None)(some_edges(graph))
    assert len(links.excluded[EDGE]) >= 3
    check(graph, [4, 2], rules, links)


def some_edges(graph: Graph) -> LinkSeeds:
    """Links that are edges of the graph."""
    batch = NeighborSampler(graph, Fanouts.uniform([2], graph.schema)).sample(seeds_of(NODE, [5, 17, 40]))
    src, dst = (batch.nodes[NODE].gid[bids] for bids in batch.edges[EDGE].ends_bid)
    return LinkSeeds(relation=EDGE, src_gid=src, dst_gid=dst, input_id=torch.arange(len(src)), epoch=0, index=1)


def links_of(relation: tuple[str, str, str], *, triplet: bool = False) -> LinkSeeds:
    ends = {"src_gid": torch.tensor([1, 2, 3, 0]), "dst_gid": torch.tensor([0, 2, 1, 1])}
    if triplet:
        ends = {"src_gid": torch.tensor([1, 2]), "dst_gid": torch.tensor([0, 2, 1, 1, 7, 9])}
    return LinkSeeds(relation=relation, **ends, input_id=torch.tensor([8, 9]), epoch=0, index=1, triplet=triplet)


@pytest.mark.parametrize(("triplet", "disjoint"), [(False, False), (True, True)])
def test_links(triplet: bool, disjoint: bool) -> None:
    plain, typed, writes = partitioned(PLAIN, 2), partitioned(TYPED, 1), ("author", "writes", "paper")
    check(plain, [3, 2], Rules(disjoint=disjoint), links_of(EDGE, triplet=triplet))
    check(typed, [3, 2], Rules(disjoint=disjoint), links_of(writes, triplet=triplet))


def test_the_host_waits_for_sizes_only() -> None:
    """In a hop, for the number of neighbours of each relation, and once for the nodes of all types."""
    graph = partitioned(TYPED, 2)
    device = on_device(graph)
    sampler = NeighborSampler(device, Fanouts.uniform([3, 2, 2], graph.schema))
    before = device.pool.counters.snapshot().get("device_waits", 0)
    batch = sampler.sample(seeds_of("paper", [5, 17, 5]))
    waits = device.pool.counters.snapshot()["device_waits"] - before
    asked = sum(3 if name == "paper" else 2 for _, _, name in graph.schema.edges if name != "none")
    assert sum(batch.nodes["author"].num_sampled or ()) > 0
    assert waits <= asked + 3
