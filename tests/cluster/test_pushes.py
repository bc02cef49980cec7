"""Rows that clients write: once each, whatever happens on the way."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace

import pytest
import torch

import halohop
from halohop import ops
from halohop.cluster.pushes import Held
from halohop.errors import ClusterError, IdError, InputError, RemoteError, SchemaError
from halohop.partitioning.book import Book
from halohop.store.requests import HoldRequest, PushRequest
from halohop.testing.graphs import ring
from halohop.testing.worlds import TOKEN, hosts, partitioned
from halohop.transport import Limits

RAW = torch.arange(60) * 3 + 7
LIMITS = Limits(call_seconds=40, attempt_seconds=0.3)


def graphs(num_parts: int, *, shard_each: bool) -> halohop.Graph:
    return partitioned(ring(60, raw_id=RAW), num_parts, shard_each=shard_each)


@pytest.mark.parametrize(("num_parts", "shard_each"), [(1, False), (3, False), (3, True), (8, True)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
def test_rows_are_written_and_added(num_parts, shard_each, dtype):
    graph = graphs(num_parts, shard_each=shard_each)
    graph.hold("state", (2,), dtype=dtype, fill=1)
    assert torch.equal(graph.rows("state", RAW), torch.ones(60, 2, dtype=dtype))
    some = RAW[[5, 40, 5, 12]]
    rows = torch.tensor([[1, 2], [3, 4], [5, 6], [7, 8]]).to(dtype)
    graph.push("state", some, rows)
    assert graph.rows("state", RAW[[5, 12, 40, 0]]).tolist() == [[5, 6], [7, 8], [3, 4], [1, 1]]
    graph.push("state", some, rows, add=True)
    assert graph.rows("state", RAW[[5, 12, 40, 0]]).tolist() == [[11, 14], [14, 16], [6, 8], [1, 1]]
    graph.hold("state", (2,), dtype=dtype, fill=1)  # again, and alike
    assert graph.rows("state", RAW[:1]).tolist() == [[1, 1]]
    assert torch.equal(graph.rows("x", RAW[[3, 1]]).flatten(), graph.rows("x", RAW).flatten()[[3, 1]])


def test_what_does_not_fit_is_refused_and_changes_nothing():
    graph = graphs(3, shard_each=True)
    graph.hold("state", (2,))
    with pytest.raises(InputError, match=r"'state' of 'node' is held as .*float32.*another name"):
        graph.hold("state", (3,))
    with pytest.raises(InputError, match="'x' of 'node' is stored"):
        graph.hold("x")
    with pytest.raises(SchemaError, match="no column 'other'"):
        graph.push("other", RAW[:1], torch.ones(1))
    with pytest.raises(InputError, match=r"float64 and shape \(1, 2\) do not fit 'state'"):
        graph.push("state", RAW[:1], torch.ones(1, 2, dtype=torch.float64))
    with pytest.raises(IdError, match="the first is 8"):
        graph.push("state", torch.tensor([8]), torch.ones(1, 2))
    assert not graph.rows("state", RAW).any()


def held(parts: tuple[int, ...] = (1,), *, dtype: str = "float32", fill: float = 0.0) -> Held:
    made = Held(Book(nodes={"node": (0, 4, 10)}, edges={}), parts)
    made.hold(HoldRequest(node_type="node", name="w", shape=(), dtype=dtype, fill=fill), stored=())
    return made


def written(pushes: Held) -> list[float]:
    return [value for tensor in pushes._pieces["node", "w"].values() for value in tensor.tolist()]


def a_push(number: int, gid: int = 5, sender: str = "a") -> PushRequest:
    gids, rows = torch.tensor([gid]), torch.ones(1)
    return PushRequest(node_type="node", name="w", gid=gids, rows=rows, add=True, sender=sender, number=number)


def test_a_push_counts_once():
    pushes = held()
    assert [pushes.push(a_push(number)) for number in (1, 3, 1, 2, 3, 2)] == [True, True, False, True, False, False]
    assert pushes.push(a_push(1, sender="b"))
    with pytest.raises(IdError):
        pushes.push(a_push(9, gid=3))
    assert pushes.push(a_push(9))  # what failed had not counted
    assert not pushes.push(replace(a_push(9), rows=torch.zeros(1)))


@pytest.mark.parametrize("add", [False, True])
def test_a_push_that_fails_half_way_changes_nothing_and_is_tried_again(monkeypatch, add):
    """Its rows go to two partitions, and memory runs out over those of the second."""
    pushes, gid = held(parts=(0, 1), fill=3.0), torch.tensor([1, 5, 1])
    push = replace(a_push(1), gid=gid, rows=torch.tensor([1.0, 2.0, 4.0]), add=add)
    gather, calls = ops.gather_rows, []

    def gathered(source, rows, **options):
        calls.append(rows)
        if len(calls) == 3 + add:  # ids, rows and sums of the first partition are made
            raise MemoryError("no memory for the rows")
        return gather(source, rows, **options)

    monkeypatch.setattr(ops, "gather_rows", gathered)
    with pytest.raises(MemoryError):
        pushes.push(push)
    monkeypatch.undo()
    assert written(pushes) == [3.0] * 10
    assert [pushes.push(push) for _ in range(2)] == [True, False]
    now = written(pushes)
    assert (now[1], now[5]) == ((8.0, 5.0) if add else (4.0, 2.0))


def test_a_push_that_cannot_be_added_is_refused_each_time():
    pushes = held(dtype="float8_e4m3fn")
    push = replace(a_push(1), rows=torch.ones(1).to(torch.float8_e4m3fn))
    for _ in range(2):
        with pytest.raises(InputError, match=r"float8_e4m3fn cannot be added .*without add"):
            pushes.push(push)
    assert pushes.push(replace(push, add=False))
    assert not pushes.push(push)


def test_a_push_that_comes_twice_at_once_counts_once():
    pushes, at_once = held(), threading.Barrier(2)

    def push(number: int) -> bool:
        at_once.wait(timeout=60)
        return pushes.push(a_push(number))

    with ThreadPoolExecutor(2) as pool:
        new = [list(pool.map(push, (number, number))) for number in range(1, 101)]
    assert all(sorted(both) == [False, True] for both in new)
    assert written(pushes)[1] == 100


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr("halohop.cluster.pushes._WINDOW", 100)
    pushes = held()
    for number in range(1, 301):
        pushes.push(a_push(number))
    known = pushes._senders.get("a")
    assert known is not None
    assert len(known.recent) <= 200
    assert not pushes.push(a_push(299))
    assert not pushes.push(a_push(5))  # so old that nobody sends it any more


@pytest.mark.parametrize(("dtype", "fill"), [("int32", float("nan")), ("bits8", 0.0), ("nope", 0.0)])
def test_what_a_column_cannot_hold_is_refused(dtype, fill):
    with pytest.raises(InputError, match=rf"no column of '{dtype}' and row shape \(\)"):
        held(dtype=dtype, fill=fill)


def test_a_column_filled_with_nan_is_held_alike_by_two_clients():
    pushes = held(fill=float("nan"))
    again = HoldRequest(node_type="node", name="w", shape=(), dtype="float32", fill=float("nan"))
    assert pushes.hold(again, stored=()) is None


def test_pushes_survive_servers_connections(tmp_path):
    """Many clients add ones, while every connection breaks again and again: the sums are exact."""
    halohop.partition(ring(60, raw_id=RAW), tmp_path / "parts", num_parts=2, method="random")
    with ExitStack() as stack:
        servers = [
            stack.enter_context(halohop.serve(tmp_path / "parts", partitions=[part], token=TOKEN, limits=LIMITS))
            for part in range(2)
        ]
        addresses = [server.address for server in servers]
        graphs = [stack.enter_context(halohop.connect(addresses, token=TOKEN, limits=LIMITS)) for _ in range(3)]
        graphs[0].hold("count", dtype=torch.int64)

        def add(graph: halohop.Graph) -> None:
            for turn in range(40):
                graph.push("count", RAW, torch.ones(60, dtype=torch.int64), add=True)
                if turn % 5 == 0:
                    for server in servers:
                        server._listener._clients.clear()  # type: ignore[attr-defined]  # it forgets everybody, mid-call

        with ThreadPoolExecutor(3) as pool:
            for done in [pool.submit(add, graph) for graph in graphs]:
                done.result(timeout=100)
        assert graphs[1].rows("count", RAW).tolist() == [120] * 60
        assert sum(graph.statistics()["transport_retries"] for graph in graphs) > 0


def test_only_one_owner_can_be_written_to(tmp_path):
    halohop.partition(ring(60), tmp_path / "parts", num_parts=2, method="random")
    with hosts(tmp_path / "parts", [[0], [1]]) as several, pytest.raises(InputError, match="serve it"):
        several[0].hold("state")
    with (
        halohop.serve(tmp_path / "parts", token=TOKEN) as one,
        halohop.serve(tmp_path / "parts", token=TOKEN) as other,
        halohop.connect([one.address, other.address], token=TOKEN) as graph,
        pytest.raises(ClusterError, match=r"partitions \[0, 1\] are served by several servers"),
    ):
        graph.hold("state")
    with halohop.serve(tmp_path / "parts", token=TOKEN) as one, halohop.connect([one.address], token=TOKEN) as graph:
        graph.hold("state")
        with pytest.raises(RemoteError, match="another name"):
            graph.hold("state", (3,))
