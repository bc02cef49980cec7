"""The cache of rows of other hosts: the same rows as without it, within its bytes, and never an old one."""

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import torch

import halohop
from halohop import Graph, ops
from halohop.cluster.cache import RowCache
from halohop.cluster.landing import Landing
from halohop.errors import InputError
from halohop.loading.metrics import scrape
from halohop.store.requests import RowQuery
from halohop.store.schema import ColumnSpec, Schema, TableSpec
from halohop.store.tables import GraphTables, NodeTable
from halohop.testing.graphs import power_law
from halohop.testing.worlds import TOKEN, free_addresses
from halohop.typing import EDGE, EDGE_ID, NODE, RAW_ID, degree_column

NUM_NODES = 300


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tables = power_law(NUM_NODES, 5, dim=16, shuffled_ids=True)
    nodes = tables.nodes[NODE]
    words = torch.eye(8)[torch.arange(NUM_NODES) % 8].to_sparse()
    nodes = NodeTable(num_nodes=NUM_NODES, columns={**nodes.columns, "words": words}, raw_id=nodes.raw_id)
    path = tmp_path_factory.mktemp("cached") / "parts"
    halohop.partition(GraphTables(nodes={NODE: nodes}, edges=tables.edges), path, num_parts=2, method="random")
    return path


@contextmanager
def clients(folder: Path, count: int = 1, **options: object) -> Iterator[list[Graph]]:
    """Connected to two servers, so that every row is another process's."""
    with ExitStack() as stack:
        addresses = free_addresses(2)
        for part, address in enumerate(addresses):
            stack.enter_context(halohop.serve(folder, partitions=[part], listen=address, token=TOKEN))
        yield [stack.enter_context(halohop.connect(addresses, token=TOKEN, sampling="client", **options)) for _ in range(count)]


def table(count: int = 100, **columns: ColumnSpec) -> Schema:
    return Schema(nodes={NODE: TableSpec(count=count, columns=columns)}, edges={})


NOWHERE = Landing(RowQuery(table=NODE, columns=(), gid=torch.arange(0)), None, ops.Pool()).at(torch.arange(0))
X = ColumnSpec(dtype="float32", shape=(4,))


def taken(cache: RowCache, gid: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Which rows of the column "x" the cache had, these, and which it did not have."""
    landing = Landing(RowQuery(table=NODE, columns=("x",), gid=gid), None, ops.Pool())
    found = cache.take(NODE, ("x",), gid, landing.at(torch.arange(len(gid))))
    assert found is not None
    rows = landing.columns()[0][found.here] if landing.used else torch.empty(0, 4)
    return found.here, rows, found.missing


def rows_of(gid: torch.Tensor) -> torch.Tensor:
    return gid[:, None] * 10.0 + torch.arange(4)


def test_rows_come_from_the_cache_the_second_time(folder):
    gid, columns = torch.arange(NUM_NODES).flip(0), ("x", "y", RAW_ID, degree_column(EDGE))
    with clients(folder, cache="1MB") as (graph,), halohop.open(folder) as whole:
        expected = whole.fetch_rows(NODE, columns, gid)
        for asked, from_cache in ((NUM_NODES, 0), (0, NUM_NODES)):
            before = graph.statistics()
            found = graph.fetch_rows(NODE, columns, gid)
            after = graph.statistics()
            assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
            assert after["remote_rows"] - before["remote_rows"] == asked
            assert after.get("cache_rows", 0) - before.get("cache_rows", 0) == from_cache
        assert after["cache_bytes"] == sum(column.nbytes for column in expected)
        assert after["cache_kept_rows"] == NUM_NODES
        by_peer = graph.statistics_by_peer().values()
        assert (
            sum(counted["cache_rows"] for counted in by_peer) == sum(counted["remote_rows"] for counted in by_peer) == NUM_NODES
        )


@pytest.mark.parametrize(("options", "kept"), [({}, NUM_NODES), ({"cache": "auto"}, NUM_NODES), ({"cache": None}, 0)], ids=str)
def test_rows_are_kept_unless_one_says_otherwise(folder, options, kept):
    with clients(folder, **options) as (graph,):
        for _ in range(2):
            graph.fetch_rows(NODE, ("x", RAW_ID), torch.arange(NUM_NODES))
        counted = graph.statistics()
    assert counted.get("cache_rows", 0) == counted.get("cache_missed_rows", 0) == kept
    assert counted["remote_rows"] == 2 * NUM_NODES - kept


def test_metrics_show_what_the_cache_answered(folder):
    with clients(folder, cache="1MB") as (graph,):
        for _ in range(2):
            graph.fetch_rows(NODE, ("x",), torch.arange(NUM_NODES))
        with halohop.metrics(graph, listen=":0") as endpoint:
            counted = scrape(endpoint.address)
    assert (counted.sums["cache_rows"], counted.sums["cache_kept_rows"]) == (NUM_NODES, NUM_NODES)
    assert counted.sums["cache_bytes"] == NUM_NODES * 16 * 4
    assert sum(peer["cache_bytes"] for peer in counted.peers.values()) == NUM_NODES * 16 * 4


def test_a_part_of_the_rows_and_other_columns(folder):
    with clients(folder, cache="1MB") as (graph,), halohop.open(folder) as whole:
        graph.fetch_rows(NODE, ("x", "y"), torch.arange(0, NUM_NODES, 3))
        for columns in (("y",), ("y", "x"), ("x", "train_mask"), ("train_mask",), ("x", "words"), ()):
            for gid in (
                torch.arange(50),
                torch.arange(49, -1, -1),
                torch.tensor([3, 3, 4, 3]),
                torch.empty(0, dtype=torch.int64),
            ):
                found, expected = (one.fetch_rows(NODE, columns, gid) for one in (graph, whole))
                assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
        assert graph.statistics()["cache_rows"] > 0


def test_rows_that_clients_write_are_never_kept(folder):
    with clients(folder, 2, cache="1MB") as (one, other):
        raw = one.select()[1][:100]
        for value, writer in enumerate((one, other, one)):
            expected = torch.full((100, 2), float(value))
            halohop.DistTensor(writer, (None, 2), name="state", node_type=NODE)[raw] = expected
            for reader in (one, other):
                assert torch.equal(halohop.DistTensor.attach(reader, "state")[raw], expected)


def test_edges_and_sparse_columns_are_fetched_anew(folder):
    with clients(folder, cache="1MB") as (graph,):
        for _ in range(2):
            graph.fetch_rows(EDGE, (EDGE_ID, "weight"), torch.arange(20))
            graph.fetch_rows(NODE, ("words",), torch.arange(20))
        assert "cache_rows" not in graph.statistics()


def test_the_room_is_kept_to():
    """Some rows of each batch push out others; what is found is right, and the memory stays what it was."""
    cache = RowCache(table(count=10_000, x=X), 20_000, ops.Pool())
    generator = torch.Generator().manual_seed(0)
    for _ in range(30):
        gid = torch.randint(10_000, (400,), generator=generator)
        here, rows, away = taken(cache, gid)
        assert torch.equal(here.sort().values, torch.tensor(sorted({*range(400)} - {*away.tolist()})))
        assert torch.equal(rows, rows_of(gid[here]))
        missing = gid[away]
        cache.keep(NODE, ("x",), missing, ((rows_of(missing),), {}))
    kept = cache._tables[NODE]
    assert 15_000 < sum(column.nbytes for column in kept.columns.values()) + 18 * kept.num_kept <= 20_000
    assert 0 < cache.statistics()["cache_kept_rows"] <= 20_000 // 34


def test_node_types_share_the_room_by_the_size_of_their_rows():
    schema = Schema(nodes={"a": TableSpec(count=1000, columns={"x": X}), "b": TableSpec(count=3000, columns={"x": X})}, edges={})
    cache = RowCache(schema, 16_000, ops.Pool())
    gid = torch.arange(1000)
    for name in "ab":
        cache.keep(name, ("x",), gid, ((rows_of(gid),), {}))
    sizes = {name: kept.columns["x"].nbytes + 18 * len(kept.columns["x"]) for name, kept in cache._tables.items()}
    assert 3_500 < sizes["a"] <= 4_000
    assert 11_000 < sizes["b"] <= 12_000


def test_too_little_room_for_a_row_keeps_none():
    cache = RowCache(table(x=ColumnSpec(dtype="float32", shape=(1000,))), 5_000, ops.Pool())
    gid = torch.arange(3)
    cache.keep(NODE, ("x",), gid, ((torch.ones(3, 1000),), {}))
    assert len(taken(cache, gid)[0]) == 0
    assert cache.statistics() == {"cache_kept_rows": 0, "cache_kept_bytes": 0, "cache_missed_rows": 3}


def test_a_cache_never_takes_more_than_the_nodes_need():
    cache = RowCache(table(x=X), 1 << 40, ops.Pool())
    gid = torch.arange(100)
    cache.keep(NODE, ("x",), gid, ((rows_of(gid),), {}))
    assert cache._tables[NODE].columns["x"].nbytes < 100 * 16 * 4
    assert len(taken(cache, gid)[0]) == 100


def test_rows_that_are_never_needed_again_are_hardly_kept():
    """Of a stream of new rows every eighth answer is kept, when the room was filled twice; when rows come again, all are."""
    cache = RowCache(table(count=1 << 20, x=X), 8_000, ops.Pool())

    def is_kept(gid: torch.Tensor) -> bool:
        _, _, away = taken(cache, gid)
        cache.keep(NODE, ("x",), gid[away], ((rows_of(gid[away]),), {}))
        return len(ops.known_places(cache._tables[NODE].index.find(gid, 1))) > len(gid) // 2

    kept = [is_kept(torch.arange(100 * batch, 100 * batch + 100)) for batch in range(101)]
    assert all(kept[:4])
    assert sum(kept[20:100]) == 10
    again = [is_kept(torch.arange(30)) for _ in range(60)]
    assert all(again[20:])
    assert all(is_kept(torch.arange(100 * batch, 100 * batch + 100)) for batch in range(4))


def test_threads_find_whole_rows():
    cache = RowCache(table(count=1000, x=X), 8_000, ops.Pool())

    def work(seed: int) -> int:
        generator, hits = torch.Generator().manual_seed(seed), 0
        for _ in range(100):
            gid = torch.randint(1000, (64,), generator=generator)
            here, rows, away = taken(cache, gid)
            assert torch.equal(rows, rows_of(gid[here]))
            hits += len(here)
            missing = gid[away]
            cache.keep(NODE, ("x",), missing, ((rows_of(missing),), {}))
        return hits

    with ThreadPoolExecutor(4) as pool:
        assert all(hits > 0 for hits in pool.map(work, range(4), timeout=60))


def test_a_forked_process_does_not_wait_for_its_parents_lock():
    cache = RowCache(table(x=X), 10_000, ops.Pool())
    gid = torch.arange(10)
    cache.keep(NODE, ("x",), gid, ((rows_of(gid),), {}))

    def child() -> None:
        assert cache.take(NODE, ("x",), gid, NOWHERE) is None
        cache.keep(NODE, ("x",), gid, ((rows_of(gid),), {}))

    with cache._tables[NODE].lock:
        process = multiprocessing.get_context("fork").Process(target=child)
        process.start()
        process.join(60)
    assert process.exitcode == 0
    assert len(taken(cache, gid)[0]) == 10


@pytest.mark.parametrize("size", ["much", 0, -5, True])
def test_no_size_is_refused(folder, size):
    with pytest.raises(InputError, match="size"), clients(folder, cache=size):
        pass
