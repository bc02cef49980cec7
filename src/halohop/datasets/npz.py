"""Graphs in one ``.npz`` file with CSR arrays, as the Amazon and Coauthor graphs are handed around.

The layout is that of Shchur et al., "Pitfalls of Graph Neural Network Evaluation" (2018): ``adj_{indices,indptr,shape}``, the
features as ``attr_{data,indices,indptr,shape}`` or dense ``attr_matrix``, and ``labels``.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from halohop.datasets.archive import Arrays
from halohop.datasets.direction import add_reverses
from halohop.datasets.scale import normalize_rows
from halohop.datasets.splits import FRACTIONS, random_masks
from halohop.errors import InputError
from halohop.memory import machine_bytes
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.typing import EDGE, NODE

SPARSE = 0.05
"""Features of which at most this share is stored stay sparse: that takes at most a tenth of the bytes."""


def read_npz(
    path: str | Path,
    *,
    undirected: bool = False,
    normalize: bool = False,
    fractions: Sequence[float] = FRACTIONS,
    seed: int = 0,
    max_feature_bytes: int | None = None,
) -> GraphTables:
    """A homogeneous graph from an npz file; nothing in the file is unpickled.

    Self-loops and duplicate edges are dropped. Edge weights (``adj_data``) are not read: in these files they are all one.
    Features keep the file's values: Coauthor's are word counts, which some readers cut to 0 and 1.

    Args:
        path: the file.
        undirected: add the reverse of every edge; the Amazon and Coauthor graphs are meant to be undirected.
        normalize: divide each row of features by its sum.
        fractions, seed: of the random split into train, val and test.
        max_feature_bytes: refuse sparse features that take more than this as a dense matrix; default the machine's memory.

    Returns:
        Nodes with ``x`` float32 ``[num_nodes, num_features]`` (if the file has features;
        sparse (COO) where the file stores at most 5 % of them), ``y`` int64 and masks; edges sorted
        by source, then destination, reverses behind them.

    Raises:
        IncompleteDatasetError: there is no such file.
        InputError: it is no npz file, lacks an array, or its arrays do not fit together.
    """
    arrays = Arrays(Path(path), lambda name: name.startswith(("adj_", "attr_")) or name == "labels")
    shape = arrays["adj_shape"]
    if shape.shape != (2,) or shape[0] != shape[1]:
        raise InputError(f"{path}: adj_shape is {shape.tolist()}, but an adjacency matrix is square")
    num_nodes = int(shape[0])
    labels = arrays["labels"]
    if labels.shape != (num_nodes,) or labels.dtype.kind not in "iu":
        raise InputError(f"{path}: labels are {labels.dtype} of shape {labels.shape}, expected {num_nodes} integers")
    columns = {"y": torch.from_numpy(labels.astype(np.int64))}
    x = _features(arrays, num_nodes, max_feature_bytes)
    if x is not None:
        columns["x"] = x
    columns |= random_masks(columns["y"], fractions=fractions, seed=seed)
    nodes = {NODE: NodeTable(num_nodes=num_nodes, columns=columns)}
    tables = GraphTables(nodes=nodes, edges={EDGE: _edges(arrays, num_nodes)})
    tables = normalize_rows(tables) if normalize else tables
    return add_reverses(tables) if undirected else tables


def _csr(arrays: Arrays, prefix: str, num_rows: int, num_columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of each entry of a CSR matrix."""
    indptr, indices = arrays[f"{prefix}_indptr"].astype(np.int64), arrays[f"{prefix}_indices"].astype(np.int64)
    counts = np.diff(indptr)
    if len(indptr) != num_rows + 1 or indptr[0] != 0 or indptr[-1] != len(indices) or (counts < 0).any():
        raise InputError(
            f"{arrays.path}: {prefix}_indptr must rise from 0 to {len(indices)} (the length of {prefix}_indices) "
            f"in {num_rows + 1} entries"
        )
    outside = indices[(indices < 0) | (indices >= num_columns)]
    if len(outside):
        raise InputError(f"{arrays.path}: {prefix}_indices holds {outside[0]}, expected 0 to {num_columns - 1}")
    return np.repeat(np.arange(num_rows), counts), indices


def _edges(arrays: Arrays, num_nodes: int) -> EdgeTable:
    row, col = _csr(arrays, "adj", num_nodes, num_nodes)
    keep = row != col
    src, dst = np.divmod(np.unique(row[keep] * num_nodes + col[keep]), max(num_nodes, 1))
    return EdgeTable(src=torch.from_numpy(src), dst=torch.from_numpy(dst))


def _features(arrays: Arrays, num_nodes: int, max_bytes: int | None) -> Tensor | None:
    if "attr_matrix" in arrays:
        matrix = arrays["attr_matrix"]
        if matrix.ndim != 2 or len(matrix) != num_nodes:
            raise InputError(f"{arrays.path}: attr_matrix has shape {matrix.shape}, but there are {num_nodes} nodes")
        return torch.from_numpy(matrix.astype(np.float32))
    if not any(f"attr_{part}" in arrays for part in ("data", "indices", "indptr", "shape")):
        return None
    shape = arrays["attr_shape"]
    if shape.shape != (2,) or shape[0] != num_nodes:
        raise InputError(f"{arrays.path}: attr_shape is {shape.tolist()}, but there are {num_nodes} nodes")
    row, col = _csr(arrays, "attr", num_nodes, int(shape[1]))
    data = arrays["attr_data"]
    if data.shape != row.shape:
        raise InputError(f"{arrays.path}: attr_data has shape {data.shape}, but attr_indices has {row.shape}")
    if shape[1] > 2**31:
        raise InputError(f"{arrays.path}: rows of {shape[1]} features are too wide; fewer than 2**31 can be stored")
    if len(row) <= SPARSE * num_nodes * int(shape[1]):
        entries = torch.from_numpy(np.stack([row, col])), torch.from_numpy(data.astype(np.float32))
        return torch.sparse_coo_tensor(*entries, (num_nodes, int(shape[1])), check_invariants=False).coalesce()
    needed, limit = 4 * num_nodes * int(shape[1]), machine_bytes() if max_bytes is None else max_bytes
    if needed > limit:
        raise InputError(
            f"{arrays.path}: the features take {needed / 2**30:.3g} GiB as a dense float32 matrix, over the limit of "
            f"{limit / 2**30:.3g} GiB; project them to fewer columns, or raise max_feature_bytes"
        )
    x = torch.zeros(num_nodes * int(shape[1]))
    # Entries that occur twice add up, as in any CSR matrix.
    x.index_add_(0, torch.from_numpy(row * int(shape[1]) + col), torch.from_numpy(data.astype(np.float32)))
    return x.view(num_nodes, int(shape[1]))
