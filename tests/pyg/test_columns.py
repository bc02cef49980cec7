"""Only the columns that are asked for: every loader, wherever the graph lies; nothing else is read or sent."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch_geometric.data import Data, HeteroData

import halohop
from halohop import LinkNeighborLoader, NeighborLoader
from halohop.cluster.shard import LocalShard
from halohop.errors import InputError, SchemaError
from halohop.pyg.live import LiveRows
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.typing import EDGE, NODE
from tests.pyg.test_everywhere import (
    BACK,
    CITES,
    HALO,
    LOADERS,
    PLACES,
    SOURCES,
    WRITES,
    assert_same_batches,
    on_hosts,
    on_servers,
    typed_data,
)

pytestmark = pytest.mark.xdist_group("columns")  # one process makes the fixtures of the module

COLUMNED = {name: made for name, made in LOADERS.items() if name != "function"}
"""Without that whose batches are what a user's function returns."""

CHOSEN: dict[str, dict[str, Any]] = {
    "typed": {"node_columns": {"paper": ["x"], "author": ("when", "x")}, "edge_columns": ["edge_attr"]},
    "plain": {"node_columns": ["y"], "edge_columns": []},
}
LEFT_OUT = {"typed": {"paper": {"when"}, "venue": {"x", "when"}, CITES: {"time", "weight"}}, "plain": {None: {"x"}}}
LEFT_OUT["typed"] |= dict.fromkeys((WRITES, BACK), LEFT_OUT["typed"][CITES])
MODES: dict[str, Callable[[str, Path], Any]] = {
    "in memory": lambda name, _: nullcontext(SOURCES[name]()),
    "disk": PLACES["disk"],
    # Without a cache: a loader's rows would be there from the one before.
    "hosts": lambda _, folder: on_hosts(folder, cache=None),
    "servers": lambda _, folder: on_servers(folder, "servers", cache=None),
    "servers, sampled here": lambda _, folder: on_servers(folder, "client", cache=None),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    found = {}
    for name, make in SOURCES.items():
        found[name] = tmp_path_factory.mktemp(name) / "parts"
        halohop.partition(make(), found[name], num_parts=3, method="random", halo=HALO if name == "typed" else ("raw_id",))
    return found


def reduced(batch: dict[str, Any], source: str) -> dict[str, Any]:
    """A whole batch without what is not asked for."""
    left_out = LEFT_OUT[source]
    if source == "plain":
        return {key: value for key, value in batch.items() if key not in left_out[None]}
    kept = {}
    for table, store in batch.items():
        kept[table] = {key: value for key, value in store.items() if key not in left_out.get(table, ())}
        if table == "venue":
            kept[table] = {"num_nodes": len(store["n_id"])} | kept[table]
    return kept


@pytest.fixture(scope="module")
def expected() -> dict[str, list[dict[str, Any]]]:
    found = {}
    for name, (source, make) in COLUMNED.items():
        loader = make(SOURCES[source](), seed=4, run="inline")
        found[name] = [reduced(batch.to_dict(), source) for _ in range(2) for batch in loader]
    return found


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> set[tuple[Any, str]]:
    """What partitions are asked for, in this process and by the servers and hosts in it: tables and columns."""
    asked: set[tuple[Any, str]] = set()
    fetch = LocalShard._fetch

    def noted(self: LocalShard, queries: Any, sites: Any) -> Any:
        asked.update((query.table, name) for query in queries for name in query.columns if name[0] != "\0")
        return fetch(self, queries, sites)

    monkeypatch.setattr(LocalShard, "_fetch", noted)
    return asked


WANTED = {
    "typed": {("paper", "x"), ("author", "x"), ("author", "when"), *((name, "edge_attr") for name in (CITES, WRITES, BACK))},
    "plain": {(NODE, "y")},
}


REPEATED = ("hosts", "servers")  # what "servers, sampled here" shows already


@pytest.mark.parametrize("mode", [pytest.param(name, marks=[pytest.mark.full] * (name in REPEATED)) for name in MODES])
def test_batches_have_the_columns_asked_for_and_no_others_are_read(folders, expected, read, mode):
    for source in SOURCES:
        with MODES[mode](source, folders[source]) as graph:
            for name, (needed, make) in COLUMNED.items():
                if needed == source:
                    loader = make(graph, seed=4, num_workers=2, **CHOSEN[source])
                    read.clear()  # of making it: the times of seeds
                    try:
                        assert_same_batches(loader, expected[name], 1)
                        assert read == (set() if mode == "in memory" else WANTED[source])
                    except Exception as error:
                        error.add_note(f"loader: {name}")
                        raise


@pytest.mark.parametrize("name", ["uniform", "links, binary", "padded"])
def test_processes_bring_the_same(folders, expected, name):
    source, make = COLUMNED[name]
    with halohop.open(folders[source]) as graph:
        assert_same_batches(make(graph, seed=4, run="processes", num_workers=2, **CHOSEN[source]), expected[name])


def test_a_loader_goes_on_with_other_columns(folders):
    """The state of a loader says nothing of columns: batches are the same otherwise."""
    source, make = COLUMNED["uniform"]
    with halohop.open(folders[source]) as graph:
        stopped, whole = make(graph, seed=4, **CHOSEN[source]), make(graph, seed=4)
        next(iter(stopped))
        later = make(graph, seed=4, node_columns=[], edge_columns=[])
        later.load_state_dict(stopped.state_dict())
        for batch, other in zip(later, list(whole)[1:], strict=True):
            assert batch["paper"].n_id.equal(other["paper"].n_id)
            assert "x" not in batch["paper"]
            assert batch["paper"].num_nodes == other["paper"].num_nodes


@pytest.mark.parametrize("mode", ["memory", "shared", "open", "hosts", "servers", "client"])
def test_transform_sees_what_came(tmp_path, mode):
    """Of five columns two; and without any: nodes and edges still have their numbers, ids and seeds."""
    data = wide_data()
    halohop.partition(data, tmp_path / "parts", num_parts=3, method="random")
    with opened(tmp_path / "parts", data, mode) as graph:
        for columns, expected in (({"node_columns": ["y"], "edge_columns": ["w"]}, {"y", "w"}), (NOTHING, set())):
            seen: list[set[str]] = []

            def note(batch: Data, seen: list[set[str]] = seen) -> Data:
                seen.append({name for name in ("x", "y", "wide", "w", "edge_attr") if name in batch})
                assert batch.num_nodes == len(batch.n_id)
                assert batch.num_edges == len(batch.e_id)
                assert batch.input_id.tolist() == batch.n_id[: batch.batch_size].tolist()
                return batch

            batches = list(NeighborLoader(graph, [3], batch_size=50, transform=note, **columns))
            assert len(batches) == 4
            assert seen == [expected] * 4


NOTHING: dict[str, Any] = {"node_columns": [], "edge_columns": []}


def wide_data() -> Data:
    torch.manual_seed(0)
    data = Data(x=torch.rand(200, 4), y=torch.arange(200), wide=torch.rand(200, 1000), num_nodes=200)
    data.edge_index = torch.randint(200, (2, 900))
    data.w, data.edge_attr = torch.rand(900), torch.rand(900, 500)
    return data


def opened(parts: Path, data: Any, mode: str) -> Any:
    if mode == "memory":
        return nullcontext(data)
    if mode == "shared":
        return nullcontext(halohop.graph(data))
    if mode == "open":
        return halohop.open(parts)
    return on_hosts(parts, cache=None) if mode == "hosts" else on_servers(parts, mode, cache=None)


@pytest.mark.parametrize("mode", ["hosts", "servers", "client"])
def test_bytes_of_other_columns_are_not_sent(tmp_path, mode):
    """What is received less is at least what the rows of the two wide columns weigh that were on another host or server."""
    data = wide_data()
    halohop.partition(data, tmp_path / "parts", num_parts=3, method="random")
    received, rows = {}, {}
    for name, columns in {"all": {}, "two": {"node_columns": ["y"], "edge_columns": ["w"]}, "none": NOTHING}.items():
        with opened(tmp_path / "parts", data, mode) as graph:
            before = graph.statistics()["transport_bytes_received"]
            batches = list(NeighborLoader(graph, [3], batch_size=50, seed=1, **columns))
            received[name] = graph.statistics()["transport_bytes_received"] - before
            rows[name] = sum(batch.num_nodes for batch in batches), sum(batch.num_edges for batch in batches)
    nodes, edges = rows["all"]
    assert rows["two"] == rows["none"] == (nodes, edges)
    weight = 4000 * nodes + 2000 * edges  # of the wide columns in all batches
    assert received["all"] > (0.3 if mode == "hosts" else 1) * weight
    assert received["none"] < received["two"] < 0.05 * weight
    assert received["two"] < received["none"] + 16 * (nodes + edges)


def test_rows_of_a_graph_in_memory_are_not_taken(monkeypatch):
    taken: set[str] = set()
    take = LiveRows._taken
    monkeypatch.setattr(LiveRows, "_taken", lambda self, rows, *more: taken.add(rows.key) or take(self, rows, *more))
    data = wide_data()
    data.title = "kept"
    batch = next(iter(NeighborLoader(data, [3], batch_size=50, num_workers=0, node_columns=["y"], edge_columns=[])))
    assert taken == {"y"}
    assert batch.title == "kept"
    data.y = data.y + 1  # still alive
    data.later = torch.rand(200)
    later = next(iter(NeighborLoader(data, [3], batch_size=50, num_workers=0, node_columns=["y", "later"])))
    assert torch.equal(later.y, later.n_id + 1)
    assert {"y", "later", "w", "edge_attr"} <= set(later.keys())
    assert not {"x", "wide"} & set(later.keys())


def test_stores_are_not_asked_for_other_attributes():
    class Noting(HeteroData):
        asked: ClassVar[set[tuple[str, str]]] = set()

        def _multi_get_tensor(self, attrs: list[Any]) -> Any:
            self.asked.update((attr.group_name, attr.attr_name) for attr in attrs)
            return super()._multi_get_tensor(attrs)

    store = Noting(typed_data().to_dict())
    batch = next(iter(NeighborLoader((store, store), [2], ("paper", None), batch_size=9, node_columns={"paper": ["x"]})))
    assert store.asked == {("paper", "x")}
    assert "x" not in batch["author"]
    with pytest.raises(SchemaError, match=r"node_columns names 'y', which 'paper' does not have; its columns: \['x', 'when'\]"):
        NeighborLoader((store, store), [2], "paper", node_columns={"paper": ["y"]})


def test_sparse_rows_are_left_out_or_taken(tmp_path):
    data = Data(words=torch.eye(60).to_sparse(), y=torch.arange(60), num_nodes=60, edge_index=torch.randint(60, (2, 200)))
    halohop.partition(data, tmp_path / "parts", num_parts=3, method="random")
    for mode in ("memory", "open", "servers"):
        with opened(tmp_path / "parts", data, mode) as graph:
            for chosen, left_out in (("words", "y"), ("y", "words")):
                batch = next(iter(NeighborLoader(graph, [2], batch_size=20, node_columns=[chosen])))
                assert left_out not in batch
                assert len(batch[chosen]) == batch.num_nodes
            if mode != "memory":
                assert batch.num_nodes == len(batch.y)


def test_times_and_weights_draw_without_being_sent(folders):
    """What sampling reads is no column of batches; and links keep their labels, seeds their times."""
    with halohop.open(folders["typed"]) as graph:
        drawn: dict[str, Any] = {"time_attr": "time", "weight_attr": "weight", "input_time": torch.arange(80) + 20}
        with_all, without = (
            NeighborLoader(graph, [3], "paper", batch_size=20, seed=2, **drawn, **columns) for columns in ({}, NOTHING)
        )
        for one, other in zip(with_all, without, strict=True):
            assert one[CITES].e_id.equal(other[CITES].e_id)
            assert one["paper"].seed_time.equal(other["paper"].seed_time)
            assert {"time", "weight"} <= set(one[CITES].keys())
            assert not {"time", "weight"} & set(other[CITES].keys())
        links = next(iter(LinkNeighborLoader(graph, [3], (CITES, None), neg_sampling="binary", batch_size=20, **NOTHING)))
        assert len(links[CITES].edge_label) == 40
        assert len(links[CITES].input_id) == 20


BAD = {
    "no such column": (
        {"node_columns": ["x", "label"]},
        r"node_columns names 'label', which is no column of any; there are 'paper': \['x', 'when'\]; 'author': \['x', .*",
    ),
    "of another type": ({"node_columns": {"paper": ["edge_attr"]}}, r"names 'edge_attr', which 'paper' does not have; its col"),
    "of nodes": ({"edge_columns": ["x"]}, r"edge_columns names 'x', which is no column of any; there are \('paper', 'cites', "),
    "another type": ({"node_columns": {"papers": ["x"]}}, r"names 'papers', which the graph does not have; there are \['paper',"),
    "another relation": ({"edge_columns": {("a", "b", "c"): []}}, r"names \('a', 'b', 'c'\), which the graph does not have"),
    "a word": ({"node_columns": "x"}, r"node_columns='x' is no list of names; give one such as \['x'\], \[\] for none, or None"),
    "a word of a type": ({"node_columns": {"paper": "x"}}, r"node_columns\['paper'\]='x' is no list of names"),
    "numbers": ({"edge_columns": [1]}, r"edge_columns=\[1\] is no list of names"),
    "a number": ({"edge_columns": 1}, r"edge_columns=1 is no list of names"),
}


@pytest.mark.parametrize("mode", ["in memory", "disk", "servers"])
def test_what_is_no_column_is_named_with_those_that_are(folders, mode):
    with MODES[mode]("typed", folders["typed"]) as graph:
        for columns, named in BAD.values():
            with pytest.raises(InputError, match=named) as caught:
                NeighborLoader(graph, [2], "paper", **columns)
            assert "\n" not in str(caught.value)
            assert isinstance(caught.value, SchemaError) == ("no list" not in named)


def clashing(nodes: str, edges: str, *, typed: bool = False) -> GraphTables:
    """A ring of four whose nodes and edges have a column of these names."""
    relation = ("a", "to", "a") if typed else EDGE
    ring = EdgeTable(src=torch.arange(4), dst=(torch.arange(4) + 1) % 4, columns={edges: torch.arange(4) + 10})
    return GraphTables(nodes={relation[0]: NodeTable(num_nodes=4, columns={nodes: torch.arange(4)})}, edges={relation: ring})


def test_columns_of_nodes_and_edges_of_one_name_are_refused_or_chosen_from(tmp_path: Path) -> None:
    halohop.partition(clashing("time", "time"), tmp_path / "parts", num_parts=2, method="random")
    with halohop.open(tmp_path / "parts") as graph:
        with pytest.raises(SchemaError, match=r"nodes and edges both have a column 'time'.*node_columns, edge_columns"):
            NeighborLoader(graph, [1], torch.arange(4), batch_size=4)
        of_nodes = next(iter(NeighborLoader(graph, [1], torch.arange(4), batch_size=4, edge_columns=[])))
        of_edges = next(iter(NeighborLoader(graph, [1], torch.arange(4), batch_size=4, node_columns=[])))

    assert of_nodes.time.tolist() == of_nodes.n_id.tolist()
    assert of_edges.time.tolist() == (of_edges.e_id + 10).tolist()


@pytest.mark.parametrize(("nodes", "edges"), [("x", "edge_index"), ("num_nodes", "w"), ("adj_t", "w")])
@pytest.mark.parametrize("typed", [False, True])
def test_columns_named_as_what_batches_have_themselves_are_refused(tmp_path: Path, nodes: str, edges: str, typed: bool) -> None:
    halohop.partition(clashing(nodes, edges, typed=typed), tmp_path / "parts", num_parts=2, method="random")
    seeds: Any = ("a", torch.arange(4)) if typed else torch.arange(4)
    name = edges if nodes == "x" else nodes
    with halohop.open(tmp_path / "parts") as graph:
        with pytest.raises(SchemaError, match=f"has a column '{name}', where batches have their own.*rename"):
            NeighborLoader(graph, [1], seeds, batch_size=4)
        batch = next(iter(NeighborLoader(graph, [1], seeds, batch_size=4, node_columns=[], edge_columns=[])))
    store = batch["a", "to", "a"] if typed else batch
    assert store.edge_index.shape == (2, 4)


def test_types_and_relations_have_places_of_their_own(tmp_path: Path) -> None:
    halohop.partition(clashing("time", "time", typed=True), tmp_path / "parts", num_parts=2, method="random")
    with halohop.open(tmp_path / "parts") as graph:
        batch = next(iter(NeighborLoader(graph, [1], ("a", torch.arange(4)), batch_size=4)))
    assert batch["a"].time.tolist() == batch["a"].n_id.tolist()
    assert batch["a", "to", "a"].time.tolist() == (batch["a", "to", "a"].e_id + 10).tolist()
