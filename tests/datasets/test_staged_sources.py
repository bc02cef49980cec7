"""Every source gives the same tensors from files of a scratch folder, a few rows at a time, as in memory."""

import gzip
import io
import math
import os
import re
import resource
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from halohop import load_source
from halohop.datasets import add_reverses
from halohop.datasets.ogb import ogb_node
from halohop.datasets.sources import read_source
from halohop.datasets.staging import Staging
from halohop.errors import HalohopError, WriteError
from halohop.memory import release
from halohop.store.npy import bytes_of
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.typing import EDGE, NODE

pa = pytest.importorskip("pyarrow")
from pyarrow import csv, parquet  # noqa: E402

KINDS = ["csv", "csv.gz", "tsv", "parquet"]
OPTIONS = {"seed": 3, "undirected": False, "normalize": False, "fractions": (0.5, 0.25, 0.25)}


@pytest.fixture(autouse=True, scope="module")
def _no_waiting_for_the_disk() -> Iterator[None]:
    """Thousands of small files are written here, and no power fails."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        patch.setattr(os, "fdatasync", lambda descriptor: None)
        yield


def assert_same(found: GraphTables, expected: GraphTables) -> None:
    assert list(found.nodes) == list(expected.nodes)
    assert list(found.edges) == list(expected.edges)
    for name, table in expected.nodes.items():
        assert found.nodes[name].num_nodes == table.num_nodes
        assert found.nodes[name].names == table.names
        assert (found.nodes[name].raw_id is None) == (table.raw_id is None)
        if table.raw_id is not None:
            assert_same_columns({"": found.nodes[name].raw_id}, {"": table.raw_id})
        assert_same_columns(found.nodes[name].columns, table.columns)
    for relation, edges in expected.edges.items():
        assert_same_columns(
            {"src": found.edges[relation].src, "dst": found.edges[relation].dst},
            dict(zip(("src", "dst"), edges.ends, strict=True)),
        )
        assert_same_columns(found.edges[relation].columns, edges.columns)


def assert_same_columns(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert list(found) == list(expected)
    for name, column in expected.items():
        assert found[name].dtype == column.dtype, name
        assert found[name].shape == column.shape, name
        assert bytes_of(found[name].contiguous()) == bytes_of(column.contiguous()), name


def both_ways(read: Callable[[Staging], GraphTables], chunk_bytes: int) -> None:
    """Compares what a reader gives, or refuses, in memory and staged; also when it begins again with what is there."""
    with tempfile.TemporaryDirectory() as folder:
        staged = Staging(folder=Path(folder), chunk_bytes=chunk_bytes)
        expected, found = attempt(read, Staging()), attempt(read, staged)
        if isinstance(expected, str) or isinstance(found, str):
            assert found == expected
            return
        assert_same(found, expected)
        files = {path: path.stat().st_mtime_ns for path in Path(folder).iterdir()}
        assert_same(read(staged), expected)
        assert files == {path: path.stat().st_mtime_ns for path in Path(folder).iterdir()}


def attempt(read: Callable[[Staging], GraphTables], staging: Staging) -> GraphTables | str:
    """What is read, or why nothing is."""
    try:
        return read(staging)
    except HalohopError as error:
        return re.sub("strings everywhere: .*", "", f"{type(error).__name__}: {error}")  # where pyarrow names any of the culprits


def write(path: Path, table: dict[str, object]) -> None:
    table = pa.table(table)
    if path.suffix == ".parquet":
        parquet.write_table(table, path, row_group_size=3)
        return
    sink = io.BytesIO()
    csv.write_csv(table, sink, csv.WriteOptions(delimiter="\t" if ".tsv" in path.suffixes else ","))
    path.write_bytes(gzip.compress(sink.getvalue()) if path.suffix == ".gz" else sink.getvalue())


@st.composite
def graphs(draw: st.DrawFn) -> tuple[dict[str, dict[str, object]], str]:
    """Tables of a graph with everything that a description can name, and the description; some of them have one error. Of several
    errors, what is read at once and what is read in pieces may name different ones first."""
    kind = draw(st.sampled_from(KINDS))
    integers = st.integers(-(2**40), 2**40) if draw(st.booleans()) else st.integers(0, 3)
    id_of = integers if draw(st.booleans()) else st.text("abé", min_size=0 if kind == "parquet" else 1, max_size=5)
    ids = draw(st.lists(id_of, min_size=1, max_size=12, unique=draw(st.integers(0, 9)) > 0))
    n, m = len(ids), draw(st.integers(0, 25))
    if draw(st.booleans()) and isinstance(ids[0], int):
        ids = list(range(n))
    cut = draw(st.integers(0, n))

    def column(values: st.SearchStrategy[object]) -> list[object]:
        return draw(st.lists(values, min_size=n, max_size=n))

    named = draw(st.booleans())
    finite = st.floats(width=32, allow_nan=False, allow_infinity=False)
    label = st.none() | (st.sampled_from(["red", "green", "NA"]) if named else st.integers(0, 4))
    numbers = st.integers(-9, 9) | st.just(0.25) if draw(st.booleans()) else st.integers(-9, 9)
    nodes = {
        "id": ids,
        "f": column(finite),
        "g": column(numbers),
        "y": column(label),
        "fold": column(st.sampled_from(["train", "valid", "test", None])),
        "t": column(st.booleans()),
        "more": column(st.integers(0, 2**40)),
    }
    odd = draw(st.sampled_from([None] * 9 + ["f", "fold", "y", "edge"]))
    if odd in ("f", "fold", "y"):
        wrong = {"f": draw(st.sampled_from([None, math.inf])), "fold": "trial", "y": "" if named else 0.5}
        nodes[odd][draw(st.integers(0, n - 1))] = wrong[odd]
    end = st.sampled_from(ids)
    edges = {
        "s": draw(st.lists(end, min_size=m, max_size=m)),
        "d": draw(st.lists(end, min_size=m, max_size=m)),
        "e": draw(st.lists(finite, min_size=m, max_size=m)),
        "w": draw(st.lists(st.integers(0, 1), min_size=m, max_size=m)),
        "at": draw(st.lists(st.integers(0, 99), min_size=m, max_size=m)),
    }
    if odd == "edge" and m:
        edges["d"][-1] = "nobody" if isinstance(ids[0], str) else 2**41
    files = {
        f"n1.{kind}": {name: values[:cut] for name, values in nodes.items()},
        f"n2.{kind}": {name: values[cut:] for name, values in nodes.items()},
        f"e.{kind}": edges,
        f"train.{kind}": {"id": ids[: cut // 2 + 1]},
    }
    if kind != "parquet":
        files = {name: table for name, table in files.items() if any(table.values())}
        files.setdefault(f"e.{kind}", edges)
    files = {name: typed(table, ids) for name, table in files.items()}
    splits = draw(
        st.sampled_from(
            ['split = "fold"', 'masks = {train = "t"}', f'splits = {{train = "train.{kind}"}}', "fractions = [0.5, 0.2, 0.2]"]
        )
    )
    dtype = draw(st.sampled_from(["float32", "float64", "bfloat16"]))
    switches = draw(st.tuples(st.sampled_from(["true", "false"]), st.sampled_from(["true", "false"])))
    columns = draw(st.sampled_from([("w", "at"), ("at",), ()]))
    return (
        files,
        f"""
        [nodes.a]
        file = "n?.{kind}"
        id = "id"
        features = ["g", "f"]
        dtype = "{dtype}"
        label = "y"
        columns = ["more"]
        normalize = {switches[0]}
        {splits}
        [edges.a__to__a]
        file = "e.{kind}"
        src = "s"
        dst = "d"
        features = ["e"]
        undirected = {switches[1]}
        columns = {list(columns)}
        [edges.b__of__b]
        file = "e.{kind}"
        src = "d"
        dst = "s"
        weight = "w"
        time = "at"
    """,
    )


def typed(table: dict[str, list[object]], ids: list[object]) -> dict[str, object]:
    """Ids and names keep their type in a file without rows."""
    text = {"id", "s", "d"} if isinstance(ids[0], str) else set()
    return {
        name: pa.array(values, pa.string())
        if name in text or (name in ("fold", "y") and all(value is None for value in values))
        else values
        for name, values in table.items()
    }


@settings(max_examples=10)
@given(graphs(), st.integers(100, 400))
def test_tables(case: tuple[dict[str, dict[str, object]], str], chunk_bytes: int) -> None:
    check_tables(case, chunk_bytes)


@pytest.mark.full
@settings(max_examples=150)
@given(graphs(), st.integers(100, 400))
def test_many_tables(case: tuple[dict[str, dict[str, object]], str], chunk_bytes: int) -> None:
    check_tables(case, chunk_bytes)


def check_tables(case: tuple[dict[str, dict[str, object]], str], chunk_bytes: int) -> None:
    files, spec = case
    with tempfile.TemporaryDirectory() as folder:
        for name, table in files.items():
            write(Path(folder, name), table)
        Path(folder, "graph.toml").write_text(spec)
        both_ways(lambda staging: read_source(folder, staging, **OPTIONS), chunk_bytes)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("id", {30: None}, "column 'id' is empty in row 30"),
        ("id", {30: 4}, "holds the id 4 more than once, the second time in row 30 of"),
        ("f", {30: None}, "column 'f' is empty in row 30"),
        ("s", {30: 77}, "column 's' holds 77 in row 30, no id of a node 'a'"),
        ("more", {35: "word"}, "column 'more' holds 'word' in row 35, expected a number"),
        ("more", {20: 0.5}, None),
    ],
)
def test_rows_far_from_the_first(tmp_path: Path, kind: str, column: str, values: dict[int, object], message: str | None) -> None:
    """What is in a later chunk decides the type of a column, and is named by its row in the file."""
    table: dict[str, list[object]] = {name: [k * 2 for k in range(40)] for name in ("id", "f", "more", "s", "d")}
    for row, value in values.items():
        table[column][row] = value
    if column == "more" and message:
        table[column] = list(map(str, table[column]))  # a table of pyarrow's has one type; in text the first look like numbers
        message = "column 'more' holds string, expected numbers" if kind == "parquet" else message
    write(tmp_path / f"t.{kind}", table)
    (tmp_path / "graph.toml").write_text(f"""
        [nodes.a]
        file = "t.{kind}"
        id = "id"
        features = ["f"]
        columns = ["more"]
        [edges.a__to__a]
        file = "t.{kind}"
        src = "s"
        dst = "d"
    """)
    found = attempt(lambda staging: read_source(str(tmp_path), staging, **OPTIONS), Staging())
    assert message in found if message else isinstance(found, GraphTables)
    both_ways(lambda staging: read_source(str(tmp_path), staging, **OPTIONS), 60)


@pytest.mark.parametrize("unknown", ["abc", "ab\0", "c\0", "a", "", "xy"])
def test_texts_that_are_nearly_an_id_are_none(tmp_path: Path, unknown: str) -> None:
    write(tmp_path / "n.parquet", {"id": ["ab", "c", "é"]})
    write(tmp_path / "e.parquet", {"s": ["é", "c", unknown], "d": ["ab", "ab", "c"]})
    (tmp_path / "graph.toml").write_text("""
        [nodes.a]
        file = "n.parquet"
        id = "id"
        [edges.a__to__a]
        file = "e.parquet"
        src = "s"
        dst = "d"
    """)
    found = attempt(lambda staging: read_source(str(tmp_path), staging, **OPTIONS), Staging())
    assert f"column 's' holds {unknown!r} in row 2, no id of a node 'a'" in found
    both_ways(lambda staging: read_source(str(tmp_path), staging, **OPTIONS), 60)


def test_lists_of_two_lengths_far_from_each_other(tmp_path: Path) -> None:
    write(tmp_path / "n.parquet", {"id": list(range(20)), "f": [[1.0, 2.0]] * 19 + [[1.0]]})
    (tmp_path / "graph.toml").write_text('[nodes.a]\nfile = "n.parquet"\nid = "id"\nfeatures = ["f"]\n')
    assert "lists in column 'f' have 1 to 2 entries" in attempt(
        lambda given: read_source(str(tmp_path), given, **OPTIONS), Staging()
    )
    both_ways(lambda staging: read_source(str(tmp_path), staging, **OPTIONS), 60)


DTYPES = ["<i8", ">i4", "u2", ">u8", "|u1", ">f4", "<f2", "|b1"]


@settings(max_examples=25)
@given(st.data(), st.integers(20, 200))
def test_folders_of_arrays(data: st.DataObject, chunk_bytes: int) -> None:
    n, m = data.draw(st.integers(1, 30)), data.draw(st.integers(0, 40))
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    arrays = {"edge_index": rng.integers(n, size=(2, m)).astype(data.draw(st.sampled_from(["<i8", ">i8", "<i4", "u4"])))}
    for name in ("x", "edge_attr", "more"):
        values = rng.integers(0, 2, size=(m if name == "edge_attr" else n, data.draw(st.integers(1, 3))))
        values = values.astype(data.draw(st.sampled_from(DTYPES)))
        arrays[name] = np.asfortranarray(values) if data.draw(st.booleans()) else values
    arrays["y"] = data.draw(st.sampled_from([rng.integers(3, size=n), np.array(["b", "", "a"])[rng.integers(3, size=n)]]))
    numbers = rng.permutation(n) * data.draw(st.sampled_from([1, 2**33]))
    arrays["raw_id"] = data.draw(
        st.sampled_from([numbers, numbers.astype("i4"), numbers.astype(str), np.array(["bé" * k for k in range(n)])])
    )
    if data.draw(st.integers(0, 5)) == 0:
        arrays["more"] = np.full(n, 2**63, np.uint64)
    with tempfile.TemporaryDirectory() as folder:
        for name, array in arrays.items():
            np.save(Path(folder, f"{name}.npy"), array)
        both_ways(lambda staging: read_source(folder, staging, **OPTIONS), chunk_bytes)


EDGES = [(0, 1), (2, 0), (3, 3), (1, 2), (0, 1)]
SPLITS = {f"split/time/{name}.csv.gz": f"{row}\n" for row, name in enumerate(("train", "valid", "test"))}
OGB = SPLITS | {
    "raw/edge.csv.gz": "".join(f"{src},{dst}\n" for src, dst in EDGES),
    "raw/num-node-list.csv.gz": "4\n",
    "raw/num-edge-list.csv.gz": "5\n",
    "raw/node-feat.csv.gz": "0,1\n-0.5,2\n1e-3,3\n7,4\n",
    "raw/node-label.csv.gz": "2\nnan\n1\n0\n",
    "raw/node_year.csv.gz": "2010\n2011\n2012\n2013\n",
    "raw/edge_weight.csv.gz": "1\n2\n3\n4.5\n5\n",
}


def write_ogb(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (root / "ogbn_products" / path).parent.mkdir(parents=True, exist_ok=True)
        (root / "ogbn_products" / path).write_bytes(gzip.compress(text.encode()))


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"raw/edge.csv.gz": "0,1\n2,0\n"},
        {"raw/edge.csv.gz": "0,1\n2,x\n3,3\n1,2\n0,1\n"},
        {"raw/node-label.csv.gz": "1,0\n0,\n,1\n1,1\n"},
        {"raw/num-edge-list.csv.gz": "0\n", "raw/edge.csv.gz": "", "raw/edge_weight.csv.gz": ""},
        {"split/time/test.csv.gz": "9\n"},
    ],
)
@pytest.mark.parametrize("inverse", [False, True])
def test_text_of_ogb(tmp_path: Path, change: dict[str, str], inverse: bool) -> None:
    write_ogb(tmp_path, OGB | change)
    both_ways(lambda staging: ogb_node(tmp_path, "ogbn-products", add_inverse_edge=inverse, staging=staging), 12)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("order", ["C", "F"])
def test_archives_of_ogb(tmp_path: Path, save: Callable[..., None], order: str) -> None:
    write_ogb(tmp_path, SPLITS)
    raw = tmp_path / "ogbn_products" / "raw"
    raw.mkdir()
    save(raw / "node-label.npz", node_label=np.array([[2], [np.nan], [1], [0]]))
    arrays = {
        "edge_index": np.array(EDGES, order=order).T,
        "num_nodes_list": np.array([4]),
        "num_edges_list": np.array([5]),
        "node_feat": np.asarray(np.arange(8, dtype=np.float32).reshape(4, 2), order=order),
        "node_year": np.array([[2010], [2011], [2012], [2013]]),
        "edge_feat": np.ones((5, 1), np.float16),
    }
    save(raw / "data.npz", **arrays)
    both_ways(lambda staging: ogb_node(tmp_path, "ogbn-products", staging=staging), 24)


@pytest.mark.parametrize(
    "source", ["synthetic:powerlaw?nodes=300&edges=2000&features=5&classes=7", "synthetic:tiny", "synthetic-hetero:tiny"]
)
@pytest.mark.parametrize("options", [{}, {"undirected": True, "normalize": True}])
def test_graphs_that_are_made_up(source: str, options: dict[str, bool]) -> None:
    both_ways(lambda staging: read_source(source, staging, **OPTIONS | options), 20_000)


@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 1)), max_size=60),
    st.sampled_from([torch.int64, torch.int32]),
    st.booleans(),
)
def test_reverses_of_edges_that_go_through_files(edges: list[tuple[int, int, int]], dtype: torch.dtype, columns: bool) -> None:
    src, dst, kind = (torch.tensor([edge[k] for edge in edges], dtype=dtype) for k in range(3))
    table = EdgeTable(src=src, dst=dst, columns={"kind": kind.half(), "none": torch.zeros(len(src), 0)} if columns else {})
    tables = GraphTables(nodes={NODE: NodeTable(num_nodes=7)}, edges={EDGE: table})
    both_ways(lambda staging: add_reverses(tables, staging=staging), 40)


def test_what_is_staged_is_mapped_and_survives_a_failure(tmp_path: Path) -> None:
    staging = Staging(folder=tmp_path, chunk_bytes=8)
    first = staging.column("a", lambda: iter([torch.arange(3), torch.arange(3)]))
    assert str(tmp_path / "a.0.npy") in Path("/proc/self/maps").read_text()

    def fails() -> Iterator[torch.Tensor]:
        yield torch.arange(3)
        raise KeyError("a reader that stops")

    with pytest.raises(KeyError):
        staging.column("b", fails)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.0.npy", "a.json"]
    assert torch.equal(staging.column("a", fails), first)
    (tmp_path / "a.0.npy").write_bytes(b"short")
    with pytest.raises(HalohopError, match=r"a\.0\.npy has changed since it was written; remove .* and start again"):
        staging.column("a", fails)


def test_a_wider_chunk_widens_what_was_written(tmp_path: Path) -> None:
    chunks = [torch.ones(0, 2), torch.ones(2, 2, dtype=torch.int32), torch.full((1, 2), 2**40), torch.ones(0, 5)]
    both = [Staging(folder=folder).column("a", lambda: iter(chunks)) for folder in (None, tmp_path)]
    assert_same_columns({"a": both[1]}, {"a": both[0]})
    assert both[1].dtype == torch.int64


def test_a_budget_that_does_not_hold_the_ids_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "n.csv", {"id": list(range(5000, 0, -1))})
    (tmp_path / "graph.toml").write_text('[nodes.a]\nfile = "n.csv"\nid = "id"\n')
    read_source(str(tmp_path), Staging(folder=tmp_path / "enough", memory=40_004), **OPTIONS)
    with pytest.raises(HalohopError, match=r"finding 5000 ids of 'a' .* takes 39\.1 KiB, .* give at least 78\.1 KiB, or number"):
        read_source(str(tmp_path), Staging(folder=tmp_path / "short", memory=40_003), **OPTIONS)


def test_a_graph_that_cannot_be_made_in_a_budget_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        HalohopError, match=r"'synthetic:products' is made in memory, which takes about 5\.\d+ GiB, more than the 2 GiB"
    ):
        load_source("synthetic:products", scratch=tmp_path, memory="2GiB")


def test_load_source_takes_a_folder_and_a_size(tmp_path: Path) -> None:
    source = "synthetic:powerlaw?nodes=300&edges=2000&features=5"
    assert_same(load_source(source, scratch=tmp_path / "deep" / "scratch", memory="100MB"), load_source(source))
    with pytest.raises(HalohopError, match="memory='much' is no size"):
        load_source(source, scratch=tmp_path, memory="much")


def test_a_full_disk_is_named_and_leaves_what_was_finished(tmp_path: Path) -> None:
    staging = Staging(folder=tmp_path, chunk_bytes=8)
    staging.column("a", lambda: iter([torch.arange(3)]))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(WriteError, match=r"b\.0\.npy"):
            staging.column("b", lambda: iter([torch.arange(9999)]))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.0.npy", "a.json"]
    assert len(staging.column("b", lambda: iter([torch.arange(9999)]))) == 9999


@pytest.mark.full
@pytest.mark.xdist_group("alone")
def test_memory_holds_a_few_chunks_and_not_the_source(tmp_path: Path) -> None:
    table = pa.table(
        {"id": [f"user {k * 7 % 99_991}" for k in range(99_991)], **{f"f{k}": np.arange(99_991) / 7 for k in range(60)}}
    )
    parquet.write_table(table, tmp_path / "n.parquet", row_group_size=4096)
    features = ", ".join(f'"f{k}"' for k in range(60))
    (tmp_path / "graph.toml").write_text(
        f'[nodes.a]\nfile = "n.parquet"\nid = "id"\nfeatures = [{features}]\ndtype = "float64"\n'
    )
    del table
    staged = [Staging(folder=tmp_path / name, chunk_bytes=1 << 20) for name in ("first", "second")]
    held_by(lambda: read_source(str(tmp_path), staged[0], **OPTIONS))  # imports, and compiles kernels
    assert held_by(lambda: read_source(str(tmp_path), staged[1], **OPTIONS)) < 24 << 20
    assert held_by(lambda: read_source(str(tmp_path), Staging(), **OPTIONS)) > 48 << 20  # the features alone


def held_by(read: Callable[[], object]) -> int:
    """How many bytes more than before a process holds at most while something is read."""
    pa.default_memory_pool().release_unused()
    release()
    before, peak, stop = anonymous_bytes(), 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not stop.wait(0.002):
            peak = max(peak, anonymous_bytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        read()
    finally:
        stop.set()
        watcher.join()
    return peak - before


def anonymous_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))
