"""PyG's data sets by name: read from files in their raw format, refused in one sentence, and counted on real graphs."""

import gzip
import sys
from pathlib import Path
from typing import Any
from urllib.error import URLError

import numpy as np
import pytest
import torch
from torch_geometric import datasets
from torch_geometric.data import Data, HeteroData, InMemoryDataset, TemporalData

from halohop import load_link_graph, load_source
from halohop.errors import InputError
from halohop.typing import EDGE, NODE

TRIPLES = {"train": "3 _hypernym 0\n0 _has_part 1\n1 _hypernym 2\n", "valid": "2 _has_part 3\n", "test": "0 _hypernym 2\n"}


def write_amazon(root: Path, name: str = "Photo") -> Path:
    """A graph of four nodes in the raw format of `Amazon`."""
    folder = root / name / "raw"
    folder.mkdir(parents=True)
    arrays = {"adj_data": np.ones(3, np.float32), "adj_indices": np.array([1, 2, 3]), "adj_indptr": np.array([0, 1, 2, 3, 3])}
    arrays |= {"attr_data": np.ones(2, np.float32), "attr_indices": np.array([0, 2]), "attr_indptr": np.array([0, 1, 1, 2, 2])}
    shapes = {"adj_shape": np.array([4, 4]), "attr_shape": np.array([4, 3])}
    np.savez(folder / f"amazon_electronics_{name.lower()}.npz", **arrays, **shapes, labels=np.array([0, 1, 0, 1]))
    return root


def write_triples(root: Path) -> Path:
    (root / "raw").mkdir(parents=True)
    for split, text in TRIPLES.items():
        (root / f"raw/{split}.txt").write_text(text)
    return root


def counts(columns: dict[str, torch.Tensor]) -> list[int]:
    return [int(columns[f"{split}_mask"].sum()) for split in ("train", "val", "test")]


def test_a_class_reads_its_raw_files_and_the_graph_gets_a_split(tmp_path: Path) -> None:
    tables = load_source(f"pyg:Amazon/Photo?root={write_amazon(tmp_path)}", fractions=(0.5, 0.25, 0.25))
    table, columns = tables.edges[EDGE], tables.nodes[NODE].columns
    assert {*zip(table.src.tolist(), table.dst.tolist(), strict=True)} == {(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)}
    assert columns["x"].tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 1], [0, 0, 0]]
    assert columns["y"].tolist() == [0, 1, 0, 1]
    assert counts(columns) == [2, 1, 1]


def test_features_are_stored_sparse_on_request(tmp_path: Path) -> None:
    x = load_source(f"pyg:Amazon/Photo?root={write_amazon(tmp_path)}&sparse=true").nodes[NODE].columns["x"]
    assert x.is_sparse
    assert x.to_dense().sum(dim=1).tolist() == [1, 0, 1, 0]


def test_triples_are_one_relation_or_one_for_each_type_and_keep_their_split(tmp_path: Path) -> None:
    source = f"pyg:WordNet18RR?root={write_triples(tmp_path)}"
    (table,) = load_link_graph(source).edges.values()
    assert counts(table.columns) == [3, 1, 1]
    assert sorted(table.columns["edge_type"].tolist()) == [2, 2, 3, 3, 3]
    typed = load_link_graph(f"{source}&typed=true").edges
    assert {relation: counts(table.columns) for relation, table in typed.items()} == {
        (NODE, "2", NODE): [1, 1, 0],  # _has_part
        (NODE, "3", NODE): [2, 0, 1],
    }
    assert (typed[NODE, "2", NODE].src.tolist(), typed[NODE, "2", NODE].dst.tolist()) == (
        [1, 3],
        [2, 0],
    )  # nodes in the order of the files


@pytest.mark.parametrize("key", ["typed", "hetero"])
def test_lists_of_nodes_become_masks_and_labels(tmp_path: Path, key: str) -> None:
    """RDF in the raw format of `Entities`."""
    pytest.importorskip("rdflib")
    pytest.importorskip("pandas")
    raw = tmp_path / "aifb/raw"
    raw.mkdir(parents=True)
    with gzip.open(raw / "aifb_stripped.nt.gz", "wt") as file:
        file.write("".join(f"<http://e/{a}> <http://e/{p}> <http://e/{b}> .\n" for a, p, b in ("akb", "bkc", "cld", "dka")))
    for name, rows in {"completeDataset": "ax by cx", "trainingSet": "ax by", "testSet": "cx"}.items():
        lines = [f"http://e/{row[0]}\t{row[1]}\n" for row in rows.split()]
        (raw / f"{name}.tsv").write_text("person\tlabel_affiliation\n" + "".join(lines))
    tables = load_source(f"pyg:Entities/AIFB?root={tmp_path}&{key}=true")
    ((name, nodes),) = tables.nodes.items()
    assert name == (NODE if key == "typed" else "v")
    assert nodes.num_nodes == 4
    assert sorted(table.num_edges for table in tables.edges.values()) == [1, 1, 3, 3]
    y, train, test = (nodes.columns[column] for column in ("y", "train_mask", "test_mask"))
    assert (int(train.sum()), int(test.sum()), int((y == -1).sum())) == (2, 1, 1)
    assert sorted(y[train].tolist()) == [0, 1]
    assert (y[~train & ~test] == -1).all()


class Several(InMemoryDataset):
    """Graphs that a test makes."""

    graphs: list[Any] = []  # noqa: RUF012

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__(None)
        self.scale = scale

    def len(self) -> int:
        return len(self.graphs)

    def get(self, index: int) -> Any:
        return self.graphs[index]


@pytest.fixture
def several(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    graphs: list[Any] = []
    monkeypatch.setattr(Several, "graphs", graphs)
    monkeypatch.setattr(datasets, "Several", Several, raising=False)
    return graphs


def ring(count: int, **columns: torch.Tensor) -> Data:
    return Data(edge_index=torch.stack([torch.arange(count), torch.arange(count).roll(-1)]), num_nodes=count, **columns)


def test_one_of_several_graphs_is_named(several: list[Any]) -> None:
    several += [ring(3), ring(5)]
    with pytest.raises(InputError, match=r"holds 2 graphs; name one of them, such as \?graph=0"):
        load_source("pyg:Several")
    assert load_source("pyg:Several?graph=1&scale=0.5").nodes[NODE].num_nodes == 5
    with pytest.raises(InputError, match="graph must be below 2, the number of graphs, got 2"):
        load_source("pyg:Several?graph=2")


def test_one_of_several_splits_is_named(several: list[Any]) -> None:
    masks = torch.eye(4).bool()
    several += [ring(4, train_mask=masks, y=torch.arange(4))]
    with pytest.raises(InputError, match=r"train_mask holds 4 splits; name one of them, such as \?mask=0"):
        load_source("pyg:Several")
    assert load_source("pyg:Several?mask=2").nodes[NODE].columns["train_mask"].tolist() == [False, False, True, False]
    with pytest.raises(InputError, match="train_mask holds 4 splits"):
        load_source("pyg:Several?mask=4")


def test_events_are_edges_with_times(several: list[Any]) -> None:
    src, dst, t = torch.tensor([0, 4, 1]), torch.tensor([4, 1, 2]), torch.tensor([10, 20, 30])
    several += [TemporalData(src=src, dst=dst, t=t, msg=torch.eye(3), y=torch.tensor([0, 1, 0]))]
    tables = load_source("pyg:Several")
    table = tables.edges[EDGE]
    assert tables.nodes[NODE].num_nodes == 5
    assert (table.src.tolist(), table.dst.tolist(), table.columns["time"].tolist()) == ([0, 4, 1], [4, 1, 2], [10, 20, 30])
    assert torch.equal(table.columns["edge_attr"], torch.eye(3))
    assert table.columns["edge_y"].tolist() == [0, 1, 0]


def test_a_typed_graph_stays_typed(several: list[Any]) -> None:
    data = HeteroData()
    data["a"].num_nodes, data["b"].num_nodes = 2, 3
    data["a", "to", "b"].edge_index = torch.tensor([[0, 1], [2, 0]])
    several += [data]
    assert list(load_source("pyg:Several").edges) == [("a", "to", "b")]
    with pytest.raises(
        InputError, match="not a graph of one node type with an edge_type, so typed=true has no effect; leave it out"
    ):
        load_source("pyg:Several?typed=true")


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("pyg:Amazn/Photo", r"PyG has no data set 'Amazn'; did you mean Amazon"),
        ("pyg:", r"PyG has no data set ''; torch_geometric.datasets lists them"),
        ("pyg:split", r"PyG has no data set 'split'"),
        ("pyg:Amazon", r"PyG's Amazon needs 'name'; write pyg:Amazon/NAME"),
        ("pyg:Amazon/Phone?root=x", r"PyG's Amazon does not take root='x', name='Phone'"),
        ("pyg:Amazon/Photo?rot=x", r"PyG's Amazon does not take 'rot'; known: root, name, force_reload, graph"),
        ("pyg:Amazon/Photo?transform=x", r"PyG's Amazon does not take 'transform'"),
        ("pyg:KarateClub/x", r"PyG's KarateClub does not take 'name'; known: graph, mask, typed, sparse"),
        ("pyg:KarateClub?typed=yes", r"typed=yes is neither true nor false"),
        ("pyg:KarateClub?graph=first", r"graph=first is no whole number"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(source: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint) as caught:
        load_source(source)
    assert "\n" not in str(caught.value)


def test_without_files_and_internet_the_folder_and_the_files_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Any) -> None:
        raise URLError("no route to host")

    monkeypatch.setattr(datasets.Amazon, "download", fail)
    with pytest.raises(
        InputError, match=r"Photo/raw lacks files of PyG's Amazon.*no route.*put amazon_electronics_photo\.npz there"
    ):
        load_source(f"pyg:Amazon/Photo?root={tmp_path}")


def test_a_library_that_pyg_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "aifb/raw").mkdir(parents=True)
    for name in ("aifb_stripped.nt.gz", "completeDataset.tsv", "trainingSet.tsv", "testSet.tsv"):
        (tmp_path / "aifb/raw" / name).touch()
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match="PyG reads this data set with pandas; pip install pandas"):
        load_source(f"pyg:Entities/AIFB?root={tmp_path}")


def test_damaged_files_are_named(tmp_path: Path) -> None:
    write_amazon(tmp_path)
    (tmp_path / "Photo/raw/amazon_electronics_photo.npz").write_bytes(b"not an archive")
    with pytest.raises(InputError, match=r"cannot be read \(\w+: .*\); are the files below .* those of this data set\?"):
        load_source(f"pyg:Amazon/Photo?root={tmp_path}")


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "num_nodes", "num_edges", "num_features", "num_classes"),
    [
        ("Amazon/Photo", 7_650, 238_162, 745, 8),
        pytest.param("Amazon/Computers", 13_752, 491_722, 767, 10, marks=pytest.mark.full),
        pytest.param("Coauthor/CS", 18_333, 163_788, 6_805, 15, marks=pytest.mark.full),
    ],
)
def test_real_graphs(pyg_root: Path, name: str, num_nodes: int, num_edges: int, num_features: int, num_classes: int) -> None:
    tables = load_source(f"pyg:{name}?root={pyg_root}")
    nodes = tables.nodes[NODE]
    assert (nodes.num_nodes, tables.edges[EDGE].num_edges) == (num_nodes, num_edges)
    assert nodes.columns["x"].shape == (num_nodes, num_features)
    assert nodes.columns["y"].unique().tolist() == list(range(num_classes))
    assert int(nodes.columns["train_mask"].sum()) == round(0.6 * num_nodes)


@pytest.mark.data
def test_real_aifb(pyg_root: Path) -> None:
    pytest.importorskip("rdflib")
    pytest.importorskip("pandas")
    tables = load_source(f"pyg:Entities/AIFB?root={pyg_root}&hetero=true")
    nodes = tables.nodes["v"]
    assert (nodes.num_nodes, len(tables.edges)) == (8_285, 90)
    assert sum(table.num_edges for table in tables.edges.values()) == 58_086
    train, test = nodes.columns["train_mask"], nodes.columns["test_mask"]
    assert (int(train.sum()), int(test.sum()), int((train & test).sum())) == (140, 36, 0)
    assert nodes.columns["y"][train | test].unique().tolist() == [0, 1, 2, 3]
    assert (nodes.columns["y"][~train & ~test] == -1).all()


@pytest.mark.data
def test_real_wn18rr(pyg_root: Path) -> None:
    """The counts of Dettmers et al., 2018."""
    tables = load_source(f"pyg:WordNet18RR?root={pyg_root}/wn18rr&typed=true")
    assert (tables.nodes[NODE].num_nodes, len(tables.edges)) == (40_943, 11)
    assert [sum(found) for found in zip(*(counts(table.columns) for table in tables.edges.values()), strict=True)] == [
        *(86_835, 3_034, 3_134)
    ]
