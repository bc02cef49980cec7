from pathlib import Path

import numpy as np
import pytest
import torch

from halohop.datasets.npz import read_npz
from halohop.errors import IncompleteDatasetError, InputError
from halohop.typing import EDGE, NODE

# Rows: 0 -> 1, 1, 0 (a duplicate and a self-loop); 1 -> 2; 2 -> 1; 3 alone.
ARRAYS = {
    "adj_data": np.ones(5, np.float32),
    "adj_indices": np.array([1, 1, 0, 2, 1], np.int32),
    "adj_indptr": np.array([0, 3, 4, 5, 5], np.int32),
    "adj_shape": np.array([4, 4]),
    "attr_data": np.array([1, 2, 3, 4], np.float64),
    "attr_indices": np.array([0, 2, 1, 1], np.int32),
    "attr_indptr": np.array([0, 2, 4, 4, 4], np.int32),
    "attr_shape": np.array([4, 3]),
    "labels": np.array([2, 0, 1, 0], np.int32),
}
X = [[1, 0, 2], [0, 7, 0], [0, 0, 0], [0, 0, 0]]


def write(folder: Path, *drop: str, **change: np.ndarray) -> Path:
    path = folder / "graph.npz"
    np.savez(path, **{key: array for key, array in (ARRAYS | change).items() if key not in drop})
    return path


def edges(path: Path, **options) -> list[list[int]]:
    table = read_npz(path, **options).edges[EDGE]
    return [table.src.tolist(), table.dst.tolist()]


def test_edges_become_simple_and_on_request_symmetric(tmp_path: Path) -> None:
    assert edges(write(tmp_path)) == [[0, 1, 2], [1, 2, 1]]
    assert edges(write(tmp_path), undirected=True) == [[0, 1, 2, 1], [1, 2, 1, 0]]


def test_sparse_features_add_up_and_become_dense(tmp_path: Path) -> None:
    columns = read_npz(write(tmp_path)).nodes[NODE].columns
    assert columns["x"].dtype == torch.float32
    assert columns["x"].tolist() == X
    assert columns["y"].dtype == torch.int64
    assert columns["y"].tolist() == [2, 0, 1, 0]


def test_normalized_rows_sum_to_one_or_zero(tmp_path: Path) -> None:
    x = read_npz(write(tmp_path), normalize=True).nodes[NODE].columns["x"]
    assert torch.allclose(x, torch.tensor([[1 / 3, 0, 2 / 3], [0, 1, 0], [0, 0, 0], [0, 0, 0]]))


def test_dense_features_and_none(tmp_path: Path) -> None:
    attr = [key for key in ARRAYS if key.startswith("attr")]
    dense = write(tmp_path, *attr, attr_matrix=np.array(X, np.float64))
    assert read_npz(dense).nodes[NODE].columns["x"].tolist() == X
    assert "x" not in read_npz(write(tmp_path, *attr)).nodes[NODE].columns


def test_empty_graph(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        adj_indices=np.empty(0, np.int32),
        adj_indptr=np.zeros(1, np.int32),
        adj_shape=np.array([0, 0]),
        attr_data=np.empty(0),
        attr_indices=np.empty(0, np.int32),
        attr_indptr=np.zeros(1, np.int32),
        attr_shape=np.array([0, 3]),
        labels=np.empty(0, np.int64),
    )
    assert edges(path) == [[], []]
    assert read_npz(path).nodes[NODE].columns["x"].shape == (0, 3)


@pytest.mark.parametrize("key", ["adj_indices", "adj_indptr", "adj_shape", "labels", "attr_data", "attr_indptr", "attr_shape"])
def test_a_missing_array_is_named_with_the_file(tmp_path: Path, key: str) -> None:
    with pytest.raises(InputError, match=rf"graph\.npz has no array '{key}'"):
        read_npz(write(tmp_path, key))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"adj_indices": np.array([1, 1, 0, 4, 1])}, "adj_indices holds 4, expected 0 to 3"),
        ({"adj_indices": np.array([1, 1, 0, -1, 1])}, "adj_indices holds -1"),
        ({"adj_indptr": np.array([0, 3, 2, 5, 5])}, "adj_indptr must rise"),
        ({"adj_indptr": np.array([0, 3, 4, 4])}, "adj_indptr must rise"),
        ({"adj_shape": np.array([4, 5])}, "square"),
        ({"labels": np.zeros(3, np.int64)}, "expected 4 integers"),
        ({"labels": np.zeros(4, np.float32)}, "labels are float32"),
        ({"attr_shape": np.array([5, 3])}, "there are 4 nodes"),
        ({"attr_data": np.ones(3)}, "attr_data has shape"),
        ({"attr_matrix": np.ones((3, 2))}, "attr_matrix has shape"),
        ({"labels": np.array([0, 1, "x", None], dtype=object)}, "'labels' of .* cannot be read"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path: Path, change, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_npz(write(tmp_path, **change))


def test_features_over_the_memory_limit_are_refused(tmp_path: Path) -> None:
    assert read_npz(write(tmp_path), max_feature_bytes=48)
    with pytest.raises(InputError, match="max_feature_bytes"):
        read_npz(write(tmp_path), max_feature_bytes=47)
    with pytest.raises(InputError, match="GiB as a dense float32 matrix"):
        read_npz(write(tmp_path), max_feature_bytes=1)
    with pytest.raises(InputError, match="too wide"):
        read_npz(write(tmp_path, attr_shape=np.array([4, 2**50])), max_feature_bytes=47)
    few = read_npz(write(tmp_path, attr_shape=np.array([4, 2**20])), max_feature_bytes=47)  # what stays sparse takes no such room
    assert few.nodes["node"].columns["x"].shape == (4, 2**20)


def test_what_is_no_npz_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IncompleteDatasetError, match="no file"):
        read_npz(tmp_path / "absent.npz")
    (tmp_path / "text.npz").write_text("not an archive")
    with pytest.raises(InputError, match="not an npz file"):
        read_npz(tmp_path / "text.npz")
    np.save(tmp_path / "one.npy", np.ones(3))
    with pytest.raises(InputError, match="single array"):
        read_npz(tmp_path / "one.npy")
    whole = write(tmp_path).read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="not an npz file"):
        read_npz(tmp_path / "cut.npz")


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "num_nodes", "num_edges", "num_features", "num_classes"),
    [
        ("amazon_electronics_photo", 7_650, 238_162, 745, 8),
        ("amazon_electronics_computers", 13_752, 491_722, 767, 10),
        ("ms_academic_cs", 18_333, 163_788, 6_805, 15),
    ],
)
def test_real_graphs(shared_data: Path, name: str, num_nodes: int, num_edges: int, num_features: int, num_classes: int) -> None:
    tables = read_npz(shared_data / "amazon_coauthor" / f"{name}.npz", undirected=True)
    nodes = tables.nodes[NODE]
    assert (nodes.num_nodes, tables.edges[EDGE].num_edges) == (num_nodes, num_edges)
    assert nodes.columns["x"].shape == (num_nodes, num_features)
    assert nodes.columns["y"].unique().tolist() == list(range(num_classes))
    assert int(nodes.columns["train_mask"].sum()) == round(0.6 * num_nodes)
