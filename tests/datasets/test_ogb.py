import gzip
from pathlib import Path

import numpy as np
import pytest
import torch

from halohop.datasets.ogb import ogb_node
from halohop.errors import IdError, IncompleteDatasetError, InputError
from halohop.typing import EDGE, NODE
from tests.support.ogb_files import write_ogb

pytest.importorskip("pyarrow")

EDGES = "0,1\n2,0\n3,3\n"
TEXT = {
    "raw/edge.csv.gz": EDGES,
    "raw/num-node-list.csv.gz": "4\n",
    "raw/num-edge-list.csv.gz": "3\n",
    "raw/node-feat.csv.gz": "0,1\n-0.5,2\n1e-3,3\n7,4\n",
    "raw/node-label.csv.gz": "2\n0\n1\n0\n",
    "split/time/train.csv.gz": "0\n3\n",
    "split/time/valid.csv.gz": "1\n",
    "split/time/test.csv.gz": "2\n",
}
MAG = {
    "raw/num-node-dict.csv.gz": "paper,author\n3,2\n",
    "raw/triplet-type-list.csv.gz": "paper,cites,paper\nauthor,writes,paper\n",
    "raw/nodetype-has-feat.csv.gz": "paper,author\nTrue,False\n",
    "raw/nodetype-has-label.csv.gz": "paper,author\nTrue,False\n",
    "raw/relations/author___writes___paper/edge.csv.gz": "0,2\n1,0\n",
    "raw/relations/author___writes___paper/num-edge-list.csv.gz": "2\n",
    "raw/relations/author___writes___paper/edge_reltype.csv.gz": "1\n1\n",
    "raw/relations/paper___cites___paper/edge.csv.gz": "2,1\n",
    "raw/relations/paper___cites___paper/num-edge-list.csv.gz": "1\n",
    "raw/relations/paper___cites___paper/edge_reltype.csv.gz": "0\n",
    "raw/node-feat/paper/node-feat.csv.gz": "0.5,1\n1.5,2\n2.5,3\n",
    "raw/node-feat/paper/node_year.csv.gz": "2015\n2016\n2017\n",
    "raw/node-label/paper/node-label.csv.gz": "246\n131\n189\n",
    "split/time/nodetype-has-split.csv.gz": "paper,author\nTrue,False\n",
    "split/time/paper/train.csv.gz": "0\n",
    "split/time/paper/valid.csv.gz": "2\n",
    "split/time/paper/test.csv.gz": "1\n",
}


def write(root: Path, name: str, files: dict[str, str]) -> Path:
    for path, text in files.items():
        target = root / name.replace("-", "_") / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(gzip.compress(text.encode()))
    return root


def without(files: dict[str, str], *names: str) -> dict[str, str]:
    return {path: text for path, text in files.items() if path not in names}


def test_text_layout(tmp_path: Path) -> None:
    years = {"raw/node_year.csv.gz": "2010\n2011\n2012\n2013\n"}
    tables = ogb_node(write(tmp_path, "ogbn-arxiv", TEXT | years), "ogbn-arxiv")
    columns = tables.nodes[NODE].columns
    assert columns["x"].dtype == torch.float32
    assert torch.equal(columns["x"], torch.tensor([[0, 1], [-0.5, 2], [1e-3, 3], [7, 4]]))
    assert columns["y"].tolist() == [2, 0, 1, 0]
    assert columns["node_year"].tolist() == [2010, 2011, 2012, 2013]
    assert columns["node_year"].dtype == columns["y"].dtype == torch.int64
    assert columns["train_mask"].tolist() == [True, False, False, True]
    assert columns["val_mask"].tolist() == [False, True, False, False]
    assert columns["test_mask"].tolist() == [False, False, True, False]
    assert tables.edges[EDGE].src.tolist() == [0, 2, 3]
    assert tables.edges[EDGE].dst.tolist() == [1, 0, 3]
    again = ogb_node(tmp_path / "ogbn_arxiv", "ogbn-arxiv")
    assert torch.equal(again.nodes[NODE].columns["x"], columns["x"])


@pytest.mark.parametrize(("name", "asked", "inverse"), [("ogbn-products", None, True), ("ogbn-arxiv", None, False)])
@pytest.mark.parametrize("explicit", [True, False])
def test_inverse_edges_stand_behind_their_edges(tmp_path: Path, name: str, asked, inverse: bool, explicit: bool) -> None:
    write(tmp_path, name, TEXT | {"raw/edge-feat.csv.gz": "0.5\n1.5\n2.5\n", "raw/edge_kind.csv.gz": "7\n8\n9\n"})
    edges = ogb_node(tmp_path, name, add_inverse_edge=inverse if explicit else asked).edges[EDGE]
    if inverse:
        assert edges.src.tolist() == [0, 1, 2, 0, 3, 3]
        assert edges.dst.tolist() == [1, 0, 0, 2, 3, 3]
        assert edges.columns["edge_attr"].tolist() == [[0.5], [0.5], [1.5], [1.5], [2.5], [2.5]]
        assert edges.columns["edge_kind"].tolist() == [7, 7, 8, 8, 9, 9]
    else:
        assert edges.num_edges == 3
        assert edges.columns["edge_attr"].tolist() == [[0.5], [1.5], [2.5]]


def test_tasks_and_gaps_in_labels(tmp_path: Path) -> None:
    proteins = without(TEXT, "raw/node-feat.csv.gz") | {
        "raw/node-label.csv.gz": "1,nan\n0,1\n,0\nnan,nan\n",
        "raw/species.csv.gz": "3702\n3702\n9606\n9606\n",
    }
    columns = ogb_node(write(tmp_path, "ogbn-proteins", proteins), "ogbn-proteins").nodes[NODE].columns
    assert columns["y"].tolist() == [[1, -1], [0, 1], [-1, 0], [-1, -1]]
    assert columns["node_species"].tolist() == [3702, 3702, 9606, 9606]
    assert "x" not in columns


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_binary_layout(tmp_path: Path, dtype: type) -> None:
    splits = {path: text for path, text in TEXT.items() if path.startswith("split")}
    raw = write(tmp_path, "ogbn-papers100M", splits) / "ogbn_papers100M" / "raw"
    raw.mkdir()
    labels = np.array([[2], [0], [1], [0]], dtype)
    if dtype is np.float32:
        labels[1] = np.nan
    np.savez_compressed(raw / "node-label.npz", node_label=labels)
    data = {
        "edge_index": np.array([[0, 2, 3], [1, 0, 3]]),
        "num_nodes_list": np.array([4]),
        "num_edges_list": np.array([3]),
        "node_feat": np.arange(8, dtype=np.float32).reshape(4, 2),
        "node_year": np.array([[2010], [2011], [2012], [2013]]),
        "edge_feat": np.ones((3, 1), np.float32),
    }
    np.savez_compressed(raw / "data.npz", **data)
    tables = ogb_node(tmp_path, "ogbn-papers100M")
    columns = tables.nodes[NODE].columns
    assert columns["x"].tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert columns["y"].tolist() == [2, -1 if dtype is np.float32 else 0, 1, 0]
    assert columns["node_year"].tolist() == [2010, 2011, 2012, 2013]
    assert tables.edges[EDGE].dst.tolist() == [1, 0, 3]
    assert tables.edges[EDGE].columns["edge_attr"].shape == (3, 1)
    del data["edge_index"]
    np.savez_compressed(raw / "data.npz", **data)
    with pytest.raises(InputError, match="no array 'edge_index'"):
        ogb_node(tmp_path, "ogbn-papers100M")


@pytest.mark.parametrize("name", ["ogbn-products", "ogbn-papers100M"])
def test_files_that_other_tests_train_on(tmp_path: Path, name: str) -> None:
    written, read = write_ogb(tmp_path, name, num_nodes=200, num_features=8, num_classes=3), ogb_node(tmp_path, name)
    for key, column in written.nodes[NODE].columns.items():
        torch.testing.assert_close(read.nodes[NODE].columns[key], column, rtol=1e-4, atol=1e-4)
    edges, once = read.edges[EDGE], written.edges[EDGE]
    step = edges.num_edges // once.num_edges
    assert step == (2 if name == "ogbn-products" else 1)
    assert torch.equal(edges.src[::step], once.src.long())
    assert torch.equal(edges.dst[::step], once.dst.long())


def test_heterogeneous_layout(tmp_path: Path) -> None:
    write(tmp_path, "ogbn-mag", MAG)
    tables = ogb_node(tmp_path, "ogbn-mag")
    assert list(tables.nodes) == ["author", "paper"]
    assert list(tables.edges) == [("author", "writes", "paper"), ("paper", "cites", "paper")]
    paper = tables.nodes["paper"].columns
    assert paper["x"].tolist() == [[0.5, 1], [1.5, 2], [2.5, 3]]
    assert paper["node_year"].tolist() == [2015, 2016, 2017]
    assert paper["y"].tolist() == [246, 131, 189]
    assert paper["val_mask"].tolist() == [False, False, True]
    assert tables.nodes["author"].columns == {}
    writes = tables.edges["author", "writes", "paper"]
    assert (writes.src.tolist(), writes.dst.tolist()) == ([0, 1], [2, 0])
    assert writes.columns["edge_reltype"].tolist() == [1, 1]
    reverse = ogb_node(tmp_path, "ogbn-mag", add_inverse_edge=True).edges["paper", "rev_writes", "author"]
    assert (reverse.src.tolist(), reverse.dst.tolist()) == ([2, 0], [0, 1])


def test_without_edges(tmp_path: Path) -> None:
    write(
        tmp_path, "ogbn-products", TEXT | {"raw/edge.csv.gz": "", "raw/num-edge-list.csv.gz": "0\n", "split/time/test.csv.gz": ""}
    )
    tables = ogb_node(tmp_path, "ogbn-products")
    assert tables.edges[EDGE].num_edges == 0
    assert not tables.nodes[NODE].columns["test_mask"].any()


def test_several_splits_need_a_name(tmp_path: Path) -> None:
    write(tmp_path, "ogbn-arxiv", TEXT | {f"split/random/{part}.csv.gz": "2\n" for part in ("train", "valid", "test")})
    with pytest.raises(IncompleteDatasetError, match=r"the splits \['random', 'time'\]"):
        ogb_node(tmp_path, "ogbn-arxiv")
    with pytest.raises(IncompleteDatasetError, match="asked for 'species'"):
        ogb_node(tmp_path, "ogbn-arxiv", split="species")
    assert ogb_node(tmp_path, "ogbn-arxiv", split="random").nodes[NODE].columns["train_mask"].tolist() == [
        False,
        False,
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"raw/edge.csv.gz": "0,1\n2,0\n"}, r"edge\.csv\.gz has 2 rows, expected 3"),
        ({"raw/edge.csv.gz": EDGES + "0,0\n"}, r"edge\.csv\.gz has 4 rows, expected 3"),
        ({"raw/edge.csv.gz": "0,1\n2,\n3,3\n"}, "an empty field where a whole number must be"),
        ({"raw/edge.csv.gz": "0,1\n2,x\n3,3\n"}, r"edge\.csv\.gz cannot be read"),
        ({"raw/edge.csv.gz": "0\n2\n3\n"}, "has 1 columns, expected source and destination"),
        ({"raw/node-feat.csv.gz": "0,1\n"}, r"node-feat\.csv\.gz has 1 rows, expected 4"),
        ({"raw/num-node-list.csv.gz": "4\n4\n"}, "describes 2 graphs"),
        ({"raw/num-node-list.csv.gz": ""}, "describes 0 graphs"),
    ],
)
def test_files_that_do_not_fit_are_named(tmp_path: Path, change: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ogb_node(write(tmp_path, "ogbn-arxiv", TEXT | change), "ogbn-arxiv")


def test_ids_outside_the_graph_are_named(tmp_path: Path) -> None:
    write(tmp_path, "ogbn-arxiv", TEXT | {"split/time/train.csv.gz": "0\n4\n"})
    with pytest.raises(IdError, match="'train' names node 4"):
        ogb_node(tmp_path, "ogbn-arxiv")


@pytest.mark.parametrize("name", ["ogbn-products", "ogbn-mag"])
def test_what_was_never_downloaded_says_how(tmp_path: Path, name: str) -> None:
    remedy = rf"NodePropPredDataset\('{name}', root='{tmp_path}'\)"
    with pytest.raises(IncompleteDatasetError, match=remedy):
        ogb_node(tmp_path, name)
    (tmp_path / name.replace("-", "_") / "raw").mkdir(parents=True)
    (tmp_path / name.replace("-", "_") / "split" / "time").mkdir(parents=True)
    with pytest.raises(IncompleteDatasetError, match=remedy):
        ogb_node(tmp_path, name)


@pytest.mark.parametrize("name", ["raw/num-node-list.csv.gz", "raw/node-label.csv.gz", "split/time/valid.csv.gz"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(IncompleteDatasetError, match=Path(name).name):
        ogb_node(write(tmp_path, "ogbn-arxiv", without(TEXT, name)), "ogbn-arxiv")


@pytest.mark.parametrize(
    "name", ["raw/triplet-type-list.csv.gz", "raw/num-node-dict.csv.gz", "raw/relations/paper___cites___paper/edge.csv.gz"]
)
def test_a_missing_file_of_mag_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(IncompleteDatasetError, match=r"missing|no file"):
        ogb_node(write(tmp_path, "ogbn-mag", without(MAG, name)), "ogbn-mag")
