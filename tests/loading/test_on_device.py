"""Epochs of loaders on a GPU that is pretended: faults, early ends, several at a time, memory."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

import halohop
from halohop import ops
from halohop.cluster.graph import Graph
from halohop.errors import BatchError, IdError
from halohop.loading.on_device import tensors_in
from tests.support import pretend_gpu
from tests.support.pretend_gpu import DEFAULT_STREAM, PretendEvent, current_stream, home

RUNS: dict[str, dict[str, Any]] = {"inline": {"run": "inline"}, "threads": {"run": "threads", "num_workers": 2}}
NUM_BATCHES = 5

pytestmark = pytest.mark.usefixtures("pretended_gpu")
each_run = pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)


@pytest.fixture
def graph() -> Graph:
    ids = torch.arange(20)
    ring = Data(x=torch.arange(20.0)[:, None], edge_index=torch.stack([ids, (ids + 1) % 20]))
    return halohop.graph(ring, device="cuda:0", mode="cpu")


def loader_of(graph: Graph, transform: Callable[[Data], Data] | None = None, **options: Any) -> Any:
    return halohop.NeighborLoader(graph, [1], torch.arange(20), batch_size=4, transform=transform, **options)


def without(graph: Graph, *numbers: int) -> Callable[[Data], Data]:
    """Reads a row that is not there while these batches are made."""

    def transform(batch: Data) -> Data:
        number = int(home(batch.input_id)[0]) // 4
        if number in numbers:
            pool = graph.on_device.pool
            ops.gather_rows(batch.x, pool.put(torch.tensor([100 + number])), pool=pool)
        return batch

    return transform


@each_run
def test_a_fault_is_raised_with_its_batch_by_name(graph: Graph, run: dict[str, Any]) -> None:
    loader = loader_of(graph, without(graph, 2, 3), **run)
    for epoch in range(2):
        batches = iter(loader)
        assert [home(next(batches).input_id)[0].item() for _ in range(2)] == [0, 4]
        with pytest.raises(IdError, match=rf"^batch 2 of epoch {epoch}: row 102 is not there$"):
            next(batches)
    loader.transform = None
    assert len(list(loader)) == NUM_BATCHES


@each_run
def test_a_fault_that_the_device_has_not_come_to_is_raised_at_the_end(
    graph: Graph, run: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PretendEvent, "query", lambda event: False)
    batches = iter(loader_of(graph, without(graph, 1, 4), **run))
    assert len([next(batches) for _ in range(NUM_BATCHES)]) == NUM_BATCHES
    with pytest.raises(IdError, match=r"^batch 1 of epoch 0: row 101 is not there$"):
        next(batches)


def test_what_the_consumer_launches_wrongly_is_raised_at_the_end(graph: Graph) -> None:
    pool, batches = graph.on_device.pool, iter(loader_of(graph, run="inline"))
    for _ in range(NUM_BATCHES):
        ops.scatter_rows(next(batches).x[:1], pool.put(torch.tensor([7])), pool.zeros((2, 1), torch.float32), pool=pool)
    with pytest.raises(IdError, match=r"^row 7 is not there$"):
        next(batches)


@each_run
def test_an_epoch_that_is_left_early_leaves_nothing_behind(graph: Graph, run: dict[str, Any]) -> None:
    loader = loader_of(graph, without(graph, 1, 2, 3), **run)
    for _ in loader:
        break
    loader.transform = None
    assert [home(batch.input_id)[0].item() for batch in loader] == [0, 4, 8, 12, 16]


@each_run
def test_two_epochs_of_a_loader_at_a_time(graph: Graph, run: dict[str, Any]) -> None:
    loader = loader_of(graph, **run)
    first, second, third = iter(loader), iter(loader), iter(loader)
    begun = [next(first), next(second), next(third)]
    second.close()
    assert all(home(batch.input_id).tolist() == [0, 1, 2, 3] for batch in begun)
    assert len(list(zip(first, third, strict=True))) == NUM_BATCHES - 1
    assert loader.statistics()["device_sample_seconds"] == pytest.approx((2 * NUM_BATCHES + 1) * 1e-3)


@pytest.mark.parametrize("call", ["__call__", "collate_fn"])
def test_one_batch_is_made_on_a_lane_and_checked(graph: Graph, call: str) -> None:
    streams = []

    def transform(batch: Data) -> Data:
        streams.append(current_stream())
        return without(graph, 1)(batch)

    loader = loader_of(graph, transform, run="inline")
    batch = getattr(loader, call)(torch.tensor([2, 3]))
    assert streams[0] is not DEFAULT_STREAM
    assert home(batch.x + 0)[:2, 0].tolist() == [2, 3]  # which may be read here
    with pytest.raises(IdError, match=r"batch \d+ of epoch 0: row 101 is not there$"):
        getattr(loader, call)(torch.tensor([4]))
    assert len(getattr(loader, call)(torch.tensor([2])).input_id) == 1


def test_a_batch_sees_what_the_consumer_has_written_before_it_is_begun(graph: Graph) -> None:
    """Its stream waits for the consumer's, for each batch."""
    loader = loader_of(graph, run="inline")
    list(loader)
    with graph.on_device.pool.lane():
        before = current_stream().waited
    list(loader)
    with graph.on_device.pool.lane():
        assert current_stream().waited == before + NUM_BATCHES


def test_what_the_consumer_gets_is_kept_for_its_stream(graph: Graph) -> None:
    batch = next(iter(loader_of(graph, run="threads", num_workers=1)))
    assert batch.x.used_by == batch.edge_index.used_by == [DEFAULT_STREAM]


@each_run
@pytest.mark.parametrize("broken", [RuntimeError("broken"), SystemExit(3)])
def test_a_worker_that_fails_or_ends_is_told_to_the_consumer(graph: Graph, run: dict[str, Any], broken: BaseException) -> None:
    def transform(batch: Data) -> Data:
        if int(home(batch.input_id)[0]) == 8:
            without(graph, 2)(batch)
            raise broken
        return batch

    loader = loader_of(graph, transform, **run)
    batches = iter(loader)
    assert len([next(batches), next(batches)]) == 2
    with pytest.raises((BatchError, SystemExit), match=r"broken|3"):
        next(batches)
    loader.transform = None
    assert len(list(loader)) == NUM_BATCHES


def test_batches_in_flight_keep_to_their_bytes(graph: Graph) -> None:
    heaviest = loader_of(graph, run="inline")
    list(heaviest)
    weight = heaviest.statistics()["heaviest_batch_bytes"]
    assert weight > 0
    for most in (2, 3):  # of eight; at first each thread begins one, whose weight nobody knows
        loader = loader_of(graph, run="threads", num_workers=2, prefetch_factor=4, backlog_bytes=int(most * weight))
        assert len(list(loader)) == NUM_BATCHES
        assert 0 < loader.statistics()["backlog_peak_bytes"] <= most * weight


def test_without_a_number_batches_in_flight_take_a_part_of_what_is_free(graph: Graph) -> None:
    assert loader_of(graph)._prefetch.backlog_bytes == graph.on_device.pool.free_bytes() // 8


def test_page_locked_memory_is_used_again(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    locked, lock = [], graph.on_device.pool.page_locked
    monkeypatch.setattr(graph.on_device.pool, "page_locked", lambda tensor: locked.append(tensor) or lock(tensor))
    loader = loader_of(graph, run="inline")
    for _ in range(2):
        list(loader)
    assert len(locked) == 1


def test_threads_that_make_batches_have_streams_of_their_own(graph: Graph) -> None:
    both, streams = threading.Barrier(2, timeout=20), set()

    def transform(batch: Data) -> Data:
        if int(home(batch.input_id)[0]) < 8:
            both.wait()
        streams.add(current_stream())
        return batch

    list(loader_of(graph, transform, run="threads", num_workers=2))
    assert len(streams) == 2
    assert DEFAULT_STREAM not in streams
    assert pretend_gpu.current_stream() is DEFAULT_STREAM


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc], ids=str)
def test_of_sparse_tensors_the_parts_are_kept(layout):
    """A transform may make some of edges, and torch refuses to keep these as a whole for another stream."""
    sparse = torch.eye(3).to_sparse(layout=layout)
    parts = list(tensors_in({"adj_t": sparse, "rest": [1]}))
    assert all(part.layout == torch.strided for part in parts)
    values = sparse._values() if layout == torch.sparse_coo else sparse.values()
    assert parts[-1].data_ptr() == values.data_ptr()
    assert len(parts) == (2 if layout == torch.sparse_coo else 3)
