"""Graphs of GNN benchmark sets in one file."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import halohop
from halohop import load_source
from halohop.errors import IdError, InputError
from halohop.typing import EDGE, NODE

GRAPH: dict[str, Any] = {
    "adj_indptr": np.array([0, 2, 2, 3], np.int32),
    "adj_indices": np.array([1, 2, 0], np.int32),
    "adj_data": np.ones(3, np.float32),
    "adj_shape": np.array([3, 3]),
    "labels": np.array([1, 0, 1], np.int8),
}
WORDS: dict[str, Any] = {
    "attr_indptr": np.array([0, 1, 1, 3]),
    "attr_indices": np.array([3, 0, 1]),
    "attr_data": np.array([1.0, 2.0, 1.0], np.float32),
    "attr_shape": np.array([3, 4]),
}


def write(path: Path, **arrays: Any) -> Path:
    np.savez(path / "graph.npz", **{name: array for name, array in arrays.items() if array is not None})
    return path / "graph.npz"


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("staged", [False, True])
def test_edges_features_and_labels_are_those_of_the_file(tmp_path: Path, dense: bool, staged: bool) -> None:
    words = np.array([[0, 0, 0, 1], [0, 0, 0, 0], [2, 1, 0, 0]], np.float32)
    more = {"attr_matrix": words} if dense else WORDS
    path = write(tmp_path, **GRAPH, **more, node_names=np.array(["a", None], dtype=object))  # pickled, and not read
    tables = load_source(path, scratch=tmp_path / "scratch" if staged else None)
    nodes, edges = tables.nodes[NODE], tables.edges[EDGE]
    assert (edges.src.tolist(), edges.dst.tolist(), list(edges.columns)) == ([0, 0, 2], [1, 2, 0], [])
    x = nodes.columns["x"]
    assert (x if dense else x.to_dense()).tolist() == words.tolist()
    assert (nodes.columns["y"].dtype, nodes.columns["y"].tolist()) == (torch.int64, [1, 0, 1])
    halohop.partition(tables, tmp_path / "parts", num_parts=2, method="random")


def test_values_of_edges_are_weights_unless_all_are_one(tmp_path: Path) -> None:
    path = write(tmp_path, **GRAPH | {"adj_data": np.array([1.0, 0.5, 1.0])})
    assert load_source(path).edges[EDGE].columns["weight"].tolist() == [1.0, 0.5, 1.0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"adj_indptr": None}, r"does not hold a matrix adj_indptr.*unzip .*graph\.npz -d FOLDER"),
        ({"adj_indptr": np.array([0, 2, 2, 4])}, "adj_indptr does not divide the 3 entries of adj_indices"),
        ({"adj_indptr": np.array([0, 3, 2, 3])}, "adj_indptr does not divide"),
        ({"adj_indptr": np.array([1, 2, 2, 3])}, "adj_indptr does not divide"),
        ({"attr_indptr": np.array([0, 1, 1, 2])}, "attr_indptr does not divide the 3 entries of attr_indices"),
        ({"attr_indices": np.array([3, 0, 9])}, "attr_indices holds 9, but there are 4 columns"),
    ],
)
def test_other_arrays_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_source(write(tmp_path, **GRAPH | WORDS | changes))


def test_an_edge_to_no_node_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IdError, match="7"):
        halohop.partition(
            load_source(write(tmp_path, **GRAPH | {"adj_indices": np.array([1, 7, 0])})), tmp_path / "p", num_parts=1
        )


@pytest.mark.data
def test_amazon_photo(shared_data: Path) -> None:
    tables = load_source(shared_data / "amazon_coauthor" / "amazon_electronics_photo.npz")
    assert (tables.nodes[NODE].num_nodes, tables.edges[EDGE].num_edges) == (7650, 143_663)
    assert tables.nodes[NODE].columns["x"].shape == (7650, 745)
    assert int(tables.nodes[NODE].columns["y"].max()) == 7
