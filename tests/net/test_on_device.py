"""Graphs of several hosts and of servers whose batches lie on a GPU: the batches of the CPU, rows by page-locked memory."""

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import halohop
from halohop.cluster.graph import Graph
from halohop.datasets import synthetic
from halohop.errors import InputError
from halohop.ops.pool import SMALL
from halohop.testing.worlds import TOKEN, hosts
from halohop.transport import Limits
from tests.support.pretend_gpu import PretendPool, PretendTensor, home

LIMITS = Limits(call_seconds=30, attempt_seconds=2, connect_seconds=20)
OPTIONS: dict[str, Any] = {"batch_size": 150, "shuffle": True, "seed": 3, "run": "inline"}

pytestmark = pytest.mark.usefixtures("pretended_gpu")


@pytest.fixture(
    scope="module", params=[pytest.param(False, marks=pytest.mark.full, id="degrees"), pytest.param(True, id="hotness")]
)
def parts(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """In two partitions; how often nodes are read is stored with them, or follows from their degrees."""
    path = tmp_path_factory.mktemp("parts") / "parts"
    halohop.partition(synthetic("tiny"), path, num_parts=2, method="random")
    if request.param:
        halohop.add_replicas(path, halohop.Replicas(fanouts=[3, 2], batch_size=150, ratio=0.01))
    return path


def batches(graph: Graph, **options: Any) -> list[Any]:
    return list(halohop.NeighborLoader(graph, [3, 2], torch.arange(400), **{**OPTIONS, **options}))


def assert_same(there: list[Any], here: list[Any]) -> None:
    assert len(there) == len(here) > 1
    for one, other in zip(there, here, strict=True):
        for key, value in other.to_dict().items():
            if isinstance(value, Tensor):
                assert one[key].is_cuda, key
                assert torch.equal(home(one[key]), value), key


@pytest.fixture
def put(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """What is copied to the device: bytes, and whether they come from page-locked memory."""
    seen: list[tuple[int, bool]] = []
    original = PretendPool.put

    def watched(pool: PretendPool, tensor: Tensor) -> Tensor:
        if not isinstance(tensor, PretendTensor):
            seen.append((tensor.nbytes, tensor.untyped_storage().data_ptr() in pool.page_locked_at))
        return original(pool, tensor)

    monkeypatch.setattr(PretendPool, "put", watched)
    return seen


@pytest.mark.parametrize("cache", [None, "20KB", "100MB"])
def test_batches_of_several_hosts_are_those_of_the_cpu(parts: Path, cache: Any, put: list[tuple[int, bool]]) -> None:
    with halohop.open(parts) as graph:
        here = batches(graph)
    with hosts(parts, [[0], [1]], device="cuda:0", feature_cache=cache) as (first, _):
        assert first.on_device is not None
        put.clear()
        assert_same(batches(first), here)
        assert cache is not None or any(size >= SMALL for size, _ in put)
        assert all(locked for size, locked in put if size >= SMALL)
        sizes = [size for size, _ in put]
        assert cache is not None or all(sizes.count(batch.x.nbytes) == 1 for batch in here)  # rows come in one copy
        hits = first.on_device.statistics().get("device_rows", 0)
        assert (hits > 0) == (cache is not None)
        if cache == "100MB":
            remote = first.statistics()["remote_rows"]
            batches(first)
            drawn = first.statistics()["remote_rows"] - remote
            assert drawn < sum(batch.num_nodes for batch in here)  # hops are asked for, rows are not


@pytest.mark.parametrize("sampling", ["client", "servers"])
def test_batches_of_servers_are_those_of_the_cpu(parts: Path, sampling: Any) -> None:
    with halohop.open(parts) as graph:
        here = batches(graph)
    cache = {"feature_cache": "20KB"} if sampling == "client" else {}
    with halohop.serve(parts, token=TOKEN, limits=LIMITS) as server:
        where: dict[str, Any] = {"token": TOKEN, "limits": LIMITS, "sampling": sampling, "device": "cuda:0", **cache}
        with halohop.connect([server.address], **where) as graph:
            assert_same(batches(graph), here)
            assert_same(batches(graph, run="threads", num_workers=2), here)
            there = graph.on_device
            assert there is not None
            assert (there.statistics().get("device_rows", 0) > 0) == (sampling == "client")
        assert there.pool.finished == 1


def test_what_connect_cannot_do_is_said_before_it_connects() -> None:
    with pytest.raises(InputError, match="feature_cache='1GB' is for GPUs; give device='cuda'"):
        halohop.connect(["127.0.0.1:1"], feature_cache="1GB", sampling="client")
    with pytest.raises(InputError, match="feature_cache='1GB' is of use where batches are made here; pass sampling='client'"):
        halohop.connect(["127.0.0.1:1"], device="cuda:0", feature_cache="1GB")


def test_a_cache_of_far_rows_is_not_divided(parts: Path) -> None:
    where: dict[str, Any] = {"token": TOKEN, "limits": LIMITS, "sampling": "client"}
    divided: dict[str, Any] = {"device": "cuda:0", "feature_cache": "20KB", "cache_devices": ["cuda:0", "cuda:1"]}
    words = "cache_devices divide a cache of rows of this host, and some partitions are on"
    with halohop.serve(parts, token=TOKEN, limits=LIMITS) as server, pytest.raises(InputError, match=words):
        halohop.connect([server.address], **where, **divided)


def test_graphs_keep_their_device_on_their_way_to_another_process(parts: Path) -> None:
    with halohop.open(parts, device="cuda:0", mode="zero_copy", feature_cache="20KB") as graph:
        other = pickle.loads(pickle.dumps(graph))
        assert other.on_device is not None
        assert other.on_device.options == graph.on_device.options
        other.close()
    where: dict[str, Any] = {"token": TOKEN, "limits": LIMITS, "device": "cuda:0"}
    with halohop.serve(parts, token=TOKEN, limits=LIMITS) as server, halohop.connect([server.address], **where) as graph:
        made = graph.reference().opens.keywords  # type: ignore[attr-defined]  # a partial
    assert (made["device"], made["feature_cache"], made["cache_devices"]) == ("cuda:0", None, None)
