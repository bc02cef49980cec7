"""Loaders of a graph on a GPU: the batches of the CPU, bit for bit, in any mode, of every loader."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.sampler import NegativeSampling

import halohop
from halohop.cluster.device import DeviceOptions
from halohop.cluster.graph import Graph
from halohop.errors import InputError
from halohop.pyg.convert import tables_from_pyg
from halohop.testing.worlds import hosts, partitioned
from tests.support.pretend_gpu import PretendTensor, home, pretended

CITES, WRITES, BACK = ("paper", "cites", "paper"), ("author", "writes", "paper"), ("paper", "rev_writes", "author")
THERE = {"device": "cuda:0", "mode": "cuda"}

pytestmark = pytest.mark.usefixtures("pretended_gpu")


def typed_data() -> HeteroData:
    torch.manual_seed(0)
    data, counts = HeteroData(), {"paper": 30, "author": 12, "venue": 1}
    for name, count in counts.items():
        data[name].x, data[name].when = torch.randn(count, 3), torch.randint(100, (count,))
    for relation in (CITES, WRITES, BACK):
        data[relation].edge_index = torch.stack([torch.randint(counts[relation[end]], (90,)) for end in (0, 2)])
        data[relation].time, data[relation].weight = torch.randint(100, (90,)), torch.rand(90)
        data[relation].edge_attr = torch.randn(90, 2).bfloat16()
    return data


def plain_data() -> Data:
    torch.manual_seed(1)
    half = torch.randint(40, (2, 100))
    return Data(x=torch.randn(40, 3), y=torch.arange(40), edge_index=torch.cat([half, half.flip(0)], dim=1))


SOURCES: dict[str, Callable[[], Any]] = {"typed": typed_data, "plain": plain_data}


def around_papers(**options: Any) -> Callable[..., Any]:
    return lambda graph, **how: halohop.NeighborLoader(
        graph, [2, 2], ("paper", torch.arange(24)), **{"batch_size": 16, **options}, **how
    )


def around_links(**options: Any) -> Callable[..., Any]:
    return lambda graph, **how: halohop.LinkNeighborLoader(graph, [2, 2], (CITES, None), **{"batch_size": 50, **options}, **how)


def asked(draws: halohop.records.Draws, seeds: dict[str, Tensor]) -> Data:
    hop = draws.neighbors(seeds, 3)
    rows = draws.rows({"paper": (hop[CITES].src, ["x"])})
    return Data(src=hop[CITES].src, edge_id=hop[CITES].edge_id, x=rows["paper"]["x"], number=draws.number)


def doubled(batch: HeteroData) -> HeteroData:
    batch["paper"].double = batch["paper"].x * 2
    return batch


FULL = pytest.mark.full
LOADERS: dict[str, tuple[str, Callable[..., Any]]] = {
    "uniform": ("typed", around_papers(shuffle=True)),
    "plain": ("plain", lambda graph, **how: halohop.NeighborLoader(graph, [3, 2], None, batch_size=16, shuffle=True, **how)),
    "without ids": ("typed", around_papers(ids=())),
    "ids of edges": ("typed", around_papers(ids=("e_id",), gids=True)),
    "transformed": ("typed", around_papers(transform=doubled)),
    "sampler's output": ("typed", around_papers(transform_sampler_output=lambda output: output)),
    "times": ("typed", around_papers(time_attr="time", input_time=torch.arange(24) + 40)),
    "times of nodes, last": ("typed", around_papers(time_attr="when", temporal_strategy="last")),
    "weights": ("typed", around_papers(weight_attr="weight")),
    "labor": ("typed", around_papers(method="labor")),
    "disjoint": ("typed", around_papers(disjoint=True)),
    "induced": ("typed", around_papers(subgraph_type="induced")),
    "bidirectional": ("typed", around_papers(subgraph_type="bidirectional")),
    "padded": ("typed", around_papers(pad="bound", batch_size=12)),
    "links": ("typed", around_links(edge_label=torch.arange(90))),
    "links, binary": ("typed", around_links(neg_sampling=NegativeSampling("binary", 1.5), exclude_seed_edges=True)),
    "links, strict triplets": ("typed", around_links(neg_sampling="triplet", strict_negatives=True, disjoint=True)),
    "links, padded": ("typed", around_links(pad="bound", neg_sampling="binary", batch_size=45)),
    "subgraphs": ("typed", lambda graph, **how: halohop.SubGraphLoader(graph, [2], ("paper", None), batch_size=16, **how)),
    "HGT": ("typed", lambda graph, **how: halohop.HGTLoader(graph, [4, 3], ("paper", None), batch_size=16, **how)),
    "clusters": ("typed", lambda graph, **how: halohop.ClusterLoader(graph, 4, batch_size=2, shuffle=True, **how)),
    "PPR": ("plain", lambda graph, **how: halohop.PPRLoader(graph, 5, torch.arange(16), batch_size=8, **how)),
    "SAINT, nodes": ("plain", lambda graph, **how: halohop.GraphSAINTNodeSampler(graph, 10, num_steps=2, **how)),
    "SAINT, edges": ("plain", lambda graph, **how: halohop.GraphSAINTEdgeSampler(graph, 6, num_steps=2, **how)),
    "SAINT, walks": ("plain", lambda graph, **how: halohop.GraphSAINTRandomWalkSampler(graph, 4, 3, num_steps=2, **how)),
}
REPEATED = ("disjoint", "links", "links, padded", "SAINT, nodes", "SAINT, edges", "labor", "times", "without ids")
"""What others show already."""


def assert_equal(there: Any, here: Any) -> None:
    """Every attribute: tensors lie on the device and hold what the CPU's hold."""
    stores = list(zip(there.stores, here.stores, strict=True))
    assert stores
    for one, other in stores:
        assert list(one.keys()) == list(other.keys())
        for key, value in other.items():
            found = one[key]
            if isinstance(value, Tensor):
                assert found.is_cuda, key
                assert found.dtype == value.dtype, key
                assert torch.equal(home(found), value), key
            else:
                assert found == value, key


def assert_same_batches(there: Any, here: list[Any]) -> None:
    found = list(there)
    assert len(found) == len(here) > 1
    for one, other in zip(found, here, strict=True):
        assert_equal(one, other)


@pytest.mark.parametrize("name", [pytest.param(name, marks=[FULL] * (name in REPEATED)) for name in LOADERS])
def test_batches_of_every_loader_are_those_of_the_cpu(name: str) -> None:
    source, make = LOADERS[name]
    graph = partitioned(tables_from_pyg(SOURCES[source]()), 2)
    here = list(make(graph, run="inline", seed=3))
    graph.use_device(DeviceOptions(device="cuda:0", mode="cuda"))
    assert_same_batches(make(graph, run="inline", seed=3), here)


@pytest.mark.parametrize("mode", ["cpu", "zero_copy", "cuda"])
@pytest.mark.parametrize("num_parts", [1, pytest.param(4, marks=FULL)])
def test_any_mode_and_number_of_threads(mode: Any, num_parts: int) -> None:
    graph = partitioned(tables_from_pyg(typed_data()), num_parts)
    make = around_papers(shuffle=True, seed=3)
    here = list(make(graph, run="inline"))
    graph.use_device(DeviceOptions(device="cuda:0", mode=mode, feature_cache=300))
    there = make(graph, run="threads", num_workers=2)
    assert_same_batches(there, here)
    assert there.statistics()["device_sample_seconds"] > 0
    assert there.statistics()["device_gather_seconds"] > 0


@pytest.mark.parametrize("name", ["links, binary", "padded"])
def test_lists_of_the_host(name: str) -> None:
    graph, make = partitioned(tables_from_pyg(typed_data()), 2), LOADERS[name][1]
    here = list(make(graph, run="inline", seed=3))
    graph.use_device(DeviceOptions(device="cuda:0", mode="cpu"))
    assert_same_batches(make(graph, run="inline", seed=3), here)


@pytest.mark.parametrize("name", ["uniform", "bidirectional", "padded"])
@pytest.mark.parametrize("moved", [False, True])
def test_a_graph_of_pyg_has_columns_where_its_user_puts_them(name: str, moved: bool) -> None:
    data, make = typed_data(), LOADERS[name][1]
    here = list(make(data, run="inline", seed=3))
    if moved:  # as of data.to(device, "x")
        for store in data.node_stores:
            store.x = pretended(store.x)
    graph = halohop.graph(data, **THERE)
    before = graph.on_device.statistics().get("device_waits", 0)
    found = list(make(graph, run="inline", seed=3))
    for one, other in zip(found, here, strict=True):
        assert_equal(one, other)
    assert (graph.on_device.statistics()["device_waits"] - before) / len(found) < 40


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("padded", "zero_copy"),
        ("links, padded", "cuda"),
        pytest.param("padded", "cuda", marks=FULL),
        pytest.param("links, padded", "zero_copy", marks=FULL),
    ],
)
def test_for_padded_batches_of_bounded_size_the_host_does_not_wait(name: str, mode: Any) -> None:
    graph = partitioned(tables_from_pyg(typed_data()), 2)
    graph.use_device(DeviceOptions(device="cuda:0", mode=mode))
    batches = iter(LOADERS[name][1](graph, run="inline", seed=3))
    before = graph.on_device.statistics().get("device_waits", 0)
    assert len([next(batches), next(batches)]) == 2
    assert graph.on_device.statistics().get("device_waits", 0) == before


def test_a_batch_with_more_than_its_places_is_refused_by_its_number() -> None:
    graph = partitioned(tables_from_pyg(plain_data()), 2)
    graph.use_device(DeviceOptions(device="cuda:0", mode="cuda"))
    pad = halohop.records.Padding(caps="bound", nodes=[16, 3, 40])
    loader = halohop.NeighborLoader(graph, [3, 2], torch.arange(20), batch_size=10, pad=pad, run="inline")
    with pytest.raises(
        InputError, match=r"^batch 0 of epoch 0: \d+ nodes or edges are more than the padded batch has places for"
    ):
        next(iter(loader))


def test_ids_are_brought_to_the_host_once_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    data = typed_data()
    data["paper"].more, data["author"].more = torch.randn(30, 2), torch.randn(12, 2)
    graph = halohop.graph(data, **THERE)
    brought, bring = [], graph.on_device.pool.bring
    monkeypatch.setattr(graph.on_device.pool, "bring", lambda tensor: brought.append(tensor) or bring(tensor))
    assert len(list(around_papers()(graph, run="inline"))) == 2
    assert len(brought) == 2


@pytest.mark.parametrize("mode", ["cpu", "cuda"])
def test_a_graph_of_several_hosts(tmp_path: Path, mode: Any) -> None:
    halohop.partition(typed_data(), tmp_path / "parts", num_parts=2, method="random")
    make = around_papers(shuffle=True, seed=3)
    with hosts(tmp_path / "parts", [[0], [1]]) as (first, _):
        here = list(make(first, run="inline"))
        first.use_device(DeviceOptions(device="cuda:0", mode=mode))
        assert_same_batches(make(first, run="threads", num_workers=2), here)


AFAR = ("links, strict triplets", "times")
AFAR_TOO = (
    *("links, binary", "links, padded", "padded", "disjoint", "induced", "bidirectional"),
    *("subgraphs", "HGT", "clusters", "PPR", "SAINT, edges", "SAINT, walks"),
)


@pytest.mark.parametrize("name", [*AFAR, *(pytest.param(name, marks=FULL) for name in AFAR_TOO)])
def test_loaders_of_a_graph_of_several_hosts(name: str, tmp_path: Path) -> None:
    """Of four partitions each host has two."""
    source, make = LOADERS[name]
    halohop.partition(SOURCES[source](), tmp_path / "parts", num_parts=4, method="random")
    with hosts(tmp_path / "parts", [[0, 2], [1, 3]]) as (first, _):
        here = list(make(first, run="inline", seed=3))
        first.use_device(DeviceOptions(device="cuda:0", mode="cuda", feature_cache=300))
        assert_same_batches(make(first, run="inline", seed=3), here)


def test_rows_of_tables_lie_on_the_device(tmp_path: Path) -> None:
    halohop.partition(typed_data(), tmp_path / "parts", num_parts=2, method="random")
    with halohop.open(tmp_path / "parts") as graph:
        state = halohop.DistTensor(graph, (None, 2), name="state", node_type="paper")
        state[torch.arange(30)] = torch.randn(30, 2)
        options = {"node_columns": {"paper": ["x", "state"]}}
        here = list(around_papers(**options)(graph, run="inline", seed=3))
        graph.use_device(DeviceOptions(device="cuda:0", mode="cuda"))
        assert_same_batches(around_papers(**options)(graph, run="threads", num_workers=2, seed=3), here)


def test_of_a_function_the_host_makes_the_batches() -> None:
    def make(graph: Graph) -> list[Any]:
        loader = halohop.FunctionLoader(graph, asked, {"paper": torch.arange(24)}, batch_size=16, run="inline")
        return [batch.to_dict() for batch in loader]

    graph = partitioned(tables_from_pyg(typed_data()), 2)
    here = make(graph)
    graph.use_device(DeviceOptions(device="cuda:0", mode="cuda"))
    for one, other in zip(make(graph), here, strict=True):
        assert all(torch.equal(one[key], other[key]) for key in ("src", "edge_id", "x"))


def test_processes_make_no_batches_on_a_device() -> None:
    graph: Graph = halohop.graph(plain_data(), **THERE)
    with pytest.raises(InputError, match="run='processes' makes no batches on cuda:0"):
        halohop.NeighborLoader(graph, [2], None, run="processes", num_workers=1)


def test_what_the_fixture_makes_is_pretended() -> None:
    graph = halohop.graph(plain_data(), **THERE)
    (batch, *_) = halohop.NeighborLoader(graph, [2], torch.arange(3), run="inline")
    assert isinstance(batch.x, PretendTensor)
