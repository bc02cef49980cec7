"""Graphs in a ``.npz`` file, in the layout of GNN benchmark sets (Shchur et al., 2018): PyG's Amazon and Coauthor have it."""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from halohop.datasets.archive import Arrays
from halohop.datasets.casting import as_tensor, nearest
from halohop.datasets.staging import Staging
from halohop.errors import InputError
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.typing import EDGE, NODE

_READ = (
    "adj_data",
    "adj_indices",
    "adj_indptr",
    "attr_data",
    "attr_indices",
    "attr_indptr",
    "attr_shape",
    "attr_matrix",
    "labels",
)


def read_npz(path: Path, staging: Staging | None = None) -> GraphTables:
    """A graph whose edges are a CSR matrix ``adj_*``, and whose features are another one, ``attr_*``, or dense, ``attr_matrix``.

    Row i of the first matrix holds the edges from node i; edges, features and their values are taken as they are stored. Sparse
    features stay sparse. ``labels`` become ``y``.

    Raises:
        InputError: the file holds other arrays, or some that do not fit together.
    """
    staging = staging or Staging()
    arrays = Arrays(path, _READ.__contains__, staging)

    def tensor(name: str) -> Tensor:
        return as_tensor(staging, f"npz.{name}", arrays[name], nearest(arrays[name].dtype))

    if "adj_indptr" not in arrays or "adj_indices" not in arrays:
        raise InputError(
            f"{path} does not hold a matrix adj_indptr, adj_indices, adj_data; unpack other arrays into a folder and name it: "
            f"unzip {path} -d FOLDER; it needs edge_index.npy, see docs/data.md"
        )
    (src, dst), num_nodes = _entries(path, "adj", tensor)
    columns, edge_columns = {}, {}
    if "attr_matrix" in arrays:
        columns["x"] = tensor("attr_matrix")
    elif "attr_data" in arrays:
        places, num_rows = _entries(path, "attr", tensor)
        shape = (num_rows, int(tensor("attr_shape")[1]))
        if places.numel() and not 0 <= int(places[1].min()) <= int(places[1].max()) < shape[1]:
            raise InputError(f"{path}: attr_indices holds {int(places[1].max())}, but there are {shape[1]} columns")
        columns["x"] = torch.sparse_coo_tensor(places, tensor("attr_data"), shape, check_invariants=False).coalesce()
    if "labels" in arrays:
        columns["y"] = tensor("labels").long()
    if "adj_data" in arrays and bool((tensor("adj_data") != 1).any()):
        edge_columns["weight"] = tensor("adj_data")
    edges = EdgeTable(src=src, dst=dst, columns=edge_columns)
    return GraphTables(nodes={NODE: NodeTable(num_nodes=num_nodes, columns=columns)}, edges={EDGE: edges})


def _entries(path: Path, matrix: str, tensor: Callable[[str], Tensor]) -> tuple[Tensor, int]:
    """Row and column of each entry of a CSR matrix, int64 ``[2, n]``, and how many rows there are."""
    begin, column = tensor(f"{matrix}_indptr").long(), tensor(f"{matrix}_indices").long()
    lengths = begin.diff()
    if not len(begin) or int(begin[0]) != 0 or bool((lengths < 0).any()) or int(begin[-1]) != len(column):
        raise InputError(f"{path}: {matrix}_indptr does not divide the {len(column)} entries of {matrix}_indices; save it as CSR")
    return torch.stack([torch.arange(len(lengths)).repeat_interleave(lengths), column]), len(lengths)
