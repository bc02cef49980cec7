"""A graph on a GPU answers as the graph that it was made of."""

import pytest
import torch

import halohop
from halohop.cluster.device import DeviceGraph, DeviceOptions
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
@pytest.mark.parametrize("cache", [0, 3000, 0.5, 1 << 28], ids=str)
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
    for options, words in (
        ({"mode": "gpu"}, "'gpu' is none of"),
        ({"feature_cache": 1.5}, "is no share"),
        ({"feature_cache": "4GB"}, r"4000000000 bytes, but cuda:0 has 1073741824 free"),
    ):
        with pytest.raises(InputError, match=words):
            device_graph(host, **options)
    for mode, cache in (("cuda", None), (None, "1GB")):
        with pytest.raises(InputError, match="is for GPUs; give device='cuda'"):
            DeviceOptions.of(None, mode, cache)
    assert DeviceOptions.of(None, None, None) is None


@pytest.mark.parametrize(
    ("rules", "query"),
    [
        (Rules(labor=True), {}),
        (Rules(), {"excluded": torch.arange(0, 500, 3)}),
    ],
    ids=["labor", "excluded"],
)
def test_what_the_device_does_not_draw_by_the_host_draws(host, rules, query):
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


def test_a_share_as_text_is_a_share():
    assert DeviceOptions(device="cuda:0", feature_cache="0.5").cache_bytes(1000) == 500
    assert DeviceOptions(device="cuda:0", feature_cache="1KB").cache_bytes(5000) == 1000
    with pytest.raises(InputError, match="is no share"):
        DeviceOptions(device="cuda:0", feature_cache="1.5")


def test_lists_that_do_not_fit_are_refused(host, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(DevicePieces, "of", full)
    with pytest.raises(InputError, match="do not fit into cuda:0, which has 1073741824 bytes free; take mode='zero_copy'"):
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
