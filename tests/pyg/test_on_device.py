"""Loaders of a graph on a GPU: the batches of the CPU, bit for bit, in any mode, in order, from any number of threads."""

from typing import Any

import pytest
import torch
from torch import Tensor

import halohop
from halohop.cluster.graph import Graph
from halohop.testing import graphs
from halohop.testing.worlds import partitioned
from tests.support.pretend_gpu import home
from tests.support.pretended import on_pretended

MODES = ["cpu", "zero_copy", "cuda"]
RUNS: list[dict[str, Any]] = [{"run": "inline"}, {"run": "threads", "num_workers": 2}]
TYPED = ({"a": 50, "b": 20}, {("a", "to", "b"): 150, ("b", "rev_to", "a"): 120})


def graph_of(kind: str, num_parts: int) -> Graph:
    tables = graphs.power_law(60, 4, dim=3) if kind == "homogeneous" else graphs.typed(*TYPED, dim=3)
    return partitioned(tables, num_parts)


def loader_of(graph: Graph, task: str, **options: Any) -> Any:
    kind = "homogeneous" if graph.schema.is_homogeneous else "typed"
    options = {"batch_size": 7, "shuffle": True, "seed": 3} | options
    if task == "nodes":
        nodes = torch.arange(20) if kind == "homogeneous" else ("b", torch.arange(20))
        given = graph.select(None, "b" if kind == "typed" else "node")[0]
        nodes = None if kind == "homogeneous" else ("b", None)
        assert len(given)
        return halohop.NeighborLoader(graph, [3, 2], nodes, **options)
    raise AssertionError(task)


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


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("num_parts", [1, 4])
@pytest.mark.parametrize("kind", ["homogeneous", "typed"])
def test_batches_are_those_of_the_cpu(kind: str, num_parts: int, mode: str) -> None:
    graph = graph_of(kind, num_parts)
    here = list(loader_of(graph, "nodes", run="inline"))
    with on_pretended(graph, mode=mode):
        for run in RUNS:
            there = loader_of(graph, "nodes", **run)
            found = list(there)
            assert len(found) == len(here) > 1
            for one, other in zip(found, here, strict=True):
                assert_equal(one, other)
            statistics = there.statistics()
            assert statistics["device_sample_seconds"] > 0
            assert statistics["device_gather_seconds"] > 0
