"""What a source is said to be, before it is read, is what it is when it was read."""

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch

from halohop.datasets import sizing_tables
from halohop.datasets.sizing import source_sizes
from halohop.datasets.sources import load_source
from halohop.errors import HalohopError
from halohop.partitioning.planning.sizes import GraphSizes, TableSizes
from halohop.testing.graphs import ring
from halohop.typing import EDGE, NODE


def same(found: GraphSizes, wanted: GraphSizes) -> None:
    assert set(found.nodes) == set(wanted.nodes)
    assert set(found.edges) == set(wanted.edges)
    for name, table in wanted.nodes.items():
        assert found.nodes[name] == table, name
    for relation, table in wanted.edges.items():
        assert found.edges[relation] == table, relation


def read(source: str | Path) -> GraphSizes:
    return GraphSizes.of(load_source(source))


@pytest.mark.parametrize(
    "source", ["synthetic:powerlaw?nodes=50&edges=300&features=4", "synthetic:powerlaw?nodes=50&edges=300", "synthetic:tiny"]
)
def test_made_up_graphs(source: str) -> None:
    same(source_sizes(source), read(source))


def test_arrays_by_their_headers(tmp_path: Path) -> None:
    np.save(tmp_path / "edge_index.npy", np.array([[0, 1, 2], [1, 2, 0]]))
    np.save(tmp_path / "edge_weight.npy", np.zeros(3, np.float16))
    np.save(tmp_path / "x.npy", np.zeros((3, 2, 4), np.float32))
    np.save(tmp_path / "y.npy", np.array(["a", "", "b"]))
    np.save(tmp_path / "age.npy", np.zeros(3, np.uint16))
    np.save(tmp_path / "raw_id.npy", np.array([7, 8, 9]))
    found = source_sizes(tmp_path)
    same(found, read(tmp_path))
    assert (found.read_bytes, found.guessed) == (0, ())


def test_arrays_of_types_and_texts(tmp_path: Path) -> None:
    for folder in ("nodes/user", "edges/user__buys__item", "edges/item__at__shop"):
        (tmp_path / folder).mkdir(parents=True)
    np.save(tmp_path / "nodes/user/raw_id.npy", np.array(["ann", "bob"]))
    np.save(tmp_path / "edges/user__buys__item/edge_index.npy", np.array([[0, 1], [0, 1]], np.int32))
    np.save(tmp_path / "edges/user__buys__item/time.npy", np.zeros(2, np.int64))
    np.save(tmp_path / "edges/item__at__shop/edge_index.npy", np.array([[0, 1], [0, 0]]))
    found, wanted = source_sizes(tmp_path), read(tmp_path)
    assert found.nodes["user"] == wanted.nodes["user"]
    assert found.edges == wanted.edges
    assert found.nodes["shop"].rows == 2  # one for each edge; in fact there is one
    assert any("'shop', which have no arrays, are taken to be 2" in guess for guess in found.guessed)


def tables(folder: Path, suffix: str) -> Path:
    pytest.importorskip("pyarrow")
    import pyarrow as pa
    from pyarrow import csv, parquet

    users = pa.table(
        {
            "user": ["ann", "bobby", "cem"],
            "age": [0.5, 0.25, 1.0],
            "team": ["red", "blue", ""],
            "fold": ["train", "val", "test"],
            "far": [1.5, 2.5, 3.5],
        }
    )
    items = pa.table({"item": [30, 10], "year": pa.array([1990, 2001], pa.int32())})
    buys = pa.table({"user": ["ann", "cem"], "item": [10, 30], "price": [2.5, 1.0], "day": ["2021-05-01", "2022-01-01"]})
    for name, table in (("users", users), ("items", items), ("buys", buys)):
        if suffix == ".parquet":
            parquet.write_table(table, folder / f"{name}.parquet")
        else:
            csv.write_csv(table, folder / f"{name}.csv")
            if suffix == ".csv.gz":
                (folder / f"{name}.csv.gz").write_bytes(gzip.compress((folder / f"{name}.csv").read_bytes()))
    day = "" if suffix == ".parquet" else 'time = "day"'
    (folder / "graph.toml").write_text(
        f"""
[nodes.user]
file = "users{suffix}"
id = "user"
features = ["age", "far"]
label = "team"
split = "fold"
columns = ["far"]

[nodes.item]
file = "items{suffix}"
id = "item"
columns = ["year"]

[edges.user__buys__item]
file = "buys{suffix}"
src = "user"
dst = "item"
weight = "price"
{day}
"""
    )
    return folder


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
def test_tables_by_their_footers_or_first_rows(tmp_path: Path, suffix: str) -> None:
    folder = tables(tmp_path, suffix)
    found = source_sizes(folder)
    same(found, read(folder))
    assert found.read_bytes == sum((folder / f"{name}{suffix}").stat().st_size for name in ("users", "items", "buys"))
    assert bool(found.guessed) == (suffix != ".parquet")


def test_tables_without_rows(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    for name, text in {"nodes": "id,c\n", "edges": "src,dst,w,t\n"}.items():
        (tmp_path / f"{name}.csv").write_text(text)
    (tmp_path / "graph.toml").write_text(
        '[nodes.node]\nfile = "nodes.csv"\nid = "id"\ncolumns = ["c"]\n[edges.node__to__node]\nfile = "edges.csv"\n'
        'src = "src"\ndst = "dst"\ncolumns = ["w"]\ntime = "t"\n'
    )
    found, wanted = source_sizes(tmp_path), read(tmp_path)
    assert found.nodes[NODE].columns == wanted.nodes[NODE].columns
    assert found.edges == wanted.edges


@pytest.mark.parametrize("packed", [False, True])
def test_rows_of_a_long_text_are_guessed_by_its_first_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(sizing_tables, "_SAMPLE", 1 << 16)
    rng = np.random.default_rng(0)
    lines = "\n".join(f"{src},{dst}" for src, dst in rng.integers(10**5, 10**6, (100_000, 2)))
    data = f"src,dst\n{lines}\n".encode()
    name = "edges.csv.gz" if packed else "edges.csv"
    (tmp_path / name).write_bytes(gzip.compress(data, 1) if packed else data)
    (tmp_path / "graph.toml").write_text(
        f'[edges.node__to__node]\nfile = "{name}"\nsrc = "src"\ndst = "dst"\nundirected = true\n'
    )
    found = source_sizes(tmp_path)
    assert found.edges[EDGE].rows == pytest.approx(200_000, rel=0.05)
    assert len(found.guessed) == 3  # rows, reverses, nodes


def test_rows_of_packed_text_are_guessed_in_members_and_to_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(sizing_tables, "_SAMPLE", 1 << 10)
    lines = [f"{src},{dst}\n".encode() for src, dst in np.random.default_rng(0).integers(10**5, 10**6, (50_000, 2))]
    file = tmp_path / "edges.csv.gz"
    (tmp_path / "graph.toml").write_text('[edges.node__to__node]\nfile = "edges.csv.gz"\nsrc = "src"\ndst = "dst"\n')
    for members in (5, 500, 50_000):
        parts = [b"src,dst\n", *(b"".join(lines[at : at + members]) for at in range(0, len(lines), members))]
        file.write_bytes(b"".join(gzip.compress(part, 1) for part in parts))
        assert source_sizes(tmp_path).edges[EDGE].rows == pytest.approx(50_000, rel=0.1)
    file.write_bytes(gzip.compress(b"src,dst\n1,2\n3,4"))
    assert source_sizes(tmp_path).edges[EDGE].rows == 2
    file.write_bytes(gzip.compress(b"src,dst\n" + b"".join(lines))[:300] + bytes(range(250)) * 100)
    with pytest.raises(HalohopError, match=r"edges\.csv\.gz"):
        source_sizes(tmp_path)


def ogb(folder: Path) -> Path:
    raw, split = folder / "ogbn_arxiv" / "raw", folder / "ogbn_arxiv" / "split" / "time"
    split.mkdir(parents=True)
    raw.mkdir()
    texts = {
        "edge": "0,1\n1,2\n",
        "num-node-list": "3\n",
        "num-edge-list": "2\n",
        "node-feat": "0.5,1\n1,2\n3,4\n",
        "node-label": "1\n0\n2\n",
        "node_year": "2001\n2002\n2003\n",
    }
    for name, text in texts.items():
        (raw / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("train", "valid", "test"):
        (split / f"{name}.csv.gz").write_bytes(gzip.compress(b"0\n"))
    return folder / "ogbn_arxiv"


def test_ogb_by_its_counts(tmp_path: Path) -> None:
    folder = ogb(tmp_path)
    same(source_sizes(folder), read(folder))
    (folder / "raw" / "num-node-list.csv.gz").unlink()
    with pytest.raises(HalohopError, match=r"num-node-list\.csv\.gz is missing"):
        source_sizes(folder)


def test_ogb_in_binary_is_not_read(tmp_path: Path) -> None:
    raw = tmp_path / "ogbn_papers100M" / "raw"
    raw.mkdir(parents=True)
    np.savez(
        raw / "data.npz",
        num_nodes_list=np.array([4]),
        num_edges_list=np.array([3]),
        edge_index=np.zeros((2, 3), np.int64),
        node_feat=np.zeros((4, 8), np.float32),
        node_year=np.zeros((4, 1), np.int64),
    )
    found = source_sizes(tmp_path / "ogbn_papers100M")
    assert found.edges[EDGE] == TableSizes(rows=3)
    assert found.nodes[NODE].columns == {"x": 32, "node_year": 8, "y": 8, "train_mask": 1, "val_mask": 1, "test_mask": 1}


def test_reverses_and_normalized_features_are_made_first(tmp_path: Path) -> None:
    plain = source_sizes("synthetic:tiny")
    both = source_sizes("synthetic:tiny", undirected=True, normalize=True)
    assert both.num_edges == 2 * plain.num_edges
    assert both.read_bytes > 0
    assert both.guessed == ("every edge is taken to get a reverse",)


def test_sizes_of_tables_in_memory() -> None:
    sparse = torch.eye(5).to_sparse()
    tables = ring(5)
    tables.nodes[NODE].columns["s"] = sparse
    sizes = GraphSizes.of(tables)
    assert sizes.nodes[NODE].columns["s"] == 8 + 8.0  # a begin, and one entry with its place
    assert sizes.num_edges == 10
