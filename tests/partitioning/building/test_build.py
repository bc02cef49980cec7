"""Every node and edge of the tables is found again, in order, whatever the partitioning; through memory and through the disk."""

import gc
import weakref
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from halohop.errors import InputError, WriteError
from halohop.partitioning.assigners.assign import assign
from halohop.partitioning.assigners.division import Assignment, AssignRequest, Division
from halohop.partitioning.book import Book
from halohop.partitioning.building import numbering
from halohop.partitioning.building.build import Build, build_parts, partition
from halohop.partitioning.building.report import Report
from halohop.store import disk
from halohop.store.part import Part
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.typing import EDGE, Relation

NUMBERS = (torch.int32, torch.int64, torch.float32, torch.float64)
DTYPES = [torch.bool, torch.int16, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64]


def random_tables(seed: int) -> GraphTables:
    """A few node types and relations (some empty), columns of many dtypes, raw ids in any order."""
    rng = np.random.default_rng(seed)
    nodes = {}
    for name in "abc"[: rng.integers(1, 4)]:
        count = int(rng.choice([0, 1, 4, 9]))
        raw = [None, torch.arange(count), torch.from_numpy(rng.permutation(3 * count)[:count] - count)][rng.integers(3)]
        if raw is not None and rng.integers(2):
            raw = raw.int()
        nodes[name] = NodeTable(num_nodes=count, raw_id=raw, columns=random_columns(rng, count))
    edges = {}
    for number in range(rng.integers(0, 4)):
        source, destination = rng.choice(list(nodes), 2).tolist()
        few = min(nodes[source].num_nodes, nodes[destination].num_nodes) == 0
        count = 0 if few else int(rng.choice([0, 1, 20]))
        dtype = [torch.int64, torch.int32][rng.integers(2)]
        ends = [
            torch.from_numpy(rng.integers(0, max(nodes[name].num_nodes, 1), count)).to(dtype) for name in (source, destination)
        ]
        if rng.integers(3) == 0:
            ends[1] = ends[1].sort().values  # edges in CSC order already
        edges[source, f"r{number}", destination] = EdgeTable(src=ends[0], dst=ends[1], columns=random_columns(rng, count))
    return GraphTables(nodes=nodes, edges=edges)


def random_columns(rng: np.random.Generator, count: int) -> dict[str, Tensor]:
    columns = {}
    for number in range(rng.integers(0, 3)):
        dtype = DTYPES[rng.integers(len(DTYPES))]
        shape = (count, *[(), (3,), (2, 2), (0,)][rng.integers(4)])
        columns[f"c{number}"] = torch.from_numpy(rng.integers(0, 100, shape)).to(dtype)
    if rng.integers(2):
        columns["train_mask"] = torch.from_numpy(rng.integers(0, 2, count)).bool()
    return columns


def random_assignment(tables: GraphTables, num_parts: int, seed: int) -> Assignment:
    rng = np.random.default_rng(seed)
    return {name: torch.from_numpy(rng.integers(0, num_parts, table.num_nodes)).int() for name, table in tables.nodes.items()}


def check(tables: GraphTables, assignment: Assignment, book: Book, parts: list[Part]) -> None:
    """Compares with the tables, one node and one edge at a time, through raw ids."""
    assert len(parts) == book.num_parts
    raw_of_gid = {}
    for name, table in tables.nodes.items():
        raw_of_row = torch.arange(table.num_nodes) if table.raw_id is None else table.raw_id.long()
        row_of_raw = {int(raw): row for row, raw in enumerate(raw_of_row)}
        all_raw = []
        for index, part in enumerate(parts):
            nodes = part.nodes[name]
            assert nodes.num_nodes == book.count(name, index)
            gids = torch.arange(nodes.num_nodes) + book.offset(name, index)
            raw = gids if nodes.raw_id is None else nodes.raw_id
            assert raw.dtype == torch.int64
            assert raw.tolist() == sorted(raw.tolist())
            rows = [row_of_raw[int(r)] for r in raw]
            assert (assignment[name][rows] == index).all()
            same_rows(nodes.columns, table.columns, rows)
            all_raw += raw.tolist()
        assert sorted(all_raw) == sorted(raw_of_row.tolist())
        same_as_gid = all_raw == list(range(len(all_raw)))
        assert all((part.nodes[name].raw_id is None) == same_as_gid for part in parts)
        raw_of_gid[name] = all_raw
    for relation, table in tables.edges.items():
        check_edges(relation, table, tables, book, parts, raw_of_gid)


def check_edges(
    relation: Relation, table: EdgeTable, tables: GraphTables, book: Book, parts: list[Part], raw_of_gid: dict[str, list[int]]
) -> None:
    source, _, destination = relation
    raw = {name: tables.nodes[name].raw_id for name in (source, destination)}
    all_edge_ids = []
    for index, part in enumerate(parts):
        edges = part.edges[relation]
        assert edges.num_edges == book.count(relation, index)
        assert edges.indptr.dtype == torch.int64
        assert edges.indices.dtype == torch.int32
        assert len(edges.indptr) == book.count(destination, index) + 1
        first = book.offset(relation, index)
        edge_ids = range(first, first + edges.num_edges) if edges.edge_id is None else edges.edge_id.tolist()
        for lid in range(len(edges.indptr) - 1):
            listed = list(edge_ids[int(edges.indptr[lid]) : int(edges.indptr[lid + 1])])
            assert listed == sorted(listed)  # the order of the table
            here = raw_of_gid[destination][book.offset(destination, index) + lid]
            assert all(here == raw_at(raw[destination], table.dst[edge]) for edge in listed)
        for position, edge in enumerate(edge_ids):
            assert raw_of_gid[source][int(edges.indices[position])] == raw_at(raw[source], table.src[edge])
        same_rows(edges.columns, table.columns, list(edge_ids))
        all_edge_ids += list(edge_ids)
    assert sorted(all_edge_ids) == list(range(table.num_edges))
    in_order = all_edge_ids == list(range(table.num_edges))
    assert all((part.edges[relation].edge_id is None) == in_order for part in parts)


def raw_at(raw_id: Tensor | None, row: Tensor) -> int:
    return int(row) if raw_id is None else int(raw_id[int(row)])


def same_rows(found: dict[str, Tensor], given: dict[str, Tensor], rows: list[int]) -> None:
    assert list(found) == list(given)
    for name, column in given.items():
        expected = column[torch.tensor(rows, dtype=torch.int64)]
        assert (found[name].dtype, found[name].shape) == (expected.dtype, expected.shape)
        assert torch.equal(found[name], expected)


@given(st.integers(0, 10**9), st.sampled_from([1, 2, 3, 8, 40]))
@settings(max_examples=75)
def test_nothing_is_lost_in_memory(seed: int, num_parts: int) -> None:
    tables = random_tables(seed)
    assignment = random_assignment(tables, num_parts, seed)
    build = build_parts(tables, assignment, num_parts)
    assert list(build.schema.nodes) == list(tables.nodes)
    assert list(build.schema.edges) == list(tables.edges)
    check(tables, assignment, build.book, list(build.parts))


@given(st.integers(0, 10**9), st.sampled_from([1, 2, 3, 8]))
@settings(max_examples=12)
def test_nothing_is_lost_on_disk(tmp_path_factory: pytest.TempPathFactory, seed: int, num_parts: int) -> None:
    tables = random_tables(seed)
    assignment = random_assignment(tables, num_parts, seed)
    out = tmp_path_factory.mktemp("disk") / "parts"
    report = partition(tables, out, num_parts=num_parts, method=assignment)
    manifest = disk.read_manifest(out)
    assert manifest.schema == build_parts(tables, assignment, num_parts).schema
    assert Report.from_dict(manifest.report) == report
    parts = [disk.map_part(out, manifest, part, verify=True) for part in disk.held_parts(out, manifest)]
    check(tables, assignment, Book(nodes=manifest.node_bounds, edges=manifest.edge_bounds), parts)


@given(st.integers(0, 10**9), st.sampled_from([1, 2, 5]), st.sampled_from(["random", "metis"]))
@settings(max_examples=15)
def test_methods_work_on_any_graph(tmp_path_factory: pytest.TempPathFactory, seed: int, num_parts: int, method: str) -> None:
    tables = random_tables(seed)
    out = tmp_path_factory.mktemp("disk") / "parts"
    partition(tables, out, num_parts=num_parts, method=method, seed=seed)
    manifest = disk.read_manifest(out)
    assert manifest.partitioned == {"method": method, "seed": seed}
    parts = [disk.map_part(out, manifest, part) for part in range(num_parts)]
    book = Book(nodes=manifest.node_bounds, edges=manifest.edge_bounds)
    check(tables, assign(tables, num_parts, method, seed=seed).part, book, parts)


@given(st.integers(0, 10**9), st.sampled_from([1, 2, 3, 8]), st.booleans())
@settings(max_examples=30)
def test_halo_columns_are_those_of_the_sources(
    tmp_path_factory: pytest.TempPathFactory, seed: int, num_parts: int, on_disk: bool
) -> None:
    tables = random_tables(seed)
    names = {name for table in tables.nodes.values() for name, column in table.columns.items() if column.dim() == 1}
    names = {n for n in names if all(t.columns[n].dtype in NUMBERS for t in tables.nodes.values() if n in t.columns)}
    names = {n for n in names if all(t.columns[n].dim() == 1 for t in tables.nodes.values() if n in t.columns)}
    assignment = random_assignment(tables, num_parts, seed)
    halo = ("raw_id", *sorted(names))
    parts = list(build_parts(tables, assignment, num_parts, halo=halo).parts)
    if on_disk:
        out = tmp_path_factory.mktemp("disk") / "parts"
        partition(tables, out, num_parts=num_parts, method=assignment, halo=halo)
        manifest = disk.read_manifest(out)
        parts = [disk.map_part(out, manifest, part, verify=True) for part in range(num_parts)]
    for relation, table in tables.edges.items():
        source = tables.nodes[relation[0]]
        for index, part in enumerate(parts):
            edges = part.edges[relation]
            expected = {name for name in names if name in source.columns and name not in table.columns}
            assert set(edges.halo) == expected | ({"raw_id"} if parts[0].nodes[relation[0]].raw_id is not None else set())
            first = sum(other.edges[relation].num_edges for other in parts[:index])
            rows = range(first, first + edges.num_edges) if edges.edge_id is None else edges.edge_id.tolist()
            for name, column in edges.halo.items():
                of_source = column_of(source, name)
                assert column.dtype == (torch.int32 if name == "raw_id" else of_source.dtype)
                assert column.tolist() == [of_source[int(table.src[row])].item() for row in rows]


def column_of(table: NodeTable, name: str) -> Tensor:
    if name != "raw_id":
        return table.columns[name]
    return torch.arange(table.num_nodes) if table.raw_id is None else table.raw_id


@given(st.integers(0, 10**9), st.sampled_from([1, 2, 3]))
@settings(max_examples=60)
def test_a_column_ascends_where_no_list_falls(seed: int, num_parts: int) -> None:
    """By definition, of every partition; halo columns too, raw ids and what is not one number per edge never."""
    rng = np.random.default_rng(seed)
    count, num_nodes = int(rng.choice([0, 3, 12])), 6
    src, dst = (torch.from_numpy(rng.integers(0, num_nodes, count)) for _ in range(2))
    columns = {
        "rising": torch.arange(count),
        "any": torch.from_numpy(rng.integers(0, 3, count)).float(),
        "wide": torch.arange(count)[:, None],
        "flag": torch.zeros(count, dtype=torch.bool),
        "nan": torch.full((count,), float("nan")),
    }
    seen = torch.from_numpy(rng.integers(0, 2, num_nodes))
    tables = GraphTables(
        nodes={"node": NodeTable(num_nodes=num_nodes, columns={"seen": seen})},
        edges={EDGE: EdgeTable(src=src, dst=dst, columns=columns)},
    )
    for part in build_parts(tables, random_assignment(tables, num_parts, seed), num_parts, halo=("seen", "raw_id")).parts:
        edges = part.edges[EDGE]
        lists = list(pairwise(edges.indptr.tolist()))
        for name in ("rising", "any", "nan", "seen"):
            values = (edges.columns | edges.halo)[name]
            expected = all(one <= other for low, high in lists for one, other in pairwise(values[low:high].tolist()))
            assert (name in edges.ascending) == expected
        assert not edges.ascending & {"wide", "flag", "raw_id"}
        assert "rising" in edges.ascending


@pytest.mark.parametrize(
    ("halo", "message"),
    [
        (("when",), r"halo names 'when', which is no column of nodes; it can name \['raw_id', 't'\]"),
        (("x",), "'x', which is not one number per node"),
        (("raw_id", "train_mask"), "'train_mask', which is not one number per node"),
        ("t", r"halo='t' is a text; give a list of names, such as \('t',\)"),
    ],
)
def test_halo_columns_that_cannot_be_are_refused(tmp_path: Path, halo: tuple[str, ...], message: str) -> None:
    tables = chain(5, x=torch.ones(5, 2), t=torch.arange(5), train_mask=torch.ones(5, dtype=torch.bool))
    with pytest.raises(InputError, match=message):
        partition(tables, tmp_path / "out", num_parts=2, method="random", halo=halo)
    with pytest.raises(InputError, match=message):
        build_parts(tables, {"node": torch.zeros(5, dtype=torch.int32)}, 1, halo=halo)


def test_large_raw_ids_stay_whole() -> None:
    """Whatever the ids of a partition, all of them store the same dtype."""
    for largest, dtype in ((2**31 - 1, torch.int32), (2**31, torch.int64)):
        tables = chain(3)
        nodes = {"node": NodeTable(num_nodes=3, raw_id=torch.tensor([5, 7, largest]))}
        tables = GraphTables(nodes=nodes, edges=tables.edges)
        parts = list(build_parts(tables, {"node": torch.arange(3, dtype=torch.int32)}, 3, halo=("raw_id",)).parts)
        assert [part.edges[EDGE].halo["raw_id"].dtype for part in parts] == [dtype] * 3
        assert [part.edges[EDGE].halo["raw_id"].tolist() for part in parts] == [[], [5], [7]]


def chain(num_nodes: int, **columns: Tensor) -> GraphTables:
    rows = torch.arange(num_nodes - 1)
    weight = torch.rand(num_nodes - 1, generator=torch.Generator().manual_seed(0))
    edges = EdgeTable(src=rows, dst=rows + 1, columns={"w": weight})
    return GraphTables(nodes={"node": NodeTable(num_nodes=num_nodes, columns=columns)}, edges={EDGE: edges})


def test_one_partition_in_order_shares_the_columns() -> None:
    x = torch.randn(5, 2, requires_grad=True)
    tables = chain(5, x=x)
    (part,) = build_parts(tables, {"node": torch.zeros(5, dtype=torch.int32)}, 1).parts
    assert part.nodes["node"].raw_id is None
    assert part.edges[EDGE].edge_id is None
    assert part.nodes["node"].columns["x"].data_ptr() == x.data_ptr()
    assert not part.nodes["node"].columns["x"].requires_grad
    assert part.edges[EDGE].columns["w"].data_ptr() == tables.edges[EDGE].columns["w"].data_ptr()


def test_ids_that_need_int64(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last id decides, not the count."""
    for limit, dtype in ((4, torch.int32), (3, torch.int64)):
        monkeypatch.setattr(numbering, "INT32_MAX", limit)
        (part,) = build_parts(chain(5), {"node": torch.zeros(5, dtype=torch.int32)}, 1).parts
        assert part.edges[EDGE].indices.dtype == dtype
    monkeypatch.setattr(numbering, "INT32_MAX", 2)
    (part, _) = build_parts(chain(5), {"node": torch.tensor([1, 1, 0, 1, 0], dtype=torch.int32)}, 2).parts
    assert part.edges[EDGE].edge_id is not None
    assert part.edges[EDGE].edge_id.dtype == torch.int64


def test_only_one_partition_is_alive_at_a_time() -> None:
    """Columns of an earlier partition are gone when the next one is made."""
    tables = chain(40, x=torch.randn(40, 2))
    seen: list[weakref.ref[Tensor]] = []
    for part in build_parts(tables, random_assignment(tables, 4, 0), 4).parts:
        gc.collect()
        assert [ref for ref in seen if ref() is not None] == []
        seen.append(weakref.ref(part.nodes["node"].columns["x"]))
        del part
    assert len(seen) == 4


def test_progress_and_overwriting(tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    partition(chain(9), tmp_path / "out", num_parts=2, method="random", progress=lambda *step: told.append(step))
    stages = dict.fromkeys(stage for stage, _, _ in told)
    assert list(stages) == ["assign", "number", "move", "finish"]
    for stage in stages:
        passed = [(done, total) for name, done, total in told if name == stage]
        assert passed[0][0] == 0
        assert passed[-1][0] == passed[-1][1] > 0
        assert passed == sorted(passed)
    told.clear()
    with pytest.raises(InputError, match="overwrite=True"):
        partition(chain(9), tmp_path / "out", num_parts=2, method="random", progress=lambda *step: told.append(step))
    assert told == []  # before the hours of work, not after
    partition(chain(9), tmp_path / "out", num_parts=3, method="random", overwrite=True)
    assert disk.read_manifest(tmp_path / "out").num_parts == 3
    with pytest.raises(InputError, match="unknown method"):
        partition(chain(9), tmp_path / "out", num_parts=2, method="metsi", overwrite=True)
    assert disk.read_manifest(tmp_path / "out").num_parts == 3


def test_blocks_go_with_their_nodes(tmp_path: Path) -> None:
    block = torch.tensor([3, 0, 2, 1, 0, 3, 1, 2, 2], dtype=torch.uint8)

    def divide(tables: GraphTables, request: AssignRequest) -> Division:
        part = block.int() * request.num_parts // 4
        return Division(part={"node": part}, block={"node": block}, num_blocks=4)

    partition(chain(9), tmp_path / "out", num_parts=2, method=divide)
    manifest = disk.read_manifest(tmp_path / "out")
    assert manifest.num_blocks == 4
    nodes = [disk.map_part(tmp_path / "out", manifest, part).nodes["node"] for part in range(2)]
    assert [part.block.tolist() for part in nodes if part.block is not None] == [[0, 1, 0, 1], [3, 2, 3, 2, 2]]
    partition(chain(9), tmp_path / "none", num_parts=2, method="random")
    assert disk.map_part(tmp_path / "none", disk.read_manifest(tmp_path / "none"), 0).nodes["node"].block is None


def test_build_is_a_record() -> None:
    build = build_parts(chain(3), {"node": torch.zeros(3, dtype=torch.int32)}, 1)
    assert isinstance(build, Build)
    assert build.schema.edges[EDGE].count == 2
    assert build.schema.edges[EDGE].columns["w"].dtype == "float32"


def test_names_that_the_file_system_takes_for_one_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of file systems that do not distinguish x and X: here both paths lead to one file."""
    tables = chain(9, x=torch.arange(9), X=torch.arange(9) + 1)
    partition(tables, tmp_path / "out", num_parts=2, method="random")
    monkeypatch.setattr(Path, "samefile", lambda one, other: str(one).casefold() == str(other).casefold())
    with pytest.raises(WriteError, match=r"X\.npy.*x\.npy has the same name there; name the columns or types differently"):
        partition(tables, tmp_path / "other", num_parts=2, method="random")
    assert not (tmp_path / "other").exists()
