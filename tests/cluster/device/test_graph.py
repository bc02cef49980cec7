"""A graph on a GPU answers as the graph that it was made of."""

import gc
import threading
import weakref

import pytest
import torch

import halohop
from halohop.cluster.device import DeviceGraph, DeviceOptions
from halohop.cluster.device.gate import Gate
from halohop.datasets import synthetic
from halohop.errors import InputError
from halohop.ops.device_pieces import DevicePieces
from halohop.store.draw import Draw, Rules
from halohop.store.requests import FetchRequest, HopQuery, RowQuery, SampleRequest
from halohop.testing.worlds import hosts
from halohop.typing import RAW_ID, degree_column
from tests.support.pretend_gpu import PretendPool, home, pretended

MODES = ("cpu", "zero_copy", "cuda")


@pytest.fixture(scope="module", params=[1, 4])
def host(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts") / "parts"
    halohop.partition(synthetic("tiny"), folder, num_parts=request.param, method="random")
    with halohop.open(folder) as graph:
        yield graph


def device_graph(host, **options) -> DeviceGraph:
    return DeviceGraph(host, PretendPool(), DeviceOptions(device="cuda:0", **options))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("edge_ids", [False, True])
def test_neighbours_are_those_of_the_host(host, mode, edge_ids):
    (relation,) = host.schema.edges
    (name,) = host.schema.nodes
    gid = torch.randint(0, host.schema.nodes[name].count, (70,), generator=torch.Generator().manual_seed(0))
    query = HopQuery(relation=relation, fanout=4, dst_gid=gid, edge_ids=edge_ids)
    draw = Draw(seed=1, epoch=0, batch=2, hop=1)
    (expected,) = host.sample(SampleRequest(draw=draw, queries=(query,))).answers
    graph = device_graph(host, mode=mode)
    near = HopQuery(relation=relation, fanout=4, dst_gid=pretended(gid), edge_ids=edge_ids)
    (found,) = graph.sample(SampleRequest(draw=draw, queries=(near,))).answers
    for field in ("counts", "src_gid", "edge_gid", "edge_id"):
        one, other = getattr(found, field), getattr(expected, field)
        assert (one is None) == (other is None)
        assert one is None or (one.is_cuda and torch.equal(home(one), other))
    graph.pool.check()


@pytest.mark.parametrize("mode", ["cpu", "cuda"])
@pytest.mark.parametrize("cache", [0, 20_000, 0.5, 1 << 28], ids=str)
@pytest.mark.parametrize("padded", [False, True])
def test_rows_are_those_of_the_host(host, mode, cache, padded):
    (name,) = host.schema.nodes
    gid = torch.randint(0, host.schema.nodes[name].count, (70,), generator=torch.Generator().manual_seed(0))
    if padded:
        gid[50:] = -1
    columns = (RAW_ID, *host.schema.nodes[name].columns)
    columns = columns if padded else (*columns, degree_column(next(iter(host.schema.edges))))
    query = RowQuery(table=name, columns=columns, gid=gid, padded=padded)
    expected = host.fetch_stored(FetchRequest(queries=(query,))).rows[0]
    graph = device_graph(host, mode=mode, feature_cache=cache)
    near = RowQuery(table=name, columns=columns, gid=pretended(gid), padded=padded)
    found = graph.fetch_stored(FetchRequest(queries=(near,))).rows[0]
    for column, one, other in zip(columns, found, expected, strict=True):
        assert one.is_cuda, column
        assert torch.equal(home(one), other), column
    graph.pool.check()


def test_what_cannot_be_is_refused(host):
    with pytest.raises(InputError, match=r"4000000000 bytes, but cuda:0 has 1073741824 free"):
        device_graph(host, feature_cache="4GB")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("cache", [0, 20_000, 1 << 28], ids=str)
def test_memory_of_the_device_is_taken_at_the_opening(host, mode, cache):
    """And not by the first batch: a cache within its bytes, and lists."""
    graph = device_graph(host, mode=mode, feature_cache=cache)
    (name,) = host.schema.nodes
    columns = tuple(host.schema.nodes[name].columns)
    lists = sum(pieces.nbytes for pieces in moved_at_once(graph))
    before = graph.pool.counters.snapshot()["device_put_bytes"]
    weight = host.schema.nodes[name].count * sum(column.element_size() * column[:1].numel() for column in rows_of(host))
    assert before <= lists + min(cache, weight) + 10_000  # addresses and bounds
    assert before >= lists + 0.8 * min(cache, weight)
    gid = pretended(torch.arange(70))
    put = graph.pool.counters.snapshot()["device_put_bytes"]
    graph.fetch_stored(FetchRequest(queries=(RowQuery(table=name, columns=columns, gid=gid),)))
    assert graph.pool.counters.snapshot()["device_put_bytes"] == put


def moved_at_once(graph):
    """The lists on the device."""
    if graph.options.mode != "cuda":
        return []
    return [piece for lists in graph._lists._lists.values() for piece in (lists.indptr, lists.indices)]


def rows_of(host):
    """A row of each column of nodes."""
    (name,) = host.schema.nodes
    names = (*host.schema.nodes[name].columns, *(() if name in host.identities else (RAW_ID,)))
    return host.fetch_stored(FetchRequest(queries=(RowQuery(table=name, columns=names, gid=torch.tensor([0])),))).rows[0]


@pytest.mark.parametrize("mode", MODES)
def test_a_closed_graph_has_given_everything_back_and_says_so(host, mode):
    graph = device_graph(host, mode=mode, feature_cache=20_000)
    (relation,), (name,) = host.schema.edges, host.schema.nodes
    rows = FetchRequest(queries=(RowQuery(table=name, columns=("x",), gid=pretended(torch.arange(5))),))
    hop = HopQuery(relation=relation, fanout=2, dst_gid=pretended(torch.arange(5)))
    hop_of = SampleRequest(draw=Draw(seed=1, epoch=0, batch=0, hop=1), queries=(hop,))
    kept = weakref.ref(graph._rows._columns[name, "x"]._pieces.tensors[-1])
    assert graph.pool.locked
    graph.fetch_stored(rows)
    graph.sample(hop_of)
    graph.close()
    gc.collect()
    assert kept() is None
    assert graph.pool.locked == {}
    assert graph.pool.finished == 1
    for ask in (lambda: graph.fetch_stored(rows), lambda: graph.sample(hop_of)):
        with pytest.raises(InputError, match="this graph was closed, and what it had on a device is freed; open it again"):
            ask()
    graph.close()


def test_memory_is_kept_until_the_device_has_read_it(host):
    """Torch knows one stream of each tensor, and gives its memory away at once, while batches are made on others."""
    graph = device_graph(host, mode="cuda", feature_cache=20_000)
    (name,) = host.schema.nodes
    kept, done = weakref.ref(graph._rows._columns[name, "x"]._pieces.tensors[-1]), []
    graph.pool.finish = graph.pool.trim = lambda: done.append(kept() is not None)
    graph.close()
    assert (done[0], done[-1]) == (True, False)


def test_a_graph_waits_for_its_requests_before_it_is_closed():
    gate, inside, left = Gate(), threading.Event(), []

    def request():
        with gate:
            inside.set()
            left.append("request") if closing.wait(20) else None

    closing = threading.Event()
    thread = threading.Thread(target=request)
    thread.start()
    assert inside.wait(20)
    other = threading.Thread(target=lambda: (gate.close(), left.append("closed")))
    other.start()
    closing.set()
    thread.join(20)
    other.join(20)
    assert left == ["request", "closed"]
    with pytest.raises(InputError, match="closed"), gate:
        pass


def test_a_cache_that_finds_no_room_is_said_with_both_sizes(host, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("halohop.cluster.device.rows.HotPlaces", full)
    pool = PretendPool()
    with pytest.raises(InputError, match="feature_cache=20000 is 20000 bytes, for which cuda:0 has no room with 1073741824 free"):
        DeviceGraph(host, pool, DeviceOptions(device="cuda:0", feature_cache=20_000))
    assert pool.locked == {}


def test_lookups_by_ids_of_the_user_are_the_hosts(host):
    graph, ids = device_graph(host, mode="cuda"), torch.tensor([5, 2, 40])
    assert torch.equal(graph.rows("x", ids), host.rows("x", ids))
    (relation,) = host.schema.edges
    assert torch.equal(graph.degrees(relation, ids), host.degrees(relation, ids))
    found, expected = (one.find([(relation, ids, ids.flip(0))])[0] for one in (graph, host))
    assert torch.equal(found.counts, expected.counts)
    there = graph.find([(relation, pretended(ids), pretended(ids.flip(0)))])[0]
    assert torch.equal(home(there.counts), expected.counts)
    with pytest.raises(InputError, match=r"ids of nodes lie on .*, and are looked up by the host; give them as .cpu"):
        graph.locate(pretended(ids))


def test_lists_larger_than_the_device_are_refused_before_they_are_copied(host):
    pool = PretendPool(free=100)
    with pytest.raises(InputError, match=r"neighbours are \d+ bytes, and do not fit into cuda:0, which has 100 free; take"):
        DeviceGraph(host, pool, DeviceOptions(device="cuda:0", mode="cuda"))
    assert pool.counters.snapshot().get("device_put_bytes", 0) == 0


@pytest.mark.parametrize("cache", [20_000, 1 << 28], ids=str)
def test_devices_divide_a_cache(host, cache):
    pool, peer = PretendPool(), PretendPool(index=1)
    options = DeviceOptions(device="cuda:0", feature_cache=cache, cache_devices=("cuda:0", "cuda:1"))
    graph = DeviceGraph(host, pool, options, [pool, peer])
    (name,) = host.schema.nodes
    columns = tuple(host.schema.nodes[name].columns)
    gid = torch.arange(70)
    one, other = (FetchRequest(queries=(RowQuery(table=name, columns=columns, gid=ids),)) for ids in (gid, pretended(gid)))
    for here, there in zip(host.fetch_stored(one).rows[0], graph.fetch_stored(other).rows[0], strict=True):
        assert torch.equal(home(there), here)
    assert peer.counters.snapshot()["device_put_bytes"] > 1000
    assert graph.statistics()["device_rows"] > 0
    graph.close()


@pytest.mark.parametrize(
    ("rules", "query"),
    [
        (Rules(labor=True), {}),
        (Rules(), {"excluded": torch.arange(0, 500, 3)}),
    ],
    ids=["labor", "excluded"],
)
def test_the_device_draws_what_the_host_draws(host, rules, query):
    (relation,) = host.schema.edges
    gid = torch.arange(40)
    draw = Draw(seed=1, epoch=0, batch=2, hop=1, rules=rules)
    asked = HopQuery(relation=relation, fanout=3, dst_gid=gid, **query)
    (expected,) = host.sample(SampleRequest(draw=draw, queries=(asked,))).answers
    near = HopQuery(relation=relation, fanout=3, dst_gid=pretended(gid), **{key: pretended(ids) for key, ids in query.items()})
    (found,) = device_graph(host, mode="cuda").sample(SampleRequest(draw=draw, queries=(near,))).answers
    assert torch.equal(home(found.src_gid), expected.src_gid)
    assert torch.equal(home(found.edge_gid), expected.edge_gid)


def test_open_takes_a_device(tmp_path, pretended_gpu):
    halohop.partition(synthetic("tiny"), tmp_path / "parts", num_parts=2, method="random")
    with halohop.open(tmp_path / "parts", device="cuda:0", mode="cuda", feature_cache=0.5) as graph:
        assert graph.on_device is not None
        assert graph.on_device.draws
    with halohop.open(tmp_path / "parts") as graph:
        assert graph.on_device is None
    with pytest.raises(InputError, match="4000000000 bytes"):
        halohop.open(tmp_path / "parts", device="cuda:0", feature_cache="4GB")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize(
    ("device", "words"), [("cuda", "reaches no GPU"), ("cuda:7", "reaches no GPU"), ("cpu", "is no GPU"), ("gpu", "is no GPU")]
)
def test_a_device_that_is_not_there(tmp_path, device, words):
    halohop.partition(synthetic("tiny"), tmp_path / "parts", num_parts=1, method="random")
    with pytest.raises(InputError, match=words):
        halohop.open(tmp_path / "parts", device=device)


def test_lists_that_do_not_fit_are_refused(host, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(DevicePieces, "of", full)
    with pytest.raises(InputError, match="do not fit into cuda:0, which has 1073741824 free; take mode='zero_copy'"):
        device_graph(host, mode="cuda")


@pytest.mark.parametrize("mode", ["cpu", "cuda"])
def test_of_a_graph_of_several_hosts_the_host_draws(tmp_path, mode):
    tables = synthetic("tiny")
    halohop.partition(tables, tmp_path / "parts", num_parts=2, method="random")
    (relation,) = tables.edges
    gid = torch.arange(60)
    asked = HopQuery(relation=relation, fanout=3, dst_gid=gid)
    draw = Draw(seed=1, epoch=0, batch=2, hop=1)
    with hosts(tmp_path / "parts", [[0], [1]]) as (first, _):
        graph = device_graph(first, mode=mode)
        assert not graph.draws
        (expected,) = first.sample(SampleRequest(draw=draw, queries=(asked,))).answers
        near = HopQuery(relation=relation, fanout=3, dst_gid=pretended(gid))
        (found,) = graph.sample(SampleRequest(draw=draw, queries=(near,))).answers
        assert torch.equal(home(found.src_gid), expected.src_gid)
        (name,) = first.schema.nodes
        rows = [FetchRequest(queries=(RowQuery(table=name, columns=("x",), gid=ids),)) for ids in (gid, pretended(gid))]
        assert torch.equal(home(graph.fetch_stored(rows[1]).rows[0][0]), first.fetch_stored(rows[0]).rows[0][0])
