"""How large the graph in another library's partitions is, from their configuration and the heads of their files."""

import math
from pathlib import Path
from urllib.parse import parse_qsl

from torch import Tensor

from halohop.datasets.imports.beside import read_beside
from halohop.datasets.imports.dgl import RENAMED, columns_of
from halohop.datasets.imports.dgl_config import read_config
from halohop.datasets.imports.glt import Folder, layout_of
from halohop.datasets.imports.named import import_files
from halohop.datasets.imports.restricted import load_tensor, unpickled
from halohop.partitioning.planning.sizes import GraphSizes, TableSizes
from halohop.typing import NodeType, Relation, relation_text


def import_sizes(source: str) -> GraphSizes:
    """
    Raises:
        InputError, DatasetError: as `halohop.datasets.imports.named.read_import`, as far as heads of files show it.
    """
    kind, _, rest = source.partition(":")
    path, _, query = rest.partition("?")
    nodes, edges = _dgl(Path(path)) if kind == "dgl" else _glt(layout_of(path))
    for key, file in parse_qsl(query, keep_blank_values=True):
        node_type, _, name = key.rpartition(":")
        table = nodes[node_type or next(iter(nodes))]
        column = read_beside(Path(file))
        table.columns[name] = 1.0 if name.endswith("_mask") else _width(column)
    read = sum(file.stat().st_size for file in import_files(source))
    return GraphSizes(nodes=nodes, edges=edges, read_bytes=read)


def _dgl(config: Path) -> tuple[dict[NodeType, TableSizes], dict[Relation, TableSizes]]:
    layout = read_config(config)

    def sizes(file: Path, table: str, rows: int, kind: str) -> TableSizes:
        stored = columns_of(file, table)
        names = {name: name if RENAMED[kind].get(name, name) in stored else RENAMED[kind].get(name, name) for name in stored}
        columns = {names[name]: float(own.dtype.itemsize * math.prod(own.shape[1:])) for name, own in stored.items()}
        return TableSizes(rows=rows, columns=columns)

    first = layout.folders[0]
    return (
        {name: sizes(first.node_columns, ranges.name, ranges.count, "nodes") for name, ranges in layout.nodes.items()},
        {relation: sizes(first.edge_columns, ranges.name, ranges.count, "edges") for relation, ranges in layout.edges.items()},
    )


def _glt(layout: Folder) -> tuple[dict[NodeType, TableSizes], dict[Relation, TableSizes]]:
    nodes = {
        name: TableSizes(rows=len(load_tensor(layout.book("node_pb", name))), columns=_features(layout, "node_feat", name, "x"))
        for name in layout.nodes
    }
    edges = {}
    for relation in layout.edges:
        name = relation_text(relation)
        parts = layout.parts("graph", name)
        columns = _features(layout, "edge_feat", name, "edge_attr")
        if any((folder / "weights.pt").is_file() for folder in parts):
            columns["weight"] = _width(load_tensor(parts[0] / "weights.pt"))
        edges[relation] = TableSizes(rows=sum(len(load_tensor(folder / "rows.pt")) for folder in parts), columns=columns)
    return nodes, edges


def _features(layout: Folder, what: str, name: str, column: str) -> dict[str, float]:
    folder = layout.parts(what, name)[0]
    if not folder.is_dir():
        return {}
    stream = folder / "feats.pkl"
    rows = next(unpickled(stream)) if stream.is_file() else load_tensor(folder / "feats.pt")
    return {column: _width(rows)}


def _width(rows: Tensor) -> float:
    return float(rows.dtype.itemsize * math.prod(rows.shape[1:]))
