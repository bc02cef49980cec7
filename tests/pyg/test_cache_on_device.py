"""Rows of a PyG object, of which a GPU keeps some and reads the others by itself, as long as they are what they were."""

import pickle
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

import halohop
from halohop.errors import InputError
from tests.support.pretend_gpu import PretendPool, home

pytestmark = pytest.mark.usefixtures("pretended_gpu")

OPTIONS: dict[str, Any] = {"batch_size": 10, "seed": 3, "run": "inline"}


def some_graph(num_nodes: int = 60, num_edges: int = 300) -> Data:
    edges = torch.randint(num_nodes, (2, num_edges), generator=torch.Generator().manual_seed(0))
    data = Data(x=torch.rand(num_nodes, 64), edge_index=edges, edge_attr=torch.rand(num_edges, 2))
    data.y = torch.arange(num_nodes)
    return data


def assert_same(there: Any, here: Any) -> None:
    found = list(there)
    assert len(found) == len(here) > 1
    for one, other in zip(found, here, strict=True):
        for key in ("x", "y", "edge_attr", "n_id", "e_id", "edge_index"):
            assert one[key].is_cuda, key
            assert torch.equal(home(one[key]), other[key]), key


@pytest.mark.parametrize(("cache", "mode", "pad"), [("2KB", "cpu", None), (0.5, "cuda", None), ("2KB", "cuda", "bound")], ids=str)
def test_batches_are_those_of_the_cpu(cache: Any, mode: Any, pad: Any) -> None:
    data = some_graph()
    here = list(halohop.NeighborLoader(data, [3, 2], pad=pad, **OPTIONS))
    with halohop.graph(data, device="cuda:0", mode=mode, feature_cache=cache) as graph:
        there = graph.on_device
        assert there is not None
        assert data.x.data_ptr() in there.pool.locked or cache == 0.5  # where it lies
        before = there.pool.counters.snapshot()["device_put_bytes"]
        loader = halohop.NeighborLoader(graph, [3, 2], pad=pad, **OPTIONS)
        assert_same(loader, here)
        if mode == "cuda":  # seeds only
            assert there.pool.counters.snapshot()["device_put_bytes"] - before < data.x.nbytes
        if cache == "2KB":
            assert there.statistics()["device_rows"] > 0


def test_columns_that_change_are_read_as_they_are() -> None:
    data = some_graph()
    with halohop.graph(data, device="cuda:0", mode="cuda", feature_cache=0.5) as graph:
        loader = halohop.NeighborLoader(graph, [3, 2], **OPTIONS | {"batch_size": 30})
        for change in (lambda: data.x.add_(1), lambda: setattr(data, "x", data.x * 2), lambda: setattr(data, "y", data.y + 1)):
            change()
            for batch in loader:
                assert torch.equal(home(batch.x), data.x[home(batch.n_id)])
                assert torch.equal(home(batch.y), data.y[home(batch.n_id)])
                assert torch.equal(home(batch.edge_attr), data.edge_attr[home(batch.e_id)])


def test_without_a_cache_nothing_of_the_object_is_locked() -> None:
    data = some_graph()
    with halohop.graph(data, device="cuda:0", mode="cuda") as graph:
        assert graph.on_device is not None
        assert graph.on_device.pool.locked == {}


def test_what_cannot_be_is_refused() -> None:
    for said in ({"mode": "cuda"}, {"feature_cache": "1GB"}, {"cache_devices": ["cuda:0"]}):
        with pytest.raises(InputError, match="is for GPUs; give device='cuda'"):
            halohop.graph(some_graph(), **said)
    with pytest.raises(InputError, match="feature_cache='4GB' is 4000000000 bytes, but cuda:0 has 1073741824 free"):
        halohop.graph(some_graph(), device="cuda:0", feature_cache="4GB")


def test_a_column_on_another_gpu_is_refused_before_there_are_batches() -> None:
    data = some_graph()
    data.x = PretendPool(index=1).put(data.x)
    data.x.gpu = 1
    with pytest.raises(InputError, match=r"'x' lies on .*, and batches are made on cuda:0; move it there, or to the CPU"):
        halohop.graph(data, device="cuda:0")
    data.x.gpu = 0
    halohop.graph(data, device="cuda:0").close()


def test_input_nodes_may_lie_anywhere() -> None:
    data = some_graph()
    here = list(halohop.NeighborLoader(data, [3, 2], torch.arange(30), **OPTIONS))
    with halohop.graph(data, device="cuda:0", mode="cuda", feature_cache="2KB") as graph:
        assert_same(halohop.NeighborLoader(graph, [3, 2], PretendPool().put(torch.arange(30)), **OPTIONS), here)


def test_graphs_and_loaders_keep_their_device_on_their_way() -> None:
    graph = halohop.graph(some_graph(), device="cuda:0", mode="zero_copy", feature_cache="2KB")
    loader = pickle.loads(pickle.dumps(halohop.NeighborLoader(graph, [3, 2], **OPTIONS)))
    there = loader._graph().on_device
    assert there is not None
    assert graph.on_device is not None
    assert there.options == graph.on_device.options
    assert next(iter(loader)).x.is_cuda


def test_rows_are_divided_among_devices() -> None:
    data = some_graph()
    here = list(halohop.NeighborLoader(data, [3, 2], **OPTIONS))
    devices = ["cuda:0", "cuda:1"]
    with halohop.graph(data, device="cuda:0", mode="cuda", feature_cache="2KB", cache_devices=devices) as graph:
        assert_same(halohop.NeighborLoader(graph, [3, 2], **OPTIONS), here)


@pytest.mark.parametrize("run", [{"run": "inline"}, {"run": "threads", "num_workers": 2, "prefetch_factor": 1}], ids=str)
def test_a_graph_that_is_closed_while_batches_are_made_says_so(run: Any) -> None:
    graph = halohop.graph(some_graph(), device="cuda:0", mode="zero_copy", feature_cache="2KB")
    there = graph.on_device
    assert there is not None
    batches = iter(halohop.NeighborLoader(graph, [3, 2], **{**OPTIONS, "batch_size": 4, **run}))
    next(batches)
    graph.close()
    assert there.pool.locked == {}
    with pytest.raises(InputError, match="this graph was closed, and what it had on a device is freed"):
        list(batches)
