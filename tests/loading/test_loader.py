import gc
import os
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pytest
import torch
from torch_geometric.data import Data

import halohop
from halohop import NeighborLoader, partition
from halohop.cluster.graph import in_memory
from halohop.errors import BatchError, InputError
from halohop.loading import loader as loading
from halohop.loading import making, options
from halohop.loading.examples import Examples
from halohop.loading.pipeline import Made
from halohop.pyg.convert import tables_from_pyg
from halohop.sampling.batch import Batch, EdgeBlock, NodeBlock, Seeds
from halohop.testing.graphs import ring
from halohop.testing.worlds import hosts
from halohop.typing import EDGE, NODE, RAW_ID
from halohop.world import World


@pytest.fixture(scope="module")
def data() -> Data:
    torch.manual_seed(0)
    return Data(x=torch.randn(5000, 64), edge_index=torch.randint(5000, (2, 50_000)))


def test_only_graphs_without_other_hosts_go_to_processes(tmp_path):
    partition(ring(100), tmp_path / "parts", num_parts=2, method="random")
    with hosts(tmp_path / "parts", [[0], [1]]) as graphs:
        for graph in graphs:
            assert not graph.is_local
            with pytest.raises(InputError, match="run='threads'"):
                NeighborLoader(graph, [2], run="processes")
    with hosts(tmp_path / "parts", [[0, 1], [0, 1]]) as graphs:
        for graph in graphs:
            assert graph.is_local
            batches = [list(NeighborLoader(graph, [2], batch_size=30, run=run)) for run in ("inline", "processes")]
            for one, other in zip(*batches, strict=True):
                assert torch.equal(one.n_id, other.n_id)


def test_the_backlog_of_a_loader_is_bounded(data):
    """Batches of over 256 kB, four of which could be in flight, and a consumer who asks what waits while it holds one."""
    limit = 1_000_000
    loader = NeighborLoader(data, [10], batch_size=250, num_workers=1, prefetch_factor=20, backlog_bytes=limit)
    for batch in loader:
        assert batch.num_nodes > 1000
    statistics = loader.statistics()
    assert statistics["backlog_bytes"] == 0
    assert 0 < statistics["backlog_peak_bytes"] <= 1.3 * limit  # batches differ in size
    free = NeighborLoader(data, [10], batch_size=250, num_workers=1, prefetch_factor=20)
    assert len(list(free)) == len(loader) == 20


@pytest.mark.parametrize(
    ("cores", "trainers", "workers"), [(1, 1, 1), (2, 1, 2), (2, 2, 1), (64, 1, 4), (64, 8, 4), (8, 4, 2), (4, 8, 1)]
)
def test_trainers_of_a_host_share_its_cores(monkeypatch, cores, trainers, workers):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)), raising=False)
    for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        monkeypatch.setenv(name, str(trainers))
    monkeypatch.setenv("RANK", "0")
    assert options.default_workers() == workers


def test_only_the_size_of_the_host_decides_on_workers(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setenv("WORLD_SIZE", "32")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert options.default_workers() == 2


@pytest.mark.parametrize("run", ["threads", "processes"])
def test_workers_leave_torchs_threads_to_the_trainer(data, run):
    def threads(batch: Data) -> Data:
        batch.threads = torch.get_num_threads()
        return batch

    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        used = {batch.threads for batch in NeighborLoader(data, [2], transform=threads, run=run, num_workers=2, batch_size=500)}
        with ThreadPoolExecutor(1) as pool:
            elsewhere = pool.submit(torch.get_num_threads).result(60)
        assert (used, torch.get_num_threads(), elsewhere) == ({1}, 3, 3)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("run", ["threads", "inline", "processes"])
def test_statistics_tell_where_the_time_of_a_batch_goes(data, run, tmp_path):
    partition(data, tmp_path, num_parts=2, method="random", overwrite=True)
    loader = NeighborLoader(halohop.open(tmp_path), [3, 2], batch_size=1000, run=run, num_workers=2)
    batches = len(list(loader))
    counted = loader.statistics()
    for stage in ("make", "sample", "collect", "gather", "convert"):
        assert counted[f"{stage}_calls"] == batches, stage
    for stage in ("draw", "load", "dedup"):
        assert counted[f"{stage}_calls"] == 2 * batches, stage
    parts = [sum(counted[f"{stage}_seconds"] for stage in stages) for stages in (("draw", "load", "dedup"), ("gather",))]
    assert 0 < parts[0] <= counted["sample_seconds"]
    assert 0 < parts[1] <= counted["collect_seconds"]
    assert counted["batches"] == batches


@pytest.mark.parametrize("run", ["threads", "inline", "processes"])
def test_pinning_where_there_is_cuda(data, monkeypatch, run):
    """Without a GPU: who allocates in page-locked memory, and who pins what is left."""
    asked, pinned = [], []

    def allocate(num_bytes: int) -> torch.Tensor:
        asked.append(num_bytes)
        return torch.empty(num_bytes, dtype=torch.uint8)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(halohop.loading.base, "page_locked", allocate)
    monkeypatch.setattr(Data, "pin_memory", lambda batch: pinned.append(batch) or batch)
    options = {} if run == "inline" else {"num_workers": 2}
    batches = list(NeighborLoader(data, [10], batch_size=500, run=run, pin_memory=True, **options))
    assert len(batches) == 10
    assert {id(batch) for batch in batches} == {id(batch) for batch in pinned}  # all, and in this process
    assert (data.x[0].nbytes * batches[0].num_nodes in asked) == (run != "processes")


class Ids(NamedTuple):
    ids: Any
    none: None = None


class Pinnable:
    def pin_memory(self) -> str:
        return "pinned"


def test_parts_of_a_tuple_are_pinned():
    """Such as that of GLT's `as_pyg_v1`, or of a user's transform."""
    made = making.pinned(making.Dated(value=(3, Pinnable(), [Ids(Pinnable())]), number=1))
    assert made.value == (3, "pinned", [Ids("pinned")])
    made = making.pinned(making.Dated(value={"a": Pinnable(), "b": [4]}, number=1))
    assert made.value == {"a": "pinned", "b": [4]}


def test_without_cuda_nothing_is_pinned(data):
    graph = in_memory(tables_from_pyg(data))
    batch = next(iter(NeighborLoader(graph, [10], batch_size=500, pin_memory=True)))
    assert not batch.x.is_pinned()
    del batch
    assert graph.statistics()["pool_made"] > 0


def test_what_cannot_be_pinned_is_named(data, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(halohop.loading.base, "page_locked", lambda num_bytes: torch.empty(num_bytes, dtype=torch.uint8))
    for run in ("threads", "processes"):
        with pytest.raises(BatchError, match="pin_memory"):
            next(iter(NeighborLoader(data, [1], run=run, pin_memory=True, transform=lambda batch: 7)))


class Decades(Examples):
    """Ten nodes a position."""

    def seeds(self, epoch, share):
        gid = (10 * share.positions[:, None] + torch.arange(10)).view(-1)
        return Seeds(node_type=NODE, gid=gid, input_id=gid, epoch=epoch, index=share.index)


class NoEdges:
    """The seeds, and nothing else."""

    def __init__(self, graph):
        self.graph = graph

    def sample(self, seeds):
        none = torch.empty(0, dtype=torch.int64)
        nodes = {NODE: NodeBlock(gid=seeds.gid, num_sampled=None)}
        return Batch(seeds=seeds, nodes=nodes, edges={EDGE: EdgeBlock(ends_bid=none.expand(2, 0), gid=none, num_sampled=None)})


class RawIds(loading.BatchLoader):
    def _to_user(self, batch):
        return Made(item=batch.nodes[NODE].columns[RAW_ID].tolist())


@pytest.mark.parametrize("run", ["threads", "inline", "processes"])
def test_any_sampler_and_any_examples_make_batches(run):
    """Positions are dealt to ranks and batches; what they stand for is the examples' business."""
    taken = []
    for rank in range(2):
        loader = RawIds(
            NoEdges(in_memory(ring(70))),
            Decades(torch.arange(7)),
            world=World(rank=rank, size=2, local_rank=rank, local_size=2),
            batch_size=2,
            shuffle=True,
            run=run,
            num_workers=1,
        )
        batches = list(loader)
        assert len(batches) == len(loader) == 2
        assert all(nodes == [first + i for first in nodes[::10] for i in range(10)] for nodes in batches)
        taken += [node for nodes in batches for node in nodes]
    assert sorted(taken) == list(range(70))


@pytest.mark.parametrize("run", ["threads", "inline", "processes"])
def test_a_loader_that_nobody_needs_any_longer_goes_at_once(data, run):
    """And with it its graph and buffers: the collector of garbage counts objects, and these are few but large."""
    gc.collect()
    gc.disable()
    try:
        loader = NeighborLoader(data, [2], batch_size=1000, num_workers=1, run=run, pad="bound", transform=lambda batch: batch)
        assert len(list(loader)) == 5
        gone = weakref.ref(loader)
        del loader
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("position", [-1, 10**6])
def test_positions_that_are_none_are_refused(data, position):
    """One below 0 would be taken for a seed counted from the end, or for no cluster at all."""
    loader = NeighborLoader(data, [1])
    for ask in (loader, loader.collate_fn):
        with pytest.raises(InputError, match=f"position {position} "):
            ask([0, position])
    with pytest.raises(InputError, match=f"position {position} "):
        list(NeighborLoader(data, [1], batch_sampler=[[0, position]]))


@pytest.mark.parametrize("epoch", [-1, "two", 0.5])
def test_epochs_are_counted_from_0(data, epoch):
    with pytest.raises(InputError, match=f"epoch='?{epoch}"):
        NeighborLoader(data, [1]).set_epoch(epoch)
