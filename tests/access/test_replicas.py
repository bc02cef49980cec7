"""Copies of other partitions' rows and lists: what is chosen, how it lies on the disk, and that answers stay the owners'."""

import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch

import halohop
from halohop import Replicas, add_replicas, ops
from halohop.cluster.holding import Holding
from halohop.errors import CorruptDatasetError, DatasetError, IdError, InputError
from halohop.store.disk import map_part, map_replica, read_manifest, verify_parts
from halohop.store.draw import Draw, Rules
from halohop.store.requests import HopQuery, SampleRequest
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.telemetry import Counters
from halohop.testing.graphs import power_law
from halohop.testing.worlds import TOKEN, free_addresses, hosts
from halohop.typing import EDGE, EDGE_ID, NODE, RAW_ID, degree_column

NUM_NODES = 240
PLAN = Replicas(fanouts=[4, 3], batch_size=8, ratio=0.4, lists=True)


def tables() -> GraphTables:
    """With a sparse column, and hubs."""
    graph = power_law(NUM_NODES, 6, seed=5, shuffled_ids=True, dim=3)
    words = torch.zeros(NUM_NODES, 7)
    words[torch.arange(NUM_NODES), torch.arange(NUM_NODES) % 7] = torch.arange(NUM_NODES).float() + 1
    nodes = graph.nodes[NODE]
    columns = {**nodes.columns, "words": words.to_sparse(), "time": torch.arange(NUM_NODES)}
    return GraphTables(nodes={NODE: NodeTable(num_nodes=NUM_NODES, columns=columns, raw_id=nodes.raw_id)}, edges=graph.edges)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plain") / "parts"
    halohop.partition(tables(), folder, num_parts=3, method="random")
    return folder


@pytest.fixture(scope="module")
def copied(plain: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("copied") / "parts"
    shutil.copytree(plain, folder)
    add_replicas(folder, PLAN)
    return folder


def gids_of(path: Path, part: int) -> torch.Tensor:
    replica = map_replica(path, read_manifest(path), part)
    assert replica is not None
    return replica.gid[NODE]


def test_each_partition_copies_the_hottest_of_the_others(plain, tmp_path):
    folder = Path(shutil.copytree(plain, tmp_path / "parts"))
    reports = add_replicas(folder, PLAN)
    with halohop.open(folder) as graph:
        bounds, order = graph.book.nodes[NODE], graph.select(None)[0]
        hot = halohop.placement.hotness(graph, "train", [4, 3], batch_size=8, locality="owner")[NODE]
    room = int(0.4 * NUM_NODES / 3)
    for part, report in enumerate(reports):
        by_gid = torch.empty(NUM_NODES).index_copy_(0, order, hot[part])
        by_gid[bounds[part] : bounds[part + 1]] = 0
        found = gids_of(folder, part)
        assert len(found) == report.rows == room
        assert torch.equal(found, found.unique())
        assert by_gid[found].sum() == pytest.approx(float(by_gid.topk(room).values.sum()), rel=1e-5)
        assert report.remote_rows == pytest.approx(float(by_gid.sum()), rel=1e-4)
        assert report.remote_rows_left == pytest.approx(float(by_gid.sum() - by_gid[found].sum()), rel=1e-4)
    parts = [map_part(folder, read_manifest(folder), part).nodes[NODE].hotness for part in range(3)]
    torch.testing.assert_close(torch.cat(parts), hot.mean(0)[order.argsort()])
    assert read_manifest(folder).replicas.made["fanouts"] == {"node__to__node": [4, 3]}


def test_memory_bounds_what_is_copied(plain, tmp_path):
    folder = Path(shutil.copytree(plain, tmp_path / "parts"))
    for lists in (False, True):
        reports = add_replicas(folder, Replicas(fanouts=[4, 3], batch_size=8, memory=5_000, lists=lists))
        for report in reports:
            headers = 128 * len(
                [file for file in read_manifest(folder).files if file.startswith(f"part-000{report.part}/replicas/")]
            )
            assert 2_500 < report.bytes - headers < 5_600


def test_rows_lists_and_degrees_are_the_owners(plain, copied):
    """Everything that can be asked of one node, of all nodes, from a host that has copied some."""
    gid = torch.arange(NUM_NODES)
    columns = ("x", "y", "train_mask", "words", "time", RAW_ID, degree_column(EDGE))
    queries = [HopQuery(relation=EDGE, fanout=fanout, dst_gid=gid) for fanout in (-1, 3)]
    excluded = torch.arange(0, tables().edges[EDGE].num_edges, 3)
    queries.append(HopQuery(relation=EDGE, fanout=3, dst_gid=gid, excluded=excluded))
    edge_gid = torch.arange(tables().edges[EDGE].num_edges).flip(0)
    with halohop.open(plain) as whole, hosts(copied, [[0], [1], [2]]) as (graph, *_):
        for rules in (Rules(), Rules(replace=True), Rules(weight="weight"), Rules(time="time", disjoint=True)):
            request = SampleRequest(draw=Draw(seed=1, epoch=2, batch=3, hop=0, rules=rules), queries=tuple(queries))
            for one, other in zip(graph.sample(request).answers, whole.sample(request).answers, strict=True):
                for name in ("counts", "src_gid", "edge_gid"):
                    assert getattr(one, name).dtype == getattr(other, name).dtype
                    assert torch.equal(getattr(one, name), getattr(other, name))
        for table, ids, names in ((NODE, gid, columns), (EDGE, edge_gid, (EDGE_ID, "edge_attr", "weight", "time"))):
            for one, other in zip(graph.fetch_rows(table, names, ids), whole.fetch_rows(table, names, ids), strict=True):
                assert one.dtype == other.dtype
                assert torch.equal(one, other)
        assert graph.statistics()["replica_rows"] > 0


def test_copied_rows_are_not_asked_of_their_owners(plain, copied):
    found = gids_of(copied, 0)
    for folder, left in ((plain, len(found)), (copied, 0)):
        with hosts(folder, [[0], [1], [2]]) as (graph, *_):
            before = graph.statistics()
            (x,) = graph.fetch_rows(NODE, ["x"], found)
            after = graph.statistics()
            assert after["remote_rows"] - before["remote_rows"] == left
            assert after.get("replica_rows", 0) - before.get("replica_rows", 0) == len(found) - left
            if not left:
                assert after["replica_bytes"] - before.get("replica_bytes", 0) == x.nbytes
                by_peer = graph.statistics_by_peer()
                assert sorted(by_peer) == ["host 1", "host 2"]
                assert sum(counted["replica_rows"] for counted in by_peer.values()) == len(found)


@pytest.mark.parametrize("dtype", ["int8", "float16"])
def test_narrow_features_are_copied_and_kept_as_they_are_stored(tmp_path, dtype):
    folder = tmp_path / "parts"
    halohop.partition(tables(), folder, num_parts=2, method="random", feature_dtype=dtype)
    add_replicas(folder, PLAN)
    gid = torch.arange(NUM_NODES)
    with halohop.open(folder) as whole, hosts(folder, [[0], [1]], cache="1MB") as (graph, _):
        (expected,) = whole.fetch_rows(NODE, ["x"], gid)
        for _ in range(2):
            (found,) = graph.fetch_rows(NODE, ["x"], gid)
            assert found.dtype == torch.float32
            assert torch.equal(found, expected)
        assert graph.statistics()["replica_rows"] > 0
        assert graph.statistics()["cache_rows"] > 0
    copied = map_replica(folder, read_manifest(folder), 0)
    assert copied.part.nodes[NODE].columns["x"].dtype == getattr(torch, dtype)


def test_what_is_drawn_by_but_not_copied_is_asked_of_the_owners(tmp_path):
    """Ids of neighbours that no list holds: copies cannot draw by them, nor an owner alone, but one that holds everything."""
    graph = power_law(60, 4, seed=1)
    nodes = NodeTable(num_nodes=60, columns={**graph.nodes[NODE].columns, "when": torch.arange(60)})
    edges = {EDGE: EdgeTable(src=graph.edges[EDGE].src, dst=graph.edges[EDGE].dst)}
    timed, folder = GraphTables(nodes={NODE: nodes}, edges=edges), tmp_path / "parts"
    halohop.partition(timed, folder, num_parts=2, method="random", halo=("when",))
    add_replicas(folder, PLAN)
    with halohop.open(folder) as whole, hosts(folder, [[0], [0, 1]]) as (here, _):
        for rules, at_home in ((Rules(time="when", disjoint=True), True), (Rules(labor=True), False)):
            request = SampleRequest(
                draw=Draw(seed=1, epoch=0, batch=0, hop=0, rules=rules),
                queries=(HopQuery(relation=EDGE, fanout=2, dst_gid=gids_of(folder, 0)),),
            )
            before = here.statistics().get("replica_rows", 0)
            (one,), (other,) = here.sample(request).answers, whole.sample(request).answers
            assert torch.equal(one.edge_gid, other.edge_gid)
            assert (here.statistics().get("replica_rows", 0) > before) is at_home


def test_rows_of_tables_are_the_owners(copied):
    """A copy holds what is stored, and what clients write is only with its owner: so no copy is ever stale."""
    with halohop.open(copied) as graph:
        raw = graph.fetch_rows(NODE, [RAW_ID], gids_of(copied, 0))[0]
    with ExitStack() as stack:
        addresses = free_addresses(2)
        for address, share in zip(addresses, ([0], [1, 2]), strict=True):
            stack.enter_context(halohop.serve(copied, partitions=share, listen=address, token=TOKEN))
        client = stack.enter_context(halohop.connect(addresses, token=TOKEN, sampling="client"))
        state = halohop.DistTensor(client, (None, 2), name="state", node_type=NODE)
        for value in (1.0, 2.0):
            state[raw] = value
            assert torch.equal(state[raw], torch.full((len(raw), 2), value))


def test_given_columns_of_copies_are_given_too(copied):
    raw = tables().nodes[NODE].raw_id
    columns = {NODE: {"mark": (raw, raw * 10)}}
    with hosts(copied, [[0], [1], [2]], columns=columns) as (graph, *_):
        found = gids_of(copied, 0)
        ids, marks = graph.fetch_rows(NODE, [RAW_ID, "mark"], found)
        assert torch.equal(marks, ids * 10)
        assert graph.statistics()["remote_rows"] == 0


def test_given_columns_without_rows_of_copies_are_asked_of_the_owners(copied):
    with halohop.open(copied) as graph:
        (raw,) = graph.fetch_rows(NODE, [RAW_ID], torch.arange(*graph.book.nodes[NODE][:2]))
    holding = Holding.of(copied, partitions=[0]).with_columns({NODE: {"mark": (raw, raw * 10)}})
    pool, counters = ops.Pool(), Counters()
    (copies,) = holding.owner(holding.shard(pool, counters), pool, counters).replicas
    gid = gids_of(copied, 0)
    assert copies.rows(NODE, gid, ("x", "mark")) is None
    assert copies.rows(NODE, gid, ("x",)).tolist() == list(range(len(gid)))


def test_a_new_set_takes_the_place_of_the_old_one(plain, tmp_path):
    folder = Path(shutil.copytree(plain, tmp_path / "parts"))
    own = read_manifest(folder).files
    add_replicas(folder, PLAN)
    first = read_manifest(folder)
    assert set(own) < set(first.files)
    stray = folder / "part-0001/replicas/0123.partial-00000000-00000000"  # what a killed writer leaves
    stray.mkdir()
    verify_parts(folder)
    add_replicas(folder, Replicas(fanouts=[2], batch_size=4, ratio=0.1))
    second = read_manifest(folder)
    assert second.replicas.name != first.replicas.name
    assert [entry.name for entry in (folder / "part-0001/replicas").iterdir()] == [second.replicas.name]
    assert len(gids_of(folder, 1)) == 8
    add_replicas(folder, None)
    assert read_manifest(folder).files == own
    assert read_manifest(folder).replicas is None
    assert not list((folder / "part-0001/replicas").iterdir())
    verify_parts(folder)


def test_users_name_what_is_copied(plain, tmp_path):
    folder = Path(shutil.copytree(plain, tmp_path / "parts"))
    add_replicas(folder, PLAN)  # of which nothing is left
    raw = tables().nodes[NODE].raw_id
    reports = add_replicas(folder, [{NODE: raw[:50]}, {}, {NODE: raw[[9, 200, 9]]}])
    with halohop.open(folder) as graph:
        for part, wanted in enumerate((raw[:50], raw[:0], raw[[9, 200]])):
            ids, rows = halohop.placement.read_replicas(folder, part)[NODE]
            others = wanted[graph.owners(wanted) != part]
            assert ids.sort().values.tolist() == others.sort().values.tolist()
            assert reports[part].rows == len(others)
            for name in ("x", "y", "words"):
                assert torch.equal(rows[name].to_dense(), graph.rows(name, ids))
    manifest = read_manifest(folder)
    assert map_part(folder, manifest, 0).nodes[NODE].hotness is None
    assert not manifest.replicas.lists
    verify_parts(folder)
    with hosts(folder, [[0], [1], [2]]) as (graph, *_):
        before = graph.statistics()["remote_rows"]
        graph.fetch_rows(NODE, ["x"], gids_of(folder, 0))
        assert graph.statistics()["remote_rows"] == before
    assert halohop.placement.read_replicas(plain, 0) == {}
    with pytest.raises(InputError, match="for 2 partitions, and there are 3"):
        add_replicas(folder, [{}, {}])
    with pytest.raises(IdError, match="not among the 240 nodes"):
        add_replicas(folder, [{NODE: torch.tensor([-5])}, {}, {}])


def test_the_same_options_make_the_same_bytes(plain, tmp_path):
    folders = [Path(shutil.copytree(plain, tmp_path / name)) for name in "ab"]
    for folder in folders:
        add_replicas(folder, PLAN)
    one, other = [
        {file.relative_to(folder): file.read_bytes() for file in folder.rglob("*") if file.is_file()} for folder in folders
    ]
    assert one == other


def test_a_failure_leaves_the_data_set_as_it_was(plain, tmp_path, monkeypatch):
    folder = Path(shutil.copytree(plain, tmp_path / "parts"))
    add_replicas(folder, PLAN)
    before = (folder / "manifest.json").read_bytes()

    def full(self, first, rows):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("halohop.store.npy.ArrayFile.write", full)
    with pytest.raises(OSError, match="No space left"):
        add_replicas(folder, Replicas(fanouts=[2], batch_size=4, ratio=0.1))
    monkeypatch.undo()
    assert (folder / "manifest.json").read_bytes() == before
    verify_parts(folder)
    assert len(gids_of(folder, 0)) == 32


def test_damage_is_found(copied, tmp_path):
    folder = Path(shutil.copytree(copied, tmp_path / "parts"))
    manifest = read_manifest(folder)
    file = folder / next(path for path in manifest.files if "/replicas/" in path and path.endswith("/x.npy"))
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(CorruptDatasetError, match="replicas"):
        verify_parts(folder)
    file.unlink()
    with pytest.raises(DatasetError, match="replicas"):
        Holding.of(folder, partitions=[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ratio": None}, "give one of ratio and memory, more than 0; got none"),
        ({"memory": 10}, "give one of ratio and memory, more than 0; got 0.1 and 10"),
        ({"ratio": -0.1}, r"more than 0; got -0\.1"),
        ({"method": "guess"}, "method='guess'"),
        ({"locality": "near"}, "locality='near'"),
        ({"weight_attr": "w"}, "no relation has weights 'w'"),
    ],
)
def test_what_cannot_be_is_refused(plain, options, message):
    with pytest.raises(InputError, match=message):
        add_replicas(plain, Replicas(**{"fanouts": [2], "batch_size": 4, "ratio": 0.1, **options}))


def test_all_partitions_must_be_here(plain, tmp_path):
    folder = Path(shutil.copytree(plain, tmp_path / "parts"))
    shutil.rmtree(folder / "part-0001")
    with pytest.raises(InputError, match=r"partitions \[1\] are not in"):
        add_replicas(folder, PLAN)
