from pathlib import Path

import numpy as np
import pytest
import torch

from halohop.datasets import read_arrays
from halohop.datasets.sources import load_source
from halohop.datasets.text import text_column, texts_of
from halohop.errors import HalohopError, IdError, InputError
from halohop.typing import EDGE, NODE, RAW_TEXT

ENDS = np.array([[0, 1, 2], [1, 2, 0]])


def save(folder: Path, **arrays: np.ndarray) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return folder


def test_one_folder_is_a_graph_of_one_type_and_its_pages_are_the_files(tmp_path: Path) -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    save(
        tmp_path,
        edge_index=ENDS,
        edge_weight=np.array([1.0, 2.0, 3.0]),
        x=x,
        y=np.array([1, -1, 0]),
        year=np.array([7, 8, 9], "u2"),
    )
    tables = load_source(tmp_path)
    nodes, edges = tables.nodes[NODE], tables.edges[EDGE]
    assert (edges.src.tolist(), edges.dst.tolist()) == (ENDS[0].tolist(), ENDS[1].tolist())
    assert edges.columns["edge_weight"].tolist() == [1, 2, 3]
    assert torch.equal(nodes.columns["x"], torch.from_numpy(x))
    assert nodes.columns["year"].dtype == torch.int64
    mapped = Path("/proc/self/maps").read_text()
    assert str(tmp_path / "x.npy") in mapped
    assert torch.equal(load_source(tmp_path / "x.npy").nodes[NODE].columns["x"], nodes.columns["x"])


def test_folders_of_several_types_with_ids_and_classes_that_are_strings(tmp_path: Path) -> None:
    save(tmp_path / "nodes/user", raw_id=np.array(["ann", "bö"]), y=np.array(["red", ""]))
    save(tmp_path / "nodes/item", raw_id=np.array([30, 10, 20]), x=np.zeros((3, 2), np.float16))
    save(tmp_path / "edges/user__buys__item", edge_index=np.array([[0, 1], [2, 0]], np.int32), weight=np.ones(2))
    save(tmp_path / "edges/item__at__shop", edge_index=np.array([[0], [4]]))
    tables = read_arrays(tmp_path)
    assert {name: table.num_nodes for name, table in tables.nodes.items()} == {"user": 2, "item": 3, "shop": 5}
    user, item = tables.nodes["user"], tables.nodes["item"]
    assert texts_of(user.columns[RAW_TEXT]).tolist() == ["ann", "bö"]
    assert (user.columns["y"].tolist(), user.names["y"]) == ([0, -1], ("red",))
    assert item.raw_id is not None
    assert item.raw_id.tolist() == [30, 10, 20]
    assert tables.edges["user", "buys", "item"].columns["weight"].tolist() == [1, 1]


def test_without_arrays_of_nodes_there_are_as_many_as_edges_mention(tmp_path: Path) -> None:
    assert read_arrays(save(tmp_path, edge_index=ENDS)).nodes[NODE].num_nodes == 3
    assert read_arrays(save(tmp_path, edge_index=np.empty((2, 0), np.int64))).nodes[NODE].num_nodes == 0


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            {"edge_index": ENDS[0]},
            r"edge_index\.npy is torch\.int64 of shape \(3,\), expected int64 or int32 of \[2, num_edges\]",
        ),
        ({"edge_index": ENDS.astype(float)}, "is torch.float64"),
        ({"edge_index": ENDS, "x": np.zeros(3), "z": np.zeros(4)}, r"x\.npy has 3 rows, but other arrays of 'node' have 4"),
        ({"edge_index": ENDS, "edge_w": np.zeros(2)}, r"edge_w\.npy has 2 rows, but there are 3 edges"),
        ({"edge_index": ENDS, "x": np.array([None] * 3)}, r"x\.npy cannot be read as one array without pickle"),
        ({"edge_index": ENDS, "x": np.array(5)}, r"x\.npy holds a single number"),
        ({"edge_index": ENDS, "when": np.zeros(3, "M8[s]")}, r"when\.npy holds datetime64\[s\]"),
        ({"edge_index": ENDS + 1, "x": np.zeros(3)}, "holds 3, but ids go from 0 to 2"),
        ({"edge_index": ENDS, "raw_id": np.array(["a", "b\0c", "d"])}, "holds the character zero"),
        ({"edge_index": ENDS, "raw_id": np.array(["a", "b" * 1025, "d"])}, "has 1025 bytes, more than 1024"),
    ],
)
def test_bad_arrays_are_named(tmp_path: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises((InputError, IdError), match=message):
        read_arrays(save(tmp_path, **arrays))


def test_bad_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(HalohopError, match=r"neither edge_index\.npy nor folders"):
        read_arrays(tmp_path)
    save(tmp_path / "edges/a__b", edge_index=ENDS)
    with pytest.raises(HalohopError, match="named src__name__dst"):
        read_arrays(tmp_path)
    (tmp_path / "edges/a__b").rename(tmp_path / "edges/a__to__b")
    (tmp_path / "edges/a__to__b/edge_index.npy").unlink()
    with pytest.raises(HalohopError, match=r"edges a__to__b have no edge_index\.npy"):
        read_arrays(tmp_path)


def test_texts_come_back(tmp_path: Path) -> None:
    texts = ["", "a", "ähm", "日本", "x" * 40]
    assert texts_of(text_column(texts)).tolist() == texts
    assert texts_of(text_column([])).tolist() == []
