"""Columns that lie beside another library's partitions: labels and splits, in files of their own."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from halohop.datasets.imports.restricted import load_tensor
from halohop.datasets.splits import index_masks
from halohop.errors import IncompleteDatasetError, InputError, SchemaError
from halohop.store.foreign import map_foreign
from halohop.store.tables import GraphTables
from halohop.typing import NodeType

_SPLIT = "_mask"


def with_columns(tables: GraphTables, files: Mapping[str, str | Path]) -> GraphTables:
    """A graph with further columns of nodes.

    Args:
        tables: the graph.
        files: by ``NAME``, or ``TYPE:NAME`` where there are several node types: a ``.pt`` or ``.npy`` file with a row for each
            id, or a folder of such files, one behind the other. Integers for a name that ends in ``_mask`` are the ids of the
            nodes that are in the split.

    Raises:
        SchemaError: there is no such node type, or there are several and none is named.
        IncompleteDatasetError: there is no such file.
        InputError: it holds no array, or one of another number of rows.
        IdError: a split names a node that is not there.
    """
    nodes = dict(tables.nodes)
    for key, path in files.items():
        node_type, name = _named(key, list(nodes))
        table = nodes[node_type]
        column = read_beside(Path(path))
        if name.endswith(_SPLIT) and column.dtype in (torch.int64, torch.int32) and not _is_mask(column, table.num_nodes):
            column = index_masks(table.num_nodes, {name.removesuffix(_SPLIT): column.numpy()})[name]
        if column.dim() == 0 or len(column) != table.num_nodes:
            raise InputError(
                f"{path} has shape {tuple(column.shape)}, but there are {table.num_nodes} nodes of type {node_type!r}"
            )
        nodes[node_type] = replace(table, columns=table.columns | {name: column})
    return replace(tables, nodes=nodes)


def _named(key: str, node_types: list[NodeType]) -> tuple[NodeType, str]:
    node_type, colon, name = key.rpartition(":")
    if not colon:
        if len(node_types) != 1:
            raise SchemaError(f"{key}: of which of the node types {node_types}? Write TYPE:{key}")
        node_type = node_types[0]
    if node_type not in node_types or not name:
        raise SchemaError(f"{key}: there is no node type {node_type!r}; known: {node_types}")
    return node_type, name


def read_beside(path: Path) -> Tensor:
    """The array in a file, or the arrays in the files of a folder, one behind the other; mapped where it is one."""
    files = sorted(file for file in path.iterdir() if file.suffix in (".pt", ".npy")) if path.is_dir() else [path]
    if not files:
        raise IncompleteDatasetError(f"{path} has no .pt or .npy files")
    columns = [torch.from_numpy(map_foreign(file)) if file.suffix == ".npy" else load_tensor(file) for file in files]
    return columns[0] if len(columns) == 1 else torch.cat(columns)


def _is_mask(column: Tensor, num_nodes: int) -> bool:
    return column.shape == (num_nodes,) and bool(((column == 0) | (column == 1)).all())
