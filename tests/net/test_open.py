"""Graphs on disk, opened whole, in pieces, and by several hosts over real sockets."""

import atexit
import gc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch_geometric.loader import NodeLoader

from halohop import HalohopFeatureStore, HalohopGraphStore, HalohopSampler, NeighborLoader, World, ops, partition
from halohop.cluster.graph import Graph
from halohop.cluster.holding import Holding
from halohop.cluster.router import PartitionOwner, Router
from halohop.errors import (
    ClusterError,
    CorruptDatasetError,
    DeadlineExceededError,
    IdError,
    InputError,
    PeerLostError,
    RemoteError,
    SchemaError,
    TransportError,
)
from halohop.net.messages import server_codec
from halohop.net.open import open_graph
from halohop.store.requests import FetchRequest, RowQuery
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.telemetry import Counters
from halohop.testing.worlds import TOKEN, hosts, partitioned
from halohop.transport import Limits, Token, tcp
from halohop.typing import EDGE, NODE


def graph_tables() -> GraphTables:
    generator = torch.Generator().manual_seed(0)
    src, dst = (torch.rand(2, 3000, generator=generator) ** 2 * 300).long()
    columns = {"x": torch.randn(300, 5, generator=generator), "y": torch.arange(300), "train_mask": torch.arange(300) % 2 == 0}
    raw_id = torch.randperm(300, generator=generator) + 1000
    return GraphTables(
        nodes={NODE: NodeTable(num_nodes=300, columns=columns, raw_id=raw_id)},
        edges={EDGE: EdgeTable(src=src, dst=dst, columns={"edge_attr": torch.rand(3000, 2)})},
    )


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("open") / "parts"
    partition(graph_tables(), path, num_parts=3, method="random")
    return path


def epoch(graph: Graph, **options) -> list[dict]:
    loader = NeighborLoader(graph, [4, 3], input_nodes="train", batch_size=32, shuffle=True, seed=9, **options)
    return [batch.to_dict() for batch in loader]


def assert_same(got: list[dict], expected: list[dict]) -> None:
    assert len(got) == len(expected) > 0
    for one, other in zip(got, expected, strict=True):
        assert one.keys() == other.keys()
        for key, value in other.items():
            assert torch.equal(one[key], value) if isinstance(value, torch.Tensor) else one[key] == value


@pytest.mark.parametrize("division", [[[0, 1], [2]], [[0], [1], [2]], [[0, 1, 2], []], [[2], [0, 2], [1], []]])
@pytest.mark.parametrize("threads", [0, 4])
def test_every_host_sees_the_same_batches(parts, division, threads):
    with open_graph(parts) as whole:
        expected = epoch(whole)
    with hosts(parts, division) as graphs:
        for graph, held in zip(graphs, division, strict=True):
            assert_same(epoch(graph, num_workers=threads), expected)
            statistics = graph.statistics()
            assert (statistics["remote_rows"] > 0) == (len(held) < 3)
            assert (statistics["local_rows"] > 0) == (len(held) > 0)
            graph.check_peers()


def timed_tables() -> GraphTables:
    tables = graph_tables()
    nodes = tables.nodes[NODE]
    columns = nodes.columns | {"seen": (nodes.columns["y"] * 37 % 100).double() / 7}
    return GraphTables(nodes={NODE: replace(nodes, columns=columns)}, edges=tables.edges)


@pytest.mark.parametrize("division", [pytest.param([[0], [1], [2]], marks=pytest.mark.full), [[2], [0, 2], [1], []]])
def test_times_of_nodes_on_other_hosts_are_known_along_the_edges(tmp_path, division):
    """Also: on one host the halo columns change no batch; and without them the hosts refuse, with the remedy."""
    tables = timed_tables()
    for name, halo in (("without", ()), ("with", ("seen",))):
        partition(tables, tmp_path / name, num_parts=3, method="random", halo=halo)
    with open_graph(tmp_path / "without") as one, open_graph(tmp_path / "with") as other:
        expected = epoch(one, time_attr="seen")
        assert_same(epoch(other, time_attr="seen"), expected)
        last = epoch(one, time_attr="seen", temporal_strategy="last")
        assert_same(epoch(other, time_attr="seen", temporal_strategy="last"), last)
    with hosts(tmp_path / "with", division) as graphs:
        for graph in graphs:
            assert_same(epoch(graph, time_attr="seen", num_workers=2), expected)
            assert_same(epoch(graph, time_attr="seen", temporal_strategy="last"), last)
    with hosts(tmp_path / "without", division) as graphs:
        for graph in graphs:
            with pytest.raises((SchemaError, RemoteError), match="--halo seen"):
                epoch(graph, time_attr="seen")


def test_all_hosts_close_together(parts):
    with hosts(parts, [[0, 1], [2]]) as graphs, ThreadPoolExecutor(2) as pool:
        closing = [pool.submit(graph.close) for graph in graphs]
        for future in closing:
            future.result(timeout=60)


def test_a_graph_that_nobody_closed_is_kept_and_closed_at_the_exit(parts, monkeypatch):
    kept = []  # what the interpreter would hold, and call at its end
    monkeypatch.setattr(atexit, "register", lambda call, **options: kept.append(call))
    monkeypatch.setattr(atexit, "unregister", lambda call: call in kept and kept.remove(call))
    with hosts(parts, [[0, 1], [2]]) as graphs, ThreadPoolExecutor(2) as pool:
        closing = list(kept)
        assert {call.__self__ for call in closing} == set(graphs)
        list(pool.map(lambda call: call(), closing, timeout=20))  # each waits until the other one asks no more
        assert kept == []
        with pytest.raises(TransportError, match="closed"):
            graphs[0].select()


def test_forked_processes_are_told_that_they_cannot_ask(parts):
    with hosts(parts, [[0, 1], [2]]) as graphs:
        sampler = HalohopSampler(graphs[0], [2])
        stores = (HalohopFeatureStore(graphs[0]), HalohopGraphStore(graphs[0]))
        loader = NodeLoader(stores, sampler, input_nodes=graphs[0].select()[1], batch_size=50, num_workers=1, timeout=20)
        with pytest.raises(ClusterError, match="a forked process cannot ask host 1"):
            list(loader)
        gc.collect()  # PyG's iterator, which the error refers to, ends its worker when it goes


def test_rows_are_counted_on_one_partition_too(parts):
    counted = []
    for num_parts in (1, 3):
        graph = partitioned(graph_tables(), num_parts)
        epoch(graph)
        found = graph.statistics()  # how often kernels are called depends on the partitions
        counted.append({name: number for name, number in found.items() if not name.endswith(("_seconds", "_calls"))})
    assert counted[0] == counted[1]
    assert counted[0]["local_rows"] > 0


def test_a_host_that_never_closes_is_named(parts):
    with hosts(parts, [[0, 1], [2]], deadline=1.0) as graphs, pytest.raises(ClusterError, match="rank 1 did not finish"):
        graphs[0].close()


def test_raw_ids_and_rows(parts):
    tables = graph_tables()
    with hosts(parts, [[0], [1, 2]]) as graphs:
        for graph in graphs:
            raw = tables.nodes[NODE].raw_id
            gid = graph.locate(raw)
            assert sorted(gid.tolist()) == list(range(300))
            ((y,),) = graph.fetch(FetchRequest(queries=(RowQuery(table=NODE, columns=("y",), gid=gid),)))
            assert torch.equal(y, tables.nodes[NODE].columns["y"])
            _, selected = graph.select("train")
            assert torch.equal(selected, raw[tables.nodes[NODE].columns["train_mask"]].sort().values)
            with pytest.raises(IdError, match="first is 7"):
                graph.locate(torch.tensor([1000, 7]))


def test_a_lost_host_is_named_within_the_deadline(parts):
    limits = Limits(call_seconds=1.5, attempt_seconds=0.3, connect_seconds=1.0)
    with hosts(parts, [[0, 1], [2]], limits=limits) as graphs:
        loader = iter(NeighborLoader(graphs[0], [4], input_nodes="train", batch_size=8))
        next(loader)
        graphs[1].shut(wait=False)
        with pytest.raises((PeerLostError, DeadlineExceededError), match="host 1"):
            list(loader)
        with pytest.raises(PeerLostError, match="host 1"):
            graphs[0].check_peers(deadline=2.0)


def test_another_data_set_at_a_lost_hosts_address_is_not_believed(parts, tmp_path):
    partition(graph_tables(), tmp_path / "other", num_parts=3, method="random", seed=1)
    other = Holding.of(tmp_path / "other")
    limits = Limits(call_seconds=2, attempt_seconds=0.5)
    options = {"codec": server_codec(), "token": TOKEN}
    with hosts(parts, [[0, 1], [2]], limits=limits) as graphs:
        address = graphs[1]._connections.server.address
        expected = epoch(graphs[0])
        graphs[1].shut(wait=False)
        with (
            tcp.serve(Router(*whole(other)).answer, bind=address, identity=other.identity, **options) as wrong,
            pytest.raises(
                PeerLostError, match=rf"'host 1'.*data set {other.fingerprint} with .*where a server of .* was expected"
            ),
        ):
            epoch(graphs[0])
        assert wrong.statistics()["calls"] == 0
        assert wrong.statistics()["sessions"] > 0
        right = Holding.of(parts)
        with tcp.serve(Router(*whole(right)).answer, bind=address, identity=right.identity, **options):
            assert_same(epoch(graphs[0]), expected)


def whole(holding: Holding) -> tuple:
    """What a router of all of a data set is made of."""
    pool, counters = ops.Pool(), Counters()
    owner = PartitionOwner(shard=holding.shard(pool, counters), parts=tuple(holding.parts))
    return holding.book, [owner], pool, counters


def test_one_host_needs_all_partitions(parts):
    with pytest.raises(ClusterError, match=r"partitions \[1\] of 3 are held by no host"):
        open_graph(parts, partitions=[0, 2])
    with pytest.raises(InputError, match=r"partitions \[5\] are not in"):
        open_graph(parts, partitions=[5])


def test_several_hosts_need_all_partitions_too(parts):
    with pytest.raises(ClusterError, match=r"partitions \[1\] of 3"), hosts(parts, [[0], [2]]):
        pass


def test_several_hosts_need_a_token(parts, monkeypatch):
    monkeypatch.delenv("HALOHOP_TOKEN", raising=False)
    with pytest.raises(InputError, match="HALOHOP_TOKEN"):
        open_graph(parts, world=World(size=2, num_hosts=2), board=dist.HashStore(), listen="0.0.0.0:0")


def test_another_token_is_refused(parts):
    from halohop.errors import AuthenticationError
    from halohop.net.remote import RemoteShard

    with hosts(parts, [[0, 1], [2]]) as graphs:
        stranger = tcp.connect(
            graphs[0]._connections.server.address, codec=server_codec(), token=Token("not the same secret"), peer="host 0"
        )
        with stranger, pytest.raises(AuthenticationError, match="host 0"):
            RemoteShard([stranger], call_seconds=20).ask(FetchRequest(queries=())).result(timeout=60)


def test_a_failing_peer_sends_its_traceback(parts):
    with hosts(parts, [[0, 1], [2]]) as graphs:
        channel = graphs[0]._connections.peers[0].shard.channels[0]
        gone = RowQuery(table=NODE, columns=("no such column",), gid=torch.tensor([299]))
        with pytest.raises(RemoteError, match="no such column") as caught:
            channel.call(FetchRequest(queries=(gone,)))
        assert "Traceback" in caught.value.remote_traceback


def test_a_port_in_use(parts):
    with hosts(parts, [[0, 1], [2]]) as graphs:
        address = graphs[0]._connections.server.address
        world = World(size=2, num_hosts=2)
        with pytest.raises(Exception, match=address.rsplit(":", 1)[1]):
            open_graph(parts, world=world, board=dist.HashStore(), token=TOKEN, listen=address)


def test_verify_reads_every_byte(parts, tmp_path):
    import shutil

    copy = shutil.copytree(parts, tmp_path / "parts")
    file = next(copy.glob("part-0001/nodes/node/x.npy"))
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(bytes(data))
    with pytest.raises(CorruptDatasetError, match=r"x\.npy"):
        open_graph(copy, verify=True)


def test_rows_by_the_users_ids_take_one_request_to_each_host(tmp_path: Path) -> None:
    """Columns of all widths together, sparse and narrowed ones too, of nodes and of edges; the owners are not asked for first."""
    tables, generator = graph_tables(), torch.Generator().manual_seed(1)
    columns = tables.nodes[NODE].columns
    columns["words"] = (torch.rand(300, 6, generator=generator) < 0.2).float().to_sparse()
    path = tmp_path / "parts"
    partition(tables, path, num_parts=3, method="random", feature_dtype="float16")
    raw, names = tables.nodes[NODE].raw_id, ["y", "words", "x", "train_mask"]
    assert raw is not None
    some, edges = torch.randint(300, (50,), generator=generator), torch.randint(3000, (70,), generator=generator)
    with hosts(path, [[0], [1], [2]], cache=None) as graphs:
        for graph in graphs:
            before = graph.statistics()
            found = graph.rows_by_id(NODE, names, raw[some])
            after = graph.statistics()
            assert after["transport_calls"] - before["transport_calls"] == 2
            for name, rows in zip(names, found, strict=True):
                wanted = columns[name].to_dense()[some]
                assert rows.dtype == wanted.dtype
                assert torch.equal(rows, wanted.half().float() if name == "x" else wanted), name
            asked = after["local_rows"] - before["local_rows"] + after["remote_rows"] - before["remote_rows"]
            assert asked == 50
            assert torch.equal(graph.rows("y", raw[some]), columns["y"][some])
            (weights,) = graph.rows_by_id(EDGE, ["edge_attr"], edges)
            assert torch.equal(weights, tables.edges[EDGE].columns["edge_attr"][edges].half().float())
            assert graph.statistics()["transport_calls"] - after["transport_calls"] == 4
            none, flat = graph.rows_by_id(NODE, ["x", "y"], raw[:0])
            assert (none.shape, none.dtype, flat.dtype) == ((0, 5), torch.float32, torch.int64)
            with pytest.raises(IdError, match=r"2 of 3 ids are not among the 300 nodes of 'node', the first is 7"):
                graph.rows_by_id(NODE, ["y", "words"], torch.tensor([1000, 7, 8]))
            with pytest.raises(IdError, match="1 of 2 edge ids are not among the 3000 edges"):
                graph.rows_by_id(EDGE, ["edge_attr"], torch.tensor([0, 3000]))
            with pytest.raises(InputError, match="must be one-dimensional"):
                graph.rows_by_id(NODE, ["y"], raw[:4].view(2, 2))
            with pytest.raises(SchemaError, match="nothing"):
                graph.rows_by_id(NODE, ["nothing"], raw[:4])
