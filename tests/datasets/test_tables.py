import datetime
import gzip
import os
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from halohop.datasets.spec import EdgeFiles, GraphFiles, NodeFiles
from halohop.datasets.tables import read_tables
from halohop.datasets.text import texts_of
from halohop.errors import IdError, IncompleteDatasetError, InputError, SchemaError
from halohop.store.tables import EdgeTable, NodeTable
from halohop.typing import EDGE, NODE, RAW_TEXT

pa = pytest.importorskip("pyarrow")
from pyarrow import csv as arrow_csv  # noqa: E402
from pyarrow import parquet  # noqa: E402

KINDS = ["csv", "csv.gz", "tsv", "tsv.gz", "parquet"]


def write(path: Path, table) -> None:
    """A table under any of the known file names."""
    table = pa.table(table)
    path.parent.mkdir(exist_ok=True)
    if path.suffix == ".parquet":
        parquet.write_table(table, path)
        return
    sink = pa.BufferOutputStream()
    arrow_csv.write_csv(table, sink, arrow_csv.WriteOptions(delimiter="\t" if ".tsv" in path.suffixes else ","))
    data = sink.getvalue().to_pybytes()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def read_nodes(folder: Path, table, *, kind: str = "parquet", **columns) -> NodeTable:
    write(folder / f"n.{kind}", table)
    files = NodeFiles(file=f"n.{kind}", **({"id": "id"} | columns))
    return read_tables(GraphFiles(nodes={NODE: files}), folder).nodes[NODE]


def read_edges(folder: Path, table, *, kind: str = "parquet", **columns) -> EdgeTable:
    write(folder / f"e.{kind}", table)
    files = EdgeFiles(file=f"e.{kind}", src="s", dst="d", **columns)
    return read_tables(GraphFiles(edges={"node__to__node": files}), folder).edges[EDGE]


@pytest.mark.parametrize("kind", KINDS)
def test_a_heterogeneous_graph_from_a_folder(tmp_path: Path, kind: str) -> None:
    write(
        tmp_path / f"users.{kind}",
        {
            "uid": [30, 10, 20],
            "age": [1.5, 2.5, 3.5],
            "tall": [1, 0, 1],
            "group": ["b", None, "a"],
            "fold": ["train", "valid", None],
            "joined": [5, 6, 7],
        },
    )
    write(tmp_path / f"items.{kind}", {"name": ["pen", "ink"]})
    write(tmp_path / f"buys.{kind}", {"who": [10, 30, 10], "what": ["ink", "pen", "ink"], "w": [0.5, 1.5, 2.5], "at": [3, 2, 1]})
    write(tmp_path / f"near.{kind}", {"from": ["shop", "bar"], "to": ["bar", "inn"]})
    (tmp_path / "graph.toml").write_text(f"""
        [nodes.user]
        file = "users.{kind}"
        id = "uid"
        features = ["tall", "age"]
        label = "group"
        split = "fold"
        columns = ["joined"]
        [nodes.item]
        file = "items.{kind}"
        id = "name"
        [edges.user__buys__item]
        file = "buys.{kind}"
        src = "who"
        dst = "what"
        weight = "w"
        time = "at"
        features = ["w", "at"]
        [edges.place__near__place]
        file = "near.{kind}"
        src = "from"
        dst = "to"
    """)
    tables = read_tables(tmp_path)
    user = tables.nodes["user"]
    assert user.raw_id is not None
    assert user.raw_id.tolist() == [30, 10, 20]
    assert user.columns["x"].dtype == torch.float32
    assert user.columns["x"].tolist() == [[1, 1.5], [0, 2.5], [1, 3.5]]
    assert user.columns["y"].tolist() == [1, -1, 0]
    assert user.columns["joined"].tolist() == [5, 6, 7]
    assert [user.columns[f"{split}_mask"].tolist() for split in ("train", "val", "test")] == [
        [True, False, False],
        [False, True, False],
        [False, False, False],
    ]
    assert tables.nodes["item"].raw_id is None
    buys = tables.edges["user", "buys", "item"]
    assert (buys.src.tolist(), buys.dst.tolist()) == ([1, 0, 1], [1, 0, 1])
    assert buys.columns["weight"].tolist() == [0.5, 1.5, 2.5]
    assert buys.columns["weight"].dtype == torch.float64
    assert buys.columns["time"].dtype == torch.int64
    assert buys.columns["edge_attr"].tolist() == [[0.5, 3], [1.5, 2], [2.5, 1]]
    near = tables.edges["place", "near", "place"]  # bar, inn, shop
    assert tables.nodes["place"].num_nodes == 3
    assert (near.src.tolist(), near.dst.tolist()) == ([2, 0], [0, 1])


@given(ids=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20, unique=True), data=st.data())
def test_any_integer_is_an_id(ids: list[int], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("ids")
    ends = data.draw(st.lists(st.tuples(st.sampled_from(ids), st.sampled_from(ids)), max_size=20))
    write(folder / "n.csv", {"id": ids})
    write(
        folder / "e.parquet", {"s": pa.array([s for s, _ in ends], pa.int64()), "d": pa.array([d for _, d in ends], pa.int64())}
    )
    nodes = {NODE: NodeFiles(file="n.csv", id="id")}
    tables = read_tables(GraphFiles(nodes=nodes, edges={"node__to__node": EdgeFiles(file="e.parquet", src="s", dst="d")}), folder)
    raw = tables.nodes[NODE].raw_id
    raw = torch.arange(len(ids)) if raw is None else raw
    assert raw.tolist() == ids
    edges = tables.edges[EDGE]
    assert list(zip(raw[edges.src].tolist(), raw[edges.dst].tolist(), strict=True)) == ends


def test_without_node_tables_nodes_are_the_ids_of_all_relations_in_order(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", {"s": [9, 4], "d": [4, 70]})
    write(tmp_path / "b.parquet", {"s": pa.array([5], pa.int32()), "d": ["z"]})
    edges = {
        "node__a__node": EdgeFiles(file="a.csv", src="s", dst="d"),
        "node__b__tag": EdgeFiles(file="b.parquet", src="s", dst="d"),
    }
    tables = read_tables(GraphFiles(edges=edges), tmp_path)
    assert tables.nodes[NODE].raw_id is not None
    assert tables.nodes[NODE].raw_id.tolist() == [4, 5, 9, 70]
    assert tables.edges["node", "a", "node"].src.tolist() == [2, 0]
    assert tables.edges["node", "b", "tag"].src.tolist() == [1]


def test_consecutive_ids_are_rows(tmp_path: Path) -> None:
    assert read_nodes(tmp_path, {"id": [0, 1, 2]}).raw_id is None


def test_a_pattern_joins_files_by_name(tmp_path: Path) -> None:
    write(tmp_path / "n" / "1.parquet", {"id": [3], "f": [1.0], "y": ["b"], "fold": ["test"]})
    write(tmp_path / "n" / "0.parquet", {"id": [7, 8], "f": [2.0, 3.0], "y": ["c", "a"], "fold": ["train", "val"]})
    write(tmp_path / "n" / "2.parquet", pa.table({"id": [3], "f": [1.0], "y": ["b"], "fold": ["test"]}).slice(0, 0))
    files = NodeFiles(file="n/*.parquet", id="id", features=("f",), label="y", split="fold", columns=("f",))
    nodes = read_tables(GraphFiles(nodes={NODE: files}), tmp_path).nodes[NODE]
    assert nodes.raw_id is not None
    assert nodes.raw_id.tolist() == [7, 8, 3]
    assert nodes.columns["x"].tolist() == [[2], [3], [1]]
    assert nodes.columns["f"].tolist() == [2, 3, 1]
    assert nodes.columns["y"].tolist() == [2, 0, 1]
    assert nodes.columns["test_mask"].tolist() == [False, False, True]
    with pytest.raises(IncompleteDatasetError, match="matches"):
        read_tables(GraphFiles(nodes={NODE: NodeFiles(file="m/*.parquet", id="id")}), tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_tables_without_rows(tmp_path: Path, kind: str) -> None:
    empty = {"id": pa.array([], pa.int64()), "f": pa.array([], pa.float32()), "y": pa.array([], pa.string())}
    nodes = read_nodes(tmp_path, empty, kind=kind, features=("f",), label="y", columns=("f",))
    assert nodes.num_nodes == 0
    assert nodes.columns["x"].shape == (0, 1)
    edges = read_edges(tmp_path, {"s": pa.array([], pa.string()), "d": pa.array([], pa.string())}, kind=kind)
    assert edges.num_edges == 0


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.float32()), pa.list_(pa.float32(), 2), pa.large_list(pa.float64()), pa.list_(pa.int16())]
)
def test_list_columns_become_matrices(tmp_path: Path, kind) -> None:
    table = {"id": [0, 1, 2], "f": pa.array([[1, 2], [3, 4], [5, 6]], kind), "g": [7, 8, 9]}
    nodes = read_nodes(tmp_path, table, features=("g", "f"), columns=("f",))
    assert nodes.columns["x"].tolist() == [[7, 1, 2], [8, 3, 4], [9, 5, 6]]
    assert nodes.columns["f"].tolist() == [[1, 2], [3, 4], [5, 6]]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "int64", "int8"])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_features_take_the_asked_dtype(tmp_path: Path, dtype: str, kind: str) -> None:
    x = read_nodes(tmp_path, {"id": [0, 1], "f": [1, 2], "g": [3.0, 4.0]}, kind=kind, features=("f", "g"), dtype=dtype).columns[
        "x"
    ]
    assert x.dtype == getattr(torch, dtype)
    assert x.tolist() == [[1, 3], [2, 4]]


@pytest.mark.parametrize(
    ("column", "dtype"),
    [
        (pa.array([1, 2], pa.int8()), torch.int8),
        (pa.array([1, 2], pa.uint8()), torch.uint8),
        (pa.array([1, 2], pa.uint16()), torch.int64),
        (pa.array([1, 2], pa.uint64()), torch.int64),
        (pa.array([1, 2], pa.int32()), torch.int32),
        (pa.array([1, 2], pa.float64()), torch.float64),
        (pa.array([True, False]), torch.bool),
        (pa.array([1.5, 2.5], pa.float32()).cast(pa.float16()), torch.float16),
        (pa.array([datetime.datetime(1970, 1, 2), datetime.datetime(1970, 1, 1)], pa.timestamp("ms")), torch.int64),
        (pa.array([datetime.date(1970, 1, 2), datetime.date(1970, 1, 1)]), torch.int64),
    ],
)
def test_further_columns_keep_their_dtype(tmp_path: Path, column, dtype: torch.dtype) -> None:
    values = read_nodes(tmp_path, {"id": [0, 1], "c": column}, columns=("c",)).columns["c"]
    assert values.dtype == dtype
    if pa.types.is_temporal(column.type):
        assert values.tolist() == [86_400, 0]
    else:
        assert values.tolist() == column.to_pylist()


def test_times_in_text_are_seconds(tmp_path: Path) -> None:
    edges = read_edges(tmp_path, {"s": [1], "d": [2], "at": ["1970-01-02 00:00:01"]}, kind="csv", time="at")
    assert edges.columns["time"].tolist() == [86_401]


@pytest.mark.parametrize(
    ("labels", "y"),
    [
        (["b", None, "a"], [1, -1, 0]),
        (pa.array(["b", None, "a"]).dictionary_encode(), [1, -1, 0]),
        ([4, None, 2], [4, -1, 2]),
        ([4.0, float("nan"), 2.0], [4, -1, 2]),
        ([True, False, None], [1, 0, -1]),
    ],
)
def test_labels(tmp_path: Path, labels, y: list[int]) -> None:
    nodes = read_nodes(tmp_path, {"id": [0, 1, 2], "y": labels}, label="y")
    assert nodes.columns["y"].dtype == torch.int64
    assert nodes.columns["y"].tolist() == y


@pytest.mark.parametrize("quote", ["", '"'])
def test_names_that_look_like_nothing_are_names(tmp_path: Path, quote: str) -> None:
    lines = [("id", "y"), ("NA", "None"), ("null", "NA"), ("nan", "None")]
    (tmp_path / "n.csv").write_text("".join(f"{quote}{name}{quote},{quote}{label}{quote}\n" for name, label in lines))
    nodes = read_tables(GraphFiles(nodes={NODE: NodeFiles(file="n.csv", id="id", label="y")}), tmp_path).nodes[NODE]
    assert nodes.num_nodes == 3
    assert nodes.columns["y"].tolist() == [1, 0, 1]


def test_masks_of_their_own(tmp_path: Path) -> None:
    nodes = read_nodes(tmp_path, {"id": [0, 1], "t": [True, False], "v": [0, 1]}, masks={"train": "t", "valid": "v"})
    assert nodes.columns["train_mask"].tolist() == [True, False]
    assert nodes.columns["val_mask"].tolist() == [False, True]


@pytest.mark.parametrize(
    ("table", "columns", "error", "message"),
    [
        ({"id": [4, 5, 4]}, {}, InputError, "the id 4 more than once"),
        ({"id": ["a", "a"]}, {}, InputError, "the id 'a' more than once"),
        ({"id": [4, None, 5]}, {}, InputError, "column 'id' is empty in row 1"),
        ({"id": [0.5, 1.5]}, {}, InputError, "ids in column 'id' are double"),
        (
            {"id": pa.array([2**63], pa.uint64())},
            {},
            InputError,
            "holds 9223372036854775808 in row 0, expected an integer of 64 bits",
        ),
        ({"key": [1]}, {}, InputError, "no column 'id'; it has .'key'"),
        ({"id": [0, 1], "f": [1.0, None]}, {"features": ("f",)}, InputError, "column 'f' is empty in row 1"),
        ({"id": [0, 1], "f": ["a", "b"]}, {"features": ("f",)}, InputError, "column 'f' holds string, expected numbers"),
        ({"id": [0, 1], "f": [[1], [1, 2]]}, {"features": ("f",)}, InputError, "have 1 to 2 entries"),
        ({"id": [0], "f": [1]}, {"features": ("f",), "dtype": "float"}, None, ""),
        ({"id": [0], "f": [1]}, {"features": ("f",), "dtype": "float33"}, InputError, "'float33' is not a torch dtype"),
        ({"id": [0, 1], "y": [0.5, 1.0]}, {"label": "y"}, InputError, "labels in column 'y' must be whole numbers"),
        ({"id": [0, 1], "s": ["train", "trial"]}, {"split": "s"}, SchemaError, "holds 'trial' in row 1, which is not a split"),
        ({"id": [0], "t": [True]}, {"masks": {"tests": "t"}}, SchemaError, "unknown split 'tests'"),
        (
            {"id": [0], "c": pa.array([1], pa.timestamp("us"))},
            {"columns": ("c",)},
            InputError,
            "finer than seconds",
        ),
        ({"id": [0], "c": pa.array([2**63], pa.uint64())}, {"columns": ("c",)}, InputError, r"over 2\*\*63 - 1"),
    ],
)
def test_bad_node_tables_are_named(tmp_path: Path, table, columns, error, message: str) -> None:
    if error is None:
        assert read_nodes(tmp_path, table, **columns).columns["x"].dtype == torch.float32
        return
    with pytest.raises(error, match=message):
        read_nodes(tmp_path, table, **columns)


HOSTILE = [
    "a" * 5000 + ".csv",
    "a/" * 3000 + "b.csv",
    "/dev/zero",
    "/dev/tty",
    "folder.csv",
    "pipe.csv",
    "loop.csv",
    "no\0thing.csv",
]


@pytest.mark.parametrize("file", HOSTILE)
def test_hostile_paths_are_named_and_not_waited_for(tmp_path: Path, file: str) -> None:
    (tmp_path / "folder.csv").mkdir()
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "loop.csv").symlink_to(tmp_path / "loop.csv")
    with pytest.raises((InputError, IncompleteDatasetError)) as caught:
        read_tables(GraphFiles(nodes={"a": NodeFiles(file=file, id="id")}, edges={}), tmp_path)
    assert file[:20].partition("\0")[0] in str(caught.value)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(("ids", "ends"), [([7, 8, 9], [8, 10, 11]), (["a", "b", "c"], ["a", "x", "y"])])
def test_edges_to_unknown_nodes_are_named(tmp_path: Path, kind: str, ids, ends) -> None:
    write(tmp_path / "n.csv", {"id": ids})
    write(tmp_path / f"e.{kind}", {"s": ids, "d": ends})
    spec = GraphFiles(
        nodes={NODE: NodeFiles(file="n.csv", id="id")}, edges={"node__to__node": EdgeFiles(file=f"e.{kind}", src="s", dst="d")}
    )
    with pytest.raises(IdError, match=rf"e\.{kind}: column 'd' holds {ends[1]!r} in row 1"):
        read_tables(spec, tmp_path)


def test_ids_of_two_kinds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"column 's' is int64, expected large_string"):
        read_edges(tmp_path, {"s": [1], "d": ["a"]})
    write(tmp_path / "n.csv", {"id": [1]})
    nodes = {NODE: NodeFiles(file="n.csv", id="id")}
    write(tmp_path / "e.csv", {"s": ["a"], "d": [1]})
    with pytest.raises(IdError, match="column 's' holds 'a' in row 0, expected an id of a node 'node'; these are whole numbers"):
        read_tables(GraphFiles(nodes=nodes, edges={"node__to__node": EdgeFiles(file="e.csv", src="s", dst="d")}), tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("e.csv", b"", "Empty CSV"),
        ("e.csv", b"s,d\n1,2\n3\n", r"e\.csv cannot be read"),
        ("e.csv", b"s,s\n1,2\n", "no column 'd'|two columns 's'"),
        ("e.csv", b"s,d\n1,2,3\n", r"e\.csv cannot be read"),
        ("e.csv", b"s,d\n1,\xff\xfe\n", r"e\.csv: column 'd' holds bytes that are not UTF-8"),
        ("e.csv", "s,d\n1,2\n".encode("utf-16"), r"e\.csv cannot be read"),
        ("e.csv", b"s,d\n1,\0\n", "holds the character zero"),
        ("e.csv", b"s,d\n1,18446744073709551616\n", r"e\.csv: column 'd' holds '18446744073709551616' in row 0"),
        pytest.param("e.csv", b's,d\n1,"2\n' + b"3,4\n" * 100_000, "has 400002 bytes, more than 1024", id="open-quote"),
        pytest.param("e.csv", b"s,d\n1," + b"9" * 2**24 + b"\n", r"e\.csv cannot be read", id="long-field"),
        pytest.param("e.csv.gz", gzip.compress(b"s,d\n1,2\n" * 10_000)[:-20], r"e\.csv\.gz cannot be read", id="cut-gzip"),
        ("e.csv.gz", b"no gzip", r"e\.csv\.gz cannot be read"),
        ("e.parquet", b"no parquet", r"e\.parquet cannot be read"),
        ("e.txt", b"s,d\n", r"unknown kind of table; known: \.csv"),
    ],
)
def test_unreadable_files_are_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_tables(GraphFiles(edges={"node__to__node": EdgeFiles(file=name, src="s", dst="d")}), tmp_path)


def test_a_small_file_that_unpacks_to_a_large_one_is_named(tmp_path: Path) -> None:
    (tmp_path / "e.csv.gz").write_bytes(gzip.compress(b"s,d\n" + b"0" * 2**28, compresslevel=1))
    with pytest.raises(InputError, match=r"e\.csv\.gz cannot be read"):
        read_tables(GraphFiles(edges={"node__to__node": EdgeFiles(file="e.csv.gz", src="s", dst="d")}), tmp_path)


def test_absent_files_and_bad_names(tmp_path: Path) -> None:
    with pytest.raises(IncompleteDatasetError, match=r"no file .*e\.csv"):
        read_tables(GraphFiles(edges={"node__to__node": EdgeFiles(file="e.csv", src="s", dst="d")}), tmp_path)
    for text in ("a__b", "a__b__c__d", "a____b"):
        with pytest.raises(SchemaError, match="src__name__dst"):
            read_tables(GraphFiles(edges={text: EdgeFiles(file="e.csv", src="s", dst="d")}), tmp_path)


def test_without_pyarrow_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "e.csv", {"s": [1], "d": [2]})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r'pip install "halohop\[io\]"'):
        read_tables(GraphFiles(edges={"node__to__node": EdgeFiles(file="e.csv", src="s", dst="d")}), tmp_path)


def test_strings_are_kept_as_ids_and_as_names_of_classes(tmp_path: Path) -> None:
    table = read_nodes(tmp_path, {"id": ["b", "ä", "c"], "kind": ["red", None, "blue"]}, label="kind")
    assert texts_of(table.columns[RAW_TEXT]).tolist() == ["b", "ä", "c"]
    assert (table.columns["y"].tolist(), table.names) == ([1, -1, 0], {"y": ("blue", "red")})
    write(tmp_path / "e.csv", {"s": ["y", "x"], "d": ["x", "z"]})
    files = EdgeFiles(file="e.csv", src="s", dst="d")
    mentioned = read_tables(GraphFiles(edges={"node__to__node": files}), tmp_path).nodes[NODE]
    assert texts_of(mentioned.columns[RAW_TEXT]).tolist() == ["x", "y", "z"]


def test_several_labels_are_columns(tmp_path: Path) -> None:
    table = read_nodes(tmp_path, {"id": [1, 2], "a": [1, 0], "b": [True, True]}, label=("a", "b"), fractions=(0.5, 0.5, 0))
    assert table.columns["y"].tolist() == [[True, True], [False, True]]
    assert table.names == {"y": ("a", "b")}
    assert int(table.columns["train_mask"].sum()) == 1


def test_splits_from_files_of_ids_and_by_shares(tmp_path: Path) -> None:
    write(tmp_path / "t1.csv", {"id": [30]})
    write(tmp_path / "t2.csv", {"id": [10], "more": [5]})
    write(tmp_path / "v.parquet", {"id": [20]})
    splits = {"train": "t*.csv", "valid": "v.parquet"}
    table = read_nodes(tmp_path, {"id": [10, 20, 30, 40]}, splits=splits)
    assert table.columns["train_mask"].tolist() == [True, False, True, False]
    assert table.columns["val_mask"].tolist() == [False, True, False, False]
    labelled = read_nodes(tmp_path, {"id": list(range(10)), "y": [0] * 8 + [None] * 2}, label="y", fractions=(0.5, 0.25, 0.25))
    assert [int(labelled.columns[f"{split}_mask"].sum()) for split in ("train", "val", "test")] == [4, 2, 2]
    with pytest.raises(IdError, match=r"t1\.csv: column 'id' holds 30 in row 0, no id of a node 'n.parquet'"):
        read_nodes(tmp_path, {"id": [10, 20]}, splits=splits)
    with pytest.raises(SchemaError, match="unknown split 'dev'"):
        read_nodes(tmp_path, {"id": [10, 20, 30]}, splits={"dev": "t*.csv"})
    with pytest.raises(InputError, match="names no label"):
        read_nodes(tmp_path, {"id": [10]}, fractions=(0.5, 0.2, 0.3))
