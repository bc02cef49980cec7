"""How large a data set of OGB's is, from its counts and the first lines of its text; see `halohop.datasets.ogb`."""

import csv
import gzip
import math
import zipfile
from pathlib import Path

import numpy as np

from halohop.errors import IncompleteDatasetError
from halohop.partitioning.planning.sizes import GraphSizes, TableSizes
from halohop.typing import EDGE, NODE, NodeType, Relation

_INVERSE = ("ogbn_products", "ogbn_proteins")
_MASKS = {"train_mask": 1.0, "val_mask": 1.0, "test_mask": 1.0}
_NAMES = {"node_feat": "x", "edge_feat": "edge_attr"}


def ogb_sizes(folder: Path) -> GraphSizes:
    """
    Raises:
        IncompleteDatasetError: a file is missing.
    """
    raw = folder / "raw"
    read = sum(file.stat().st_size for file in raw.rglob("*") if file.is_file())
    if (raw / "triplet-type-list.csv.gz").is_file():
        nodes, edges = _typed(raw)
    elif (raw / "data.npz").is_file():
        nodes, edges = _binary(raw)
    elif (raw / "edge.csv.gz").is_file():
        columns = _columns(raw, "node", {"y": 8.0 * _fields(raw / "node-label.csv.gz")} | _MASKS)
        nodes = {NODE: TableSizes(rows=_number(raw / "num-node-list.csv.gz"), columns=columns)}
        edges = {EDGE: TableSizes(rows=_number(raw / "num-edge-list.csv.gz"), columns=_columns(raw, "edge", {}))}
    else:
        raise IncompleteDatasetError(f"{raw / 'edge.csv.gz'} is missing; download the data set with the package ogb")
    if folder.name in _INVERSE:
        edges = {EDGE: TableSizes(rows=2 * edges[EDGE].rows, columns=edges[EDGE].columns)}
    return GraphSizes(nodes=nodes, edges=edges, read_bytes=read)


def _typed(raw: Path) -> tuple[dict[NodeType, TableSizes], dict[Relation, TableSizes]]:
    header, counts = _lines(raw / "num-node-dict.csv.gz", 2)
    nodes = {}
    for name, count in zip(header, map(int, counts), strict=True):
        columns: dict[str, float] = {}
        if (raw / "node-feat" / name).is_dir():
            columns = _columns(raw / "node-feat" / name, "node", columns)
        label = raw / "node-label" / name / "node-label.csv.gz"
        if label.is_file():
            columns |= {"y": 8.0 * _fields(label)} | _MASKS
        nodes[name] = TableSizes(rows=count, columns=columns)
    edges = {}
    for source, name, destination in _lines(raw / "triplet-type-list.csv.gz", None):
        folder = raw / "relations" / f"{source}___{name}___{destination}"
        rows = _number(folder / "num-edge-list.csv.gz")
        edges[source, name, destination] = TableSizes(rows=rows, columns=_columns(folder, "edge", {}))
    return nodes, edges


def _binary(raw: Path) -> tuple[dict[NodeType, TableSizes], dict[Relation, TableSizes]]:
    columns: dict[str, dict[str, float]] = {"node": {"y": 8.0} | _MASKS, "edge": {}}
    rows = {"node": 0, "edge": 0}
    with zipfile.ZipFile(raw / "data.npz") as archive:
        for entry in archive.namelist():
            name = entry.removesuffix(".npy")
            with archive.open(entry) as stream:
                shape, dtype = _header(stream)
            if name == "edge_index":
                rows["edge"] = shape[1]
            elif name.startswith(("node_", "edge_")):
                rows["node"] = max(rows["node"], shape[0]) if name.startswith("node_") else rows["node"]
                columns[name[:4]][_NAMES.get(name, name)] = float(dtype.itemsize * math.prod(shape[1:]))
    return (
        {NODE: TableSizes(rows=rows["node"], columns=columns["node"])},
        {EDGE: TableSizes(rows=rows["edge"], columns=columns["edge"])},
    )


def _header(stream: object) -> tuple[tuple[int, ...], np.dtype]:
    version = np.lib.format.read_magic(stream)  # type: ignore[arg-type]
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(stream)  # type: ignore[arg-type]
    return shape, dtype


def _columns(folder: Path, kind: str, others: dict[str, float]) -> dict[str, float]:
    features = folder / f"{kind}-feat.csv.gz"
    found = {_NAMES[f"{kind}_feat"]: 4.0 * _fields(features)} if features.is_file() else {}
    return found | {path.name.removesuffix(".csv.gz"): 8.0 * _fields(path) for path in folder.glob(f"{kind}_*.csv.gz")} | others


def _fields(file: Path) -> int:
    (line,) = _lines(file, 1) or [[]]
    return len(line)


def _number(file: Path) -> int:
    return sum(int(line[0]) for line in _lines(file, None))


def _lines(file: Path, count: int | None) -> list[list[str]]:
    if not file.is_file():
        raise IncompleteDatasetError(f"{file} is missing; download the data set again with the package ogb")
    with gzip.open(file, "rt", newline="") as stream:
        return [line for _, line in zip(range(count) if count is not None else iter(int, 1), csv.reader(stream), strict=False)]
