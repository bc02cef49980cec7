"""Node-property data sets of the Open Graph Benchmark (Hu et al., 2020), from the files that the package `ogb` downloads.

Reads the raw files as they lie after download: ``<root>/ogbn_products/{raw,split}/...``. The three layouts are those of
ogbn-products, -arxiv and -proteins (compressed text), of ogbn-papers100M (npz), and of ogbn-mag (text, several node types).
Nothing is unpickled, and `ogb` itself is not needed.
"""

import csv
import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray
from torch import Tensor

from halohop.datasets.archive import Arrays
from halohop.datasets.arrow import BLOCK_BYTES, matrix_blocks, read_matrix
from halohop.datasets.casting import as_tensor
from halohop.datasets.splits import index_masks
from halohop.datasets.staging import Staging
from halohop.errors import IncompleteDatasetError, InputError
from halohop.flags import checks_flags
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.typing import EDGE, NODE, Relation

_INVERSE_BY_DEFAULT = ("ogbn-products", "ogbn-proteins")
_SPLITS = {"train": "train", "valid": "val", "test": "test"}


@checks_flags
def ogb_node(
    root: str | Path,
    name: str,
    *,
    add_inverse_edge: bool | None = None,
    split: str | None = None,
    staging: Staging | None = None,
) -> GraphTables:
    """An OGB data set for node property prediction.

    Args:
        root: the folder that was given to the package `ogb`, or the data set's own folder.
        name: "ogbn-products", "ogbn-arxiv", "ogbn-proteins", "ogbn-mag", "ogbn-papers100M", or one in the same layout.
        add_inverse_edge: put the reverse of each edge behind it; between several node types, add relations ``rev_<name>``.
            Default as `ogb` does it: for products and proteins only.
        split: folder below ``split/``; needed where there are several.
        staging: where the columns are collected; by default in memory.

    Returns:
        ``x`` float32 (if there are node features), ``y`` int64 ``[num_nodes]`` or ``[num_nodes, num_tasks]`` with -1 where
        the label is missing, ``train_mask``, ``val_mask``, ``test_mask``, and further node files under their names
        (``node_year``). Edge features are ``edge_attr``; further edge files keep their names (``edge_reltype``).

    Raises:
        IncompleteDatasetError: a file is missing; says how to download.
        InputError: a file does not hold what its name says.
    """
    folder, staging = _folder(Path(root), name), staging or Staging()
    raw, split_folder = folder / "raw", _split_folder(folder, split)
    inverse = name in _INVERSE_BY_DEFAULT if add_inverse_edge is None else add_inverse_edge
    if (raw / "triplet-type-list.csv.gz").is_file():
        return _read_hetero(staging, raw, split_folder, inverse)
    if (raw / "data.npz").is_file():
        nodes, edges = _read_binary(staging, raw)
    elif (raw / "edge.csv.gz").is_file():
        nodes, edges = _read_text(staging, raw)
    else:
        raise _missing(raw / "edge.csv.gz", name, Path(root))
    nodes.columns.update(_masks(staging, NODE, split_folder, nodes.num_nodes))
    return GraphTables(nodes={NODE: nodes}, edges={EDGE: _with_inverse(staging, edges) if inverse else edges})


def _folder(root: Path, name: str) -> Path:
    folder = root / name.replace("-", "_")
    if (folder / "raw").is_dir():
        return folder
    if (root / "raw").is_dir() and root.name == folder.name:
        return root
    raise _missing(folder / "raw", name, root)


def _missing(path: Path, name: str, root: Path) -> IncompleteDatasetError:
    return IncompleteDatasetError(
        f"{path} is missing. To download {name}: pip install ogb, then "
        f"python -c \"from ogb.nodeproppred import NodePropPredDataset; NodePropPredDataset('{name}', root='{root}')\""
    )


def _split_folder(folder: Path, split: str | None) -> Path:
    found = sorted(path.name for path in (folder / "split").glob("*") if path.is_dir())
    if split is None and len(found) == 1:
        return folder / "split" / found[0]
    if split is None or split not in found:
        raise IncompleteDatasetError(f"{folder / 'split'} has the splits {found}, asked for {split!r}; name one of them")
    return folder / "split" / split


def _read_text(staging: Staging, raw: Path) -> tuple[NodeTable, EdgeTable]:
    num_nodes, num_edges = _count(raw / "num-node-list.csv.gz"), _count(raw / "num-edge-list.csv.gz")
    columns = _text_columns(staging, NODE, raw, "node", num_nodes)
    if (raw / "species.csv.gz").is_file():  # ogbn-proteins, before `ogb` renames it
        columns["node_species"] = _matrix(staging, f"{NODE}.species", raw / "species.csv.gz", np.int64, num_nodes)
    columns["y"] = _text_labels(staging, NODE, raw / "node-label.csv.gz", num_nodes)
    return NodeTable(num_nodes=num_nodes, columns=columns), _text_edges(staging, "__".join(EDGE), raw, num_edges)


def _text_edges(staging: Staging, name: str, folder: Path, num_edges: int) -> EdgeTable:
    file = folder / "edge.csv.gz"

    def chunks() -> Iterator[dict[str, Tensor]]:
        for block in _blocks(staging, file, np.int64, num_edges):
            if block.shape[1] != 2 and num_edges:
                raise InputError(f"{file} has {block.shape[1]} columns, expected source and destination")
            yield dict(zip(("src", "dst"), torch.from_numpy(block.reshape(-1, 2).T), strict=True))

    ends = staging.columns(f"{name}.ends", chunks, num_edges)
    return EdgeTable(src=ends["src"], dst=ends["dst"], columns=_text_columns(staging, name, folder, "edge", num_edges))


def _text_columns(staging: Staging, name: str, folder: Path, kind: str, num_rows: int) -> dict[str, Tensor]:
    """Features (``node-feat``, float32) and what else lies there (``node_year``; integers, or float32)."""
    columns = {}
    features = folder / f"{kind}-feat.csv.gz"
    if features.is_file():
        key = "x" if kind == "node" else "edge_attr"
        columns[key] = _matrix(staging, f"{name}.{key}", features, np.float32, num_rows, squeezed=False)
    for path in sorted(folder.glob(f"{kind}_*.csv.gz")):
        key = path.name.removesuffix(".csv.gz")
        try:
            columns[key] = _matrix(staging, f"{name}.{key}", path, np.int64, num_rows)
        except InputError:
            columns[key] = _matrix(staging, f"{name}.{key}", path, np.float32, num_rows)
    return columns


def _matrix(staging: Staging, name: str, path: Path, dtype: DTypeLike, num_rows: int, *, squeezed: bool = True) -> Tensor:
    values = staging.column(name, lambda: map(torch.from_numpy, _blocks(staging, path, dtype, num_rows)), num_rows)
    return _squeezed(values) if squeezed else values


def _text_labels(staging: Staging, name: str, path: Path, num_rows: int) -> Tensor:
    def chunks() -> Iterator[Tensor]:
        return (torch.from_numpy(_whole_labels(block)) for block in _blocks(staging, path, np.float64, num_rows))

    return _squeezed(staging.column(f"{name}.y", chunks, num_rows))


def _blocks(staging: Staging, path: Path, dtype: DTypeLike, num_rows: int) -> Iterator[np.ndarray]:
    """At least one, also of a file without rows."""
    empty = True
    for block in matrix_blocks(path, dtype, num_rows, min(staging.text_bytes, BLOCK_BYTES)):
        empty = False
        yield block
    if empty:
        yield np.empty((0, 0), dtype)


def _read_binary(staging: Staging, raw: Path) -> tuple[NodeTable, EdgeTable]:
    arrays = Arrays(raw / "data.npz", staging=staging)
    num_nodes, num_edges = (int(_single(arrays[f"num_{what}_list"], arrays.path)) for what in ("nodes", "edges"))
    ends = arrays["edge_index"]
    if ends.shape != (2, num_edges):
        raise InputError(f"{arrays.path}: edge_index has shape {ends.shape}, expected (2, {num_edges})")
    names = {"node_feat": "x", "edge_feat": "edge_attr"}
    columns: dict[str, dict[str, Tensor]] = {"node": {}, "edge": {}}
    for key in arrays:
        if key != "edge_index" and key.startswith(("node_", "edge_")):
            values = torch.from_numpy(arrays[key])
            columns[key[:4]][names.get(key, key)] = values if key in names else _squeezed(values)
    labels = Arrays(raw / "node-label.npz", staging=staging)["node_label"]
    columns["node"]["y"] = _squeezed(as_tensor(staging, f"{NODE}.y", labels, np.int64, _whole_labels))
    src, dst = as_tensor(staging, "ends", ends, np.int64)
    return NodeTable(num_nodes=num_nodes, columns=columns["node"]), EdgeTable(src=src, dst=dst, columns=columns["edge"])


def _read_hetero(staging: Staging, raw: Path, split_folder: Path, inverse: bool) -> GraphTables:
    header, *counts = _text_rows(raw / "num-node-dict.csv.gz")
    if len(counts) != 1 or len(counts[0]) != len(header):
        raise InputError(f"{raw / 'num-node-dict.csv.gz'} must hold node types and one row of counts, has {len(counts)} rows")
    nodes = {}
    for node_type, count in sorted(zip(header, map(int, counts[0]), strict=True)):
        columns: dict[str, Tensor] = {}
        if (raw / "node-feat" / node_type).is_dir():
            columns |= _text_columns(staging, node_type, raw / "node-feat" / node_type, "node", count)
        label_path = raw / "node-label" / node_type / "node-label.csv.gz"
        if label_path.is_file():
            columns["y"] = _text_labels(staging, node_type, label_path, count)
        if (split_folder / node_type).is_dir():
            columns |= _masks(staging, node_type, split_folder / node_type, count)
        nodes[node_type] = NodeTable(num_nodes=count, columns=columns)
    edges: dict[Relation, EdgeTable] = {}
    for src_type, name, dst_type in sorted(_text_rows(raw / "triplet-type-list.csv.gz")):
        folder = raw / "relations" / f"{src_type}___{name}___{dst_type}"
        table = _text_edges(staging, f"{src_type}__{name}__{dst_type}", folder, _count(folder / "num-edge-list.csv.gz"))
        edges[src_type, name, dst_type] = table
        if inverse:
            edges[dst_type, f"rev_{name}", src_type] = EdgeTable(src=table.dst, dst=table.src, columns=table.columns)
    return GraphTables(nodes=nodes, edges=edges)


def _with_inverse(staging: Staging, edges: EdgeTable) -> EdgeTable:
    """Each edge followed by its reverse, with the same columns: the order that `ogb` makes."""
    columns = {f"column.{name}": column for name, column in edges.columns.items()}

    def chunks() -> Iterator[dict[str, Tensor]]:
        for part in staging.slices_of(*edges.ends, *columns.values()):
            src, dst = (end[part] for end in edges.ends)
            ends = {"src": torch.stack([src, dst], dim=1).view(-1), "dst": torch.stack([dst, src], dim=1).view(-1)}
            yield ends | {name: column[part].repeat_interleave(2, dim=0) for name, column in columns.items()}

    both = staging.columns("both", chunks)
    return EdgeTable(src=both["src"], dst=both["dst"], columns={name: both[f"column.{name}"] for name in edges.columns})


def _masks(staging: Staging, name: str, folder: Path, num_nodes: int) -> dict[str, Tensor]:
    files = {mask: folder / f"{file}.csv.gz" for file, mask in _SPLITS.items()}
    rows = {mask: (block.reshape(-1) for block in matrix_blocks(file, np.int64)) for mask, file in files.items()}
    return staging.columns(f"{name}.masks", lambda: [index_masks(num_nodes, rows)])


def _whole_labels(values: NDArray[Any]) -> NDArray[Any]:
    """Labels as int64; NaN becomes -1."""
    labels: NDArray[Any] = (np.where(np.isnan(values), -1, values) if values.dtype.kind == "f" else values).astype(np.int64)
    return labels


def _squeezed(values: Tensor) -> Tensor:
    """One-dimensional where there is one column."""
    return values[:, 0] if values.dim() == 2 and values.shape[1] == 1 else values


def _count(path: Path) -> int:
    return int(_single(read_matrix(path, np.int64).reshape(-1), path))


def _single(values: np.ndarray, path: Path) -> Any:
    if values.shape != (1,):
        raise InputError(f"{path} describes {values.size} graphs; a node-property data set is one graph")
    return values[0]


def _text_rows(path: Path) -> list[list[str]]:
    if not path.is_file():
        raise IncompleteDatasetError(f"there is no file {path}")
    with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
        return [row for row in csv.reader(lines) if row]
