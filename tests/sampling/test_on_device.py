"""The one hop loop on a GPU: the batches of the CPU, bit for bit. In Triton's interpreter, on a GPU that is pretended."""

from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from halohop import ops
from halohop.cluster.graph import Graph
from halohop.ops.device_pieces import DevicePieces
from halohop.sampling import subgraph
from halohop.sampling.batch import AnySeeds, Batch, NodeSet, Seeds
from halohop.sampling.fanouts import Fanouts
from halohop.sampling.link_seeds import LinkSeeds
from halohop.sampling.neighbor import NeighborSampler
from halohop.store.draw import Rules
from halohop.store.requests import SampleReply, SampleRequest
from halohop.store.topology import Topology
from halohop.telemetry import Counters
from halohop.testing import graphs
from halohop.testing.worlds import partitioned
from halohop.typing import EDGE, NODE
from tests.support.pretend_gpu import PretendPool, home


class OnDevice:
    """What a sampler asks of a graph, answered from arrays on the pretended GPU."""

    def __init__(self, graph: Graph) -> None:
        self.pool = PretendPool(Counters())
        self.schema, self.book, self.counters = graph.schema, graph.book, graph.counters
        self.identities, self.narrow_tables, self.topologies = graph.identities, graph.narrow_tables, None
        assert graph.topologies is not None
        self._lists = {relation: self._moved(topology) for relation, topology in graph.topologies.items()}

    def sample(self, request: SampleRequest) -> SampleReply:
        return SampleReply(
            answers=tuple(
                self._lists[query.relation].sample(query, request.draw, self.pool, self.counters) for query in request.queries
            )
        )

    def _moved(self, topology: Topology) -> Topology:
        moved = {}
        for field in fields(topology):
            value = getattr(topology, field.name)
            if isinstance(value, ops.Pieces):
                moved[field.name] = self._put(value)
            elif field.name in ("columns", "halo", "src_columns"):
                moved[field.name] = {name: self._put(pieces) for name, pieces in value.items()}
        return replace(topology, **moved, weight_sums={})

    def _put(self, pieces: ops.Pieces) -> DevicePieces:
        return DevicePieces.of(pieces, self.pool, on_device=True)


def assert_same(there: Any, here: Any, path: str = "batch") -> None:
    """All tensors of a record are on the device, and hold what those of the CPU's do."""
    if isinstance(here, Tensor):
        assert there.is_cuda, path
        assert there.dtype == here.dtype, path
        assert torch.equal(home(there), here), path
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


def check(graph: Graph, fanout: list[int], rules: Rules, *all_seeds: AnySeeds, edge_ids: bool = True) -> tuple[Batch, OnDevice]:
    """Compares batches, of which the tables of the first are used again for the others."""
    device, fanouts = OnDevice(graph), Fanouts.uniform(fanout, graph.schema)
    far = NeighborSampler(device, fanouts, seed=3, rules=rules, edge_ids=edge_ids)  # type: ignore[arg-type]
    near = NeighborSampler(graph, fanouts, seed=3, rules=rules, edge_ids=edge_ids)
    for seeds in all_seeds:
        batch = near.sample(seeds)
        assert_same(far.sample(seeds), batch)
    device.pool.check()
    return batch, device


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


@pytest.mark.parametrize("num_parts", [1, 3])
@pytest.mark.parametrize("rules", RULES)
def test_batches_of_one_type(rules: str, num_parts: int) -> None:
    graph = partitioned(PLAIN, num_parts)
    all_seeds = [seeds_of(NODE, raw, index) for index, raw in enumerate(([5, 17, 5, 40], [], [2]))]
    batch, _ = check(graph, [4, 3], RULES[rules], *all_seeds)
    assert batch.num_edges > 3


@pytest.mark.parametrize("rules", RULES)
def test_batches_of_several_types(rules: str) -> None:
    graph = partitioned(TYPED, 2)
    batch, _ = check(graph, [3, 2], RULES[rules], seeds_of("paper", [5, 17, 5]))
    assert sum(block.num_edges > 0 for block in batch.edges.values()) >= 3


@pytest.mark.parametrize("rules", ["new", "disjoint", "induced", "bidirectional"])
@pytest.mark.parametrize("fanout", [[-1, -1], [40], [2, 0, 2], []], ids=str)
def test_fanouts(rules: str, fanout: list[int]) -> None:
    graph = partitioned(PLAIN, 2)
    check(graph, fanout, RULES[rules], seeds_of(NODE, [5, 17]))


@pytest.mark.parametrize("rules", ["new", "replace", "disjoint", "induced", "bidirectional"])
def test_nodes_without_neighbours(rules: str) -> None:
    graph = partitioned(LONELY, 2)
    batch, _ = check(graph, [2, 2], RULES[rules], seeds_of(NODE, [9, 0, 9, 4]))
    assert 9 in batch.nodes[NODE].gid.tolist()


def test_a_set_of_nodes() -> None:
    graph = partitioned(TYPED, 2)
    gid = {"paper": torch.tensor([3, 8, 30]), "author": torch.tensor([24, 0])}
    check(graph, [], Rules(subgraph="induced"), NodeSet(gid=gid, epoch=0, index=2))


def test_induced_subgraphs_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subgraph, "_FIRST_SLICE", 3)
    monkeypatch.setattr(subgraph, "_EDGES_PER_SLICE", 20)
    graph = partitioned(PLAIN, 2)
    check(graph, [4, 3], Rules(subgraph="induced"), seeds_of(NODE, [5, 17, 5, 40]))


def links_of(relation: tuple[str, str, str], *, triplet: bool = False) -> LinkSeeds:
    ends = {"src_gid": torch.tensor([1, 2, 3, 0]), "dst_gid": torch.tensor([0, 2, 1, 1])}
    if triplet:
        ends = {"src_gid": torch.tensor([1, 2]), "dst_gid": torch.tensor([0, 2, 1, 1, 7, 9])}
    return LinkSeeds(relation=relation, **ends, input_id=torch.tensor([8, 9]), epoch=0, index=1, triplet=triplet)


@pytest.mark.parametrize("triplet", [False, True])
@pytest.mark.parametrize("disjoint", [False, True])
def test_links(triplet: bool, disjoint: bool) -> None:
    plain, typed, writes = partitioned(PLAIN, 2), partitioned(TYPED, 1), ("author", "writes", "paper")
    check(plain, [3, 2], Rules(disjoint=disjoint), links_of(EDGE, triplet=triplet))
    check(typed, [3, 2], Rules(disjoint=disjoint), links_of(writes, triplet=triplet))


def test_the_host_waits_for_sizes_only() -> None:
    """In a hop, for the number of neighbours of each relation, and once for the nodes of all types."""
    graph = partitioned(TYPED, 2)
    device = OnDevice(graph)
    sampler = NeighborSampler(device, Fanouts.uniform([3, 2, 2], graph.schema))  # type: ignore[arg-type]
    before = device.pool.counters.snapshot().get("device_waits", 0)
    batch = sampler.sample(seeds_of("paper", [5, 17, 5]))
    waits = device.pool.counters.snapshot()["device_waits"] - before
    asked = sum(3 if name == "paper" else 2 for _, _, name in graph.schema.edges if name != "none")
    assert sum(batch.nodes["author"].num_sampled or ()) > 0
    assert waits <= asked + 3
