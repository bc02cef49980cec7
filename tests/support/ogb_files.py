"""Data sets in the files that the package `ogb` downloads: ogbn-products' layout and ogbn-papers100M's, small and learnable."""

import gzip
import io
from pathlib import Path

import numpy as np

from halohop.datasets import synthetic
from halohop.store.tables import GraphTables
from halohop.typing import EDGE, NODE

_SPLITS = {"train": "train", "val": "valid", "test": "test"}


def write_ogb(
    root: Path,
    name: str = "ogbn-products",
    *,
    num_nodes: int = 2_000,
    avg_degree: float = 16,
    num_features: int = 100,
    num_classes: int = 47,
    seed: int = 0,
) -> GraphTables:
    """Writes ``root/ogbn_products/{raw,split}``, or the like for another name; papers100M's files are npz ones.

    Args:
        root: what `ogb` calls so; of the examples ``--root_dir``.
        name: "ogbn-products", whose files name each edge once, or "ogbn-papers100M", whose edges go one way.
        num_nodes, avg_degree, num_features, num_classes: of `halohop.datasets.synthetic`; widths are those of products. Twenty
            full-batch steps of GraphSAGE (Adam, 0.01) reach a test accuracy of 0.85, and 0.9 with 8 classes.
        seed: of the graph.

    Returns:
        The graph with ``x``, ``y`` and masks, and each edge of the files once.
    """
    sizes = {"num_nodes": num_nodes, "num_features": num_features, "num_classes": num_classes}
    made = synthetic(None, **sizes, avg_degree=avg_degree, seed=seed)
    pairs = made.edges[EDGE]
    half = slice(0, pairs.num_edges // 2)  # the other half are these the other way round
    ends = np.stack([pairs.src[half].numpy(), pairs.dst[half].numpy()]).astype(np.int64)
    columns = {key: column.numpy() for key, column in made.nodes[NODE].columns.items()}
    folder = root / name.replace("-", "_")
    binary = "papers" in name
    split = folder / "split" / ("time" if binary else "sales_ranking")
    for path in (folder / "raw", split):
        path.mkdir(parents=True)
    for mask, file in _SPLITS.items():
        _write_text(split / f"{file}.csv.gz", np.flatnonzero(columns[f"{mask}_mask"]), "%d")
    (_write_binary if binary else _write_text_files)(folder / "raw", ends, columns["x"], columns["y"])
    table = made.edges[EDGE]
    once = type(table)(src=table.src[half], dst=table.dst[half])
    return GraphTables(nodes=made.nodes, edges={EDGE: once})


def _write_text_files(raw: Path, ends: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
    _write_text(raw / "num-node-list.csv.gz", np.array([len(x)]), "%d")
    _write_text(raw / "num-edge-list.csv.gz", np.array([ends.shape[1]]), "%d")
    _write_text(raw / "edge.csv.gz", ends.T, "%d")
    _write_text(raw / "node-feat.csv.gz", x, "%.6g")
    _write_text(raw / "node-label.csv.gz", y, "%d")


def _write_binary(raw: Path, ends: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
    counts = {"num_nodes_list": np.array([len(x)]), "num_edges_list": np.array([ends.shape[1]])}
    year = np.full((len(x), 1), 2019)
    np.savez_compressed(raw / "data.npz", edge_index=ends, node_feat=x, node_year=year, **counts)
    np.savez_compressed(raw / "node-label.npz", node_label=y.astype(np.float32).reshape(-1, 1))


def _write_text(path: Path, rows: np.ndarray, form: str) -> None:
    text = io.StringIO()
    np.savetxt(text, rows, fmt=form, delimiter=",")
    path.write_bytes(gzip.compress(text.getvalue().encode(), compresslevel=1))
