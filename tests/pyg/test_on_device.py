"""Loaders of a graph on a GPU: the batches of the CPU, bit for bit, in any mode, in order, from any number of threads."""

from typing import Any

import pytest
import torch
from torch import Tensor

import halohop
from halohop.cluster.device import DeviceOptions
from halohop.cluster.graph import Graph
from halohop.errors import InputError
from halohop.store.requests import FetchRequest, RowQuery
from halohop.testing import graphs
from halohop.testing.worlds import partitioned
from halohop.typing import RAW_ID
from tests.support.pretend_gpu import home

RUNS: list[dict[str, Any]] = [{"run": "inline"}, {"run": "threads", "num_workers": 2}]
TYPED = ({"a": 50, "b": 20}, {("a", "to", "b"): 150, ("b", "rev_to", "a"): 120})
OPTIONS: dict[str, Any] = {"batch_size": 11, "shuffle": True, "seed": 3}

pytestmark = pytest.mark.usefixtures("pretended_gpu")


def graph_of(kind: str, num_parts: int) -> Graph:
    tables = graphs.power_law(40, 4, dim=3) if kind == "homogeneous" else graphs.typed(*TYPED, dim=3)
    return partitioned(tables, num_parts)


def nodes_of(graph: Graph, **options: Any) -> Any:
    nodes = None if graph.schema.is_homogeneous else ("b", None)
    return halohop.NeighborLoader(graph, [3, 2], nodes, **{**OPTIONS, **options})


def raw_ids(graph: Graph, node_type: str) -> Tensor:
    gid, _ = graph.select(None, node_type)
    ((raw,),) = graph.fetch(FetchRequest(queries=(RowQuery(table=node_type, columns=(RAW_ID,), gid=gid),)))
    return raw


def links_of(graph: Graph, **options: Any) -> Any:
    relation = next(iter(graph.schema.edges))
    ends = [raw_ids(graph, relation[end])[:15] for end in (0, 2)]
    edges = relation, torch.stack([ends[0], ends[1].flip(0)])
    return halohop.LinkNeighborLoader(graph, [3, 2], edges, **{**OPTIONS, **options})


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


@pytest.mark.parametrize("mode", ["cpu", "zero_copy", "cuda"])
@pytest.mark.parametrize(("kind", "num_parts"), [("homogeneous", 1), ("homogeneous", 4), ("typed", 4)])
def test_batches_are_those_of_the_cpu(kind: str, num_parts: int, mode: Any) -> None:
    graph = graph_of(kind, num_parts)
    here = list(nodes_of(graph, run="inline"))
    graph.use_device(DeviceOptions(device="cuda:0", mode=mode))
    for run in RUNS:
        there = nodes_of(graph, **run)
        assert_same_batches(there, here)
        statistics = there.statistics()
        assert statistics["device_sample_seconds"] > 0
        assert statistics["device_gather_seconds"] > 0


@pytest.mark.parametrize("kind", ["homogeneous", "typed"])
@pytest.mark.parametrize("negatives", [None, "binary", "triplet"])
def test_links_are_those_of_the_cpu(kind: str, negatives: Any) -> None:
    graph = graph_of(kind, 4)
    options = {"neg_sampling": negatives, **({"edge_label": torch.arange(15)} if negatives != "triplet" else {})}
    here = list(links_of(graph, run="inline", **options))
    graph.use_device(DeviceOptions(device="cuda:0", mode="cuda"))
    assert_same_batches(links_of(graph, run="threads", num_workers=2, **options), here)


@pytest.mark.parametrize("make", [nodes_of, links_of])
@pytest.mark.parametrize("mode", ["cpu", "cuda"])
def test_padded_batches_are_those_of_the_cpu(make: Any, mode: Any) -> None:
    graph = graph_of("typed", 1)
    options = {"pad": "bound"}
    here = list(make(graph, run="inline", **options))
    graph.use_device(DeviceOptions(device="cuda:0", mode=mode))
    assert_same_batches(make(graph, run="inline", **options), here)


def test_processes_make_no_batches_on_a_device() -> None:
    graph = graph_of("homogeneous", 1)
    graph.use_device(DeviceOptions(device="cuda:0"))
    with pytest.raises(InputError, match="run='processes' makes no batches on cuda:0"):
        nodes_of(graph, run="processes", num_workers=1)
