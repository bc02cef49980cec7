"""Features that are stored in fewer bytes: the same batches everywhere, of the numbers that are stored, in the user's dtype."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import HeteroData

import halohop
from halohop import Graph, LinkNeighborLoader, NeighborLoader, ops
from halohop.cluster.holding import Holding
from halohop.errors import InputError
from halohop.partitioning.building.narrowing import with_narrow_features
from halohop.pyg.convert import tables_from_pyg
from halohop.store.requests import FetchRequest, RowQuery
from halohop.testing.worlds import TOKEN, free_addresses, hosts

CITES, BACK = ("paper", "cites", "author"), ("author", "rev_cites", "paper")
DTYPES = ("float16", "bfloat16", "int8")


def data() -> HeteroData:
    """Two types of nodes whose features have other numbers, none of them zero, and edges with attributes of their own."""
    torch.manual_seed(0)
    graph = HeteroData()
    graph["paper"].x, graph["author"].x = torch.rand(80, 64) * 9 + 1, (torch.rand(30, 2, dtype=torch.float64) - 7) * 1e3
    graph["paper"].y, graph["paper"].other = torch.arange(80), torch.rand(80, 2)
    ends = torch.stack([torch.randint(80, (300,)), torch.randint(30, (300,))])
    graph[CITES].edge_index, graph[BACK].edge_index = ends, ends.flip(0)
    graph[CITES].edge_attr, graph[BACK].edge_attr = torch.rand(300, 2) + 3, torch.rand(300, 2) * 50 + 60
    return graph


def as_stored(graph: HeteroData, feature_dtype: str) -> HeteroData:
    """The graph with the numbers that are read again."""
    tables = with_narrow_features(tables_from_pyg(graph), feature_dtype)
    for key, table in (*tables.nodes.items(), *tables.edges.items()):
        for name, how in table.stored.items():
            rows = table.columns[name]
            graph[key][name] = ops.widened(ops.narrowed(rows, how), how, rows.dtype)
    return graph


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    found = {}
    for dtype in DTYPES:
        found[dtype] = tmp_path_factory.mktemp(dtype) / "parts"
        halohop.partition(data(), found[dtype], num_parts=3, method="random", feature_dtype=dtype)
    return found


@contextmanager
def on_hosts(folder: Path, **options: Any) -> Iterator[Graph]:
    with hosts(folder, [[0], [1, 2]], **options) as graphs:
        yield graphs[1]


@contextmanager
def with_copies(folder: Path) -> Iterator[Graph]:
    """A host that has copies of half as many nodes as it owns."""
    with tempfile.TemporaryDirectory() as copied:
        shutil.copytree(folder, copied, dirs_exist_ok=True)
        halohop.add_replicas(copied, halohop.Replicas(fanouts=[3, 2], batch_size=25, seeds=("paper", None), ratio=0.5))
        with on_hosts(Path(copied)) as graph:
            yield graph
            assert graph.statistics()["replica_rows"] > 0


@contextmanager
def on_servers(folder: Path, sampling: Any) -> Iterator[Graph]:
    with ExitStack() as stack:
        addresses = free_addresses(2)
        for address, share in zip(addresses, ([0], [1, 2]), strict=True):
            peers = [other for other in addresses if other != address]
            stack.enter_context(halohop.serve(folder, partitions=share, listen=address, peers=peers, token=TOKEN))
        yield stack.enter_context(halohop.connect(addresses, sampling=sampling, token=TOKEN))


PLACES: dict[str, Callable[[Path], Any]] = {
    "disk": halohop.open,
    "more than memory": lambda folder: halohop.open(folder, memory=0, hot_memory=300),
    "hosts": on_hosts,
    "hosts with a cache": lambda folder: on_hosts(folder, cache="1MB"),
    "hosts with copies": with_copies,
    "servers": lambda folder: on_servers(folder, "servers"),
    "servers, sampled here": lambda folder: on_servers(folder, "client"),
}
LOADERS: dict[str, Callable[..., Any]] = {
    "neighbours": lambda graph, **how: NeighborLoader(graph, [3, 2], ("paper", None), batch_size=25, **how),
    "padded": lambda graph, **how: NeighborLoader(
        graph, [3, 2], ("paper", torch.arange(75)), batch_size=25, pad="bound", drop_last=True, **how
    ),
    "flips": lambda graph, **how: NeighborLoader(
        graph, [3, 2], ("paper", None), batch_size=40, subgraph_type="bidirectional", **how
    ),
    "links": lambda graph, **how: LinkNeighborLoader(graph, [2], (CITES, None), batch_size=100, neg_sampling="binary", **how),
}


def assert_same(one: Any, other: Any) -> None:
    assert one.keys() == other.keys()
    for key, value in one.items():
        if isinstance(value, dict):
            assert_same(value, other[key])
        elif isinstance(value, torch.Tensor):
            assert value.dtype == other[key].dtype, key
            assert torch.equal(value, other[key]), key


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("dtype", ["int8", pytest.param("float16", marks=pytest.mark.full)])
def test_batches_have_the_numbers_that_are_stored(folders, dtype, place):
    graph = as_stored(data(), dtype)
    with PLACES[place](folders[dtype]) as opened:
        for make in LOADERS.values():
            batches = [batch.to_dict() for batch in make(opened, seed=4, num_workers=2)]
            expected = [batch.to_dict() for batch in make(graph, seed=4, run="inline")]
            assert len(batches) == len(expected) > 1
            for one, other in zip(batches, expected, strict=True):
                assert_same(one, other)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_are_stored_and_sent_narrow_and_read_wide(folders, dtype):
    graph, stored = as_stored(data(), dtype), getattr(torch, dtype)
    part = Holding.of(folders[dtype]).parts[1]
    assert part.nodes["author"].columns["x"].dtype == part.edges[CITES].columns["edge_attr"].dtype == stored
    assert part.nodes["paper"].columns["other"].dtype == torch.float32
    with halohop.open(folders[dtype]) as opened:
        rows = opened.rows("x", torch.arange(30), node_type="author")
        assert rows.dtype == torch.float64
        assert torch.equal(rows, graph["author"].x)
        query = RowQuery(table="author", columns=("x",), gid=torch.arange(30))
        assert opened.fetch_stored(FetchRequest(queries=(query,))).rows[0][0].dtype == stored
        query = RowQuery(table="paper", columns=("x",), gid=torch.tensor([3, -1]), padded=True)
        ((padded,),) = opened.fetch(FetchRequest(queries=(query,)))
        assert padded[1].count_nonzero() == 0


def test_batches_of_servers_are_narrow_on_their_way(folders, tmp_path):
    halohop.partition(data(), tmp_path / "parts", num_parts=3, method="random")
    received = {}
    for name, folder in (("narrow", folders["int8"]), ("wide", tmp_path / "parts")):
        with on_servers(folder, "servers") as graph:
            for _ in LOADERS["neighbours"](graph, seed=4, num_workers=0):
                pass
            received[name] = graph.statistics()["transport_bytes_received"]
    assert received["narrow"] < received["wide"] * 0.8


def test_a_graph_that_cannot_be_stored_so_leaves_nothing_behind(tmp_path):
    graph = data()
    graph["paper"].x[3, 1] = float("nan")
    with pytest.raises(InputError, match="column 'x' of 'paper' holds nan in row 3"):
        halohop.partition(graph, tmp_path / "parts", num_parts=2, feature_dtype="int8")
    assert not list(tmp_path.iterdir())
