"""Graphs from node and edge tables in CSV, TSV and Parquet files; `halohop.datasets.spec` says how they are described."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from halohop.datasets.arrow import Column, first_null, pyarrow, read_columns
from halohop.datasets.direction import add_reverses
from halohop.datasets.scale import normalize_rows
from halohop.datasets.spec import EdgeFiles, GraphFiles, NodeFiles, load_spec, spec_path
from halohop.datasets.splits import index_masks, random_masks
from halohop.datasets.table_columns import column_of, labels, refuse_null, split_masks, split_name, stacked
from halohop.datasets.text import text_column
from halohop.errors import IdError, IncompleteDatasetError, InputError, SchemaError
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.typing import RAW_TEXT, NodeType, Relation


def read_tables(source: str | Path | GraphFiles, root: str | Path = ".") -> GraphTables:
    """A graph from its tables.

    Args:
        source: a description, its file, or the folder of a ``graph.toml``.
        root: folder that file names start from, where `source` is a description; else it is the description's folder.

    Raises:
        IncompleteDatasetError: a file is missing.
        SchemaError: a key of edges is not ``src__name__dst``, or a split that is none.
        IdError: an edge names a node that is not in its table; names value, row and file.
        InputError: pyarrow is not installed, a column is missing, holds nulls (names column and row) or the wrong kind of values.

    Example:
        >>> _ = Path("follows.csv").write_text("who,whom\\n7,20\\n20,9\\n")
        >>> follows = EdgeFiles(file="follows.csv", src="who", dst="whom")
        >>> read_tables(GraphFiles(edges={"node__to__node": follows})).nodes["node"].raw_id
        tensor([ 7,  9, 20])
    """
    if not isinstance(source, GraphFiles):
        path = spec_path(source)
        return read_tables(load_spec(path), path.parent)
    root = Path(root)
    relations = {_relation(text): files for text, files in source.edges.items()}
    ids: dict[NodeType, Column] = {}
    nodes: dict[NodeType, NodeTable] = {}
    for node_type, files in source.nodes.items():
        ids[node_type], nodes[node_type] = _read_nodes(root, files)
    for node_type in dict.fromkeys(end for relation in relations for end in (relation[0], relation[2])):
        if node_type not in nodes:
            ids[node_type] = _mentioned(root, relations, node_type)
            nodes[node_type] = _with_ids(ids[node_type], {}, {})
    edges = {relation: _read_edges(_paths(root, files.file), relation, files, ids) for relation, files in relations.items()}
    tables = GraphTables(nodes=nodes, edges=edges)
    tables = normalize_rows(tables, [name for name, files in source.nodes.items() if files.normalize])
    return add_reverses(tables, [name for name, files in relations.items() if files.undirected])


def _read_nodes(root: Path, files: NodeFiles) -> tuple[Column, NodeTable]:
    pa, paths = pyarrow(), _paths(root, files.file)
    values = [_id_column(path, files.id) for path in paths]
    if len({column.type for column in values if len(column)}) > 1:
        raise InputError(f"column {files.id!r} holds integers in one of {[str(path) for path in paths]} and strings in another")
    ids = pa.chunked_array([chunk for column in values if len(column) for chunk in column.chunks], type=_common_type(values))
    _check_distinct(ids, paths, files.id)
    columns: dict[str, Tensor] = {}
    names: dict[str, tuple[str, ...]] = {}
    if files.features:
        columns["x"] = stacked(paths, files.features, files.dtype)
    if isinstance(files.label, str):
        columns["y"], names["y"] = labels(paths, files.label)
    elif files.label:
        columns["y"], names["y"] = stacked(paths, files.label, "bool"), files.label
    if files.split is not None:
        columns |= split_masks(paths, files.split)
    for split, name in files.masks.items():
        columns[f"{split_name(split)}_mask"] = column_of(paths, name).bool()
    if files.splits:
        rows = {split_name(split): _listed(_paths(root, pattern), files, ids) for split, pattern in files.splits.items()}
        columns |= index_masks(len(ids), rows)
    if files.fractions is not None:
        if "y" not in columns:
            raise InputError(f"fractions={files.fractions} are of the nodes with a label, but {files.file} names no label")
        y = columns["y"] if columns["y"].dim() == 1 else torch.zeros(len(ids), dtype=torch.int64)
        columns |= random_masks(y, fractions=files.fractions)
    for name in files.columns:
        columns[name] = column_of(paths, name)
    return ids, _with_ids(ids, columns, names)


def _read_edges(paths: list[Path], relation: Relation, files: EdgeFiles, ids: Mapping[NodeType, Column]) -> EdgeTable:
    src = torch.cat([_rows(path, files.src, ids[relation[0]], relation[0]) for path in paths])
    dst = torch.cat([_rows(path, files.dst, ids[relation[2]], relation[2]) for path in paths])
    columns: dict[str, Tensor] = {}
    if files.features:
        columns["edge_attr"] = stacked(paths, files.features, files.dtype)
    named = {"weight": files.weight, "time": files.time} | {name: name for name in files.columns}
    for target, name in named.items():
        if name is not None:
            columns[target] = column_of(paths, name)
    return EdgeTable(src=src, dst=dst, columns=columns)


def _listed(paths: list[Path], files: NodeFiles, ids: Column) -> np.ndarray:
    """Which rows a split's files name."""
    return torch.cat([_rows(path, files.id, ids, files.file) for path in paths]).numpy()


def _id_column(path: Path, name: str) -> Column:
    """A column of ids as int64 or large strings, without nulls."""
    pa = pyarrow()
    column = read_columns(path, [name])[name]
    refuse_null(column, path, name)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_integer(kind) or pa.types.is_null(kind):
        target = pa.int64()
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        target = pa.large_string()
    else:
        raise InputError(f"{path}: ids in column {name!r} are {kind}, expected integers or strings")
    try:
        return column.cast(target)
    except pa.ArrowInvalid as error:
        raise InputError(f"{path}: an id in column {name!r} does not fit 64 bits: {error}") from error


def _common_type(columns: list[Column]) -> Any:
    return next((column.type for column in columns if len(column)), pyarrow().int64())


def _check_distinct(ids: Column, paths: list[Path], name: str) -> None:
    pc = pyarrow("compute")
    counts = pc.value_counts(ids)
    twice = pc.filter(counts.field("values"), pc.greater(counts.field("counts"), 1))
    if len(twice):
        raise InputError(f"column {name!r} of {', '.join(map(str, paths))} holds the id {twice[0].as_py()!r} more than once")


def _mentioned(root: Path, relations: Mapping[Relation, EdgeFiles], node_type: NodeType) -> Column:
    """The different ids that edges mention for a node type, sorted."""
    pa, pc = pyarrow(), pyarrow("compute")
    found, origin = None, ""
    for relation, files in relations.items():
        for end, name in ((relation[0], files.src), (relation[2], files.dst)):
            for path in _paths(root, files.file) if end == node_type else ():
                values = pc.unique(_id_column(path, name))
                if found is None or not len(found):
                    found, origin = values, f"{name!r} of {path}"
                elif len(values) and values.type != found.type:
                    raise InputError(
                        f"ids of {node_type!r} are {found.type} in {origin}, but {values.type} in {name!r} of {path}"
                    )
                elif len(values):
                    found = pc.unique(pa.chunked_array([found, values]))
    assert found is not None
    return pa.chunked_array([found.take(pc.array_sort_indices(found))])


def _with_ids(ids: Column, columns: dict[str, Tensor], names: dict[str, tuple[str, ...]]) -> NodeTable:
    """The table of nodes with these ids: integers are raw ids, strings a column; their raw ids are 0, 1, 2, ..."""
    if not pyarrow().types.is_integer(ids.type):
        return NodeTable(num_nodes=len(ids), columns=columns | {RAW_TEXT: text_column(ids.to_pylist())}, names=names)
    raw = torch.from_numpy(np.array(ids.to_numpy(), dtype=np.int64))
    given = None if torch.equal(raw, torch.arange(len(raw))) else raw
    return NodeTable(num_nodes=len(ids), columns=columns, names=names, raw_id=given)


def _rows(path: Path, name: str, ids: Column, node_type: NodeType) -> Tensor:
    """Ids of a column as rows of the node table."""
    pc = pyarrow("compute")
    column = _id_column(path, name)
    if not len(column):
        return torch.empty(0, dtype=torch.int64)
    if column.type != ids.type and len(ids):
        raise InputError(f"{path}: ids in column {name!r} are {column.type}, but those of {node_type!r} are {ids.type}")
    rows = pc.index_in(column, ids.cast(column.type))
    unknown = first_null(rows)
    if unknown is not None:
        raise IdError(
            f"{path}: column {name!r} holds {column[unknown].as_py()!r} in row {unknown}, no id of a node {node_type!r}"
        )
    return torch.from_numpy(rows.to_numpy().astype(np.int64))


def _paths(root: Path, pattern: str) -> list[Path]:
    if not any(letter in pattern for letter in "*?["):
        return [root / pattern]
    paths = sorted(root.glob(pattern))
    if not paths:
        raise IncompleteDatasetError(f"no file in {root} matches {pattern!r}")
    return paths


def _relation(text: str) -> Relation:
    parts = text.split("__")
    if len(parts) != 3 or not all(parts):
        raise SchemaError(f"edges.{text}: a relation is named src__name__dst, like user__buys__item")
    return parts[0], parts[1], parts[2]
