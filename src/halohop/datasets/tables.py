"""Graphs from node and edge tables in CSV, TSV and Parquet files; `halohop.datasets.spec` says how they are described."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from halohop.datasets.arrow import Column, first_null, is_text, pyarrow, read_columns
from halohop.datasets.direction import add_reverses
from halohop.datasets.scale import normalize_rows
from halohop.datasets.spec import EdgeFiles, GraphFiles, NodeFiles, load_spec, spec_path
from halohop.datasets.splits import index_masks
from halohop.errors import IdError, IncompleteDatasetError, InputError, SchemaError
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.typing import NodeType, Relation

_SPLITS = {"train": "train", "training": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}


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
        ids[node_type], nodes[node_type] = _read_nodes(_paths(root, files.file), files)
    for node_type in dict.fromkeys(end for relation in relations for end in (relation[0], relation[2])):
        if node_type not in nodes:
            ids[node_type] = _mentioned(root, relations, node_type)
            nodes[node_type] = NodeTable(num_nodes=len(ids[node_type]), raw_id=_raw_ids(ids[node_type]))
    edges = {relation: _read_edges(_paths(root, files.file), relation, files, ids) for relation, files in relations.items()}
    tables = GraphTables(nodes=nodes, edges=edges)
    tables = normalize_rows(tables, [name for name, files in source.nodes.items() if files.normalize])
    return add_reverses(tables, [name for name, files in relations.items() if files.undirected])


def _read_nodes(paths: list[Path], files: NodeFiles) -> tuple[Column, NodeTable]:
    pa = pyarrow()
    values = [_id_column(path, files.id) for path in paths]
    if len({column.type for column in values if len(column)}) > 1:
        raise InputError(f"column {files.id!r} holds integers in one of {[str(path) for path in paths]} and strings in another")
    ids = pa.chunked_array([chunk for column in values if len(column) for chunk in column.chunks], type=_common_type(values))
    _check_distinct(ids, paths, files.id)
    columns: dict[str, Tensor] = {}
    if files.features:
        columns["x"] = _stacked(paths, files.features, files.dtype)
    if files.label is not None:
        columns["y"] = _labels(paths, files.label)
    if files.split is not None:
        columns |= _split_masks(paths, files.split)
    for split, name in files.masks.items():
        if split not in _SPLITS:
            raise SchemaError(f"masks: unknown split {split!r}; known: {list(_SPLITS)}")
        columns[f"{_SPLITS[split]}_mask"] = _column(paths, name).bool()
    for name in files.columns:
        columns[name] = _column(paths, name)
    return ids, NodeTable(num_nodes=len(ids), columns=columns, raw_id=_raw_ids(ids))


def _read_edges(paths: list[Path], relation: Relation, files: EdgeFiles, ids: Mapping[NodeType, Column]) -> EdgeTable:
    src = torch.cat([_rows(path, files.src, ids[relation[0]], relation[0]) for path in paths])
    dst = torch.cat([_rows(path, files.dst, ids[relation[2]], relation[2]) for path in paths])
    columns: dict[str, Tensor] = {}
    if files.features:
        columns["edge_attr"] = _stacked(paths, files.features, files.dtype)
    named = {"weight": files.weight, "time": files.time} | {name: name for name in files.columns}
    for target, name in named.items():
        if name is not None:
            columns[target] = _column(paths, name)
    return EdgeTable(src=src, dst=dst, columns=columns)


def _id_column(path: Path, name: str) -> Column:
    """A column of ids as int64 or large strings, without nulls."""
    pa = pyarrow()
    column = read_columns(path, [name])[name]
    _refuse_null(column, path, name)
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


def _raw_ids(ids: Column) -> Tensor | None:
    """Integer ids as raw ids; None where they are 0, 1, 2, ... or strings."""
    if not pyarrow().types.is_integer(ids.type):
        return None
    raw = torch.from_numpy(np.array(ids.to_numpy(), dtype=np.int64))
    return None if torch.equal(raw, torch.arange(len(raw))) else raw


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


def _stacked(paths: list[Path], names: tuple[str, ...], dtype: str) -> Tensor:
    """Columns side by side as a matrix."""
    kind = getattr(torch, dtype, None)
    if not isinstance(kind, torch.dtype):
        raise InputError(f"dtype {dtype!r} is no torch dtype; known are float32, float16, bfloat16, float64, int64, ...")
    blocks = []
    for path in paths:
        table = read_columns(path, names, floats=names if kind == torch.float32 else ())
        values = [_tensor(table.pop(name), path, name).to(kind) for name in dict.fromkeys(names)]
        blocks.append(torch.cat([part.reshape(len(part), -1) if len(part) else part.reshape(0, 1) for part in values], dim=1))
    return _joined(blocks, ", ".join(names))


def _column(paths: list[Path], name: str) -> Tensor:
    """One column of all files under its own dtype; decimal fractions in text, which has no widths, as float32."""
    tensors = []
    for path in paths:
        values = _tensor(read_columns(path, [name])[name], path, name)
        tensors.append(values.float() if is_text(path) and values.dtype == torch.float64 else values)
    return _joined(tensors, name)


def _joined(tensors: list[Tensor], name: str) -> Tensor:
    filled = [values for values in tensors if len(values)] or tensors[:1]
    if len({(values.dtype.is_floating_point, values.shape[1:]) for values in filled}) > 1:
        raise InputError(f"column {name!r} has other kinds or numbers of values in one file than in another")
    return torch.cat(filled)


def _tensor(column: Column, path: Path, name: str) -> Tensor:
    """Numbers, bools, times or lists of numbers of one length as a tensor."""
    pa, pc = pyarrow(), pyarrow("compute")
    _refuse_null(column, path, name)
    kind = column.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        lengths = np.unique(pc.list_value_length(column).to_numpy()).tolist() or [0]
        if len(lengths) > 1:
            raise InputError(f"{path}: lists in column {name!r} have {lengths[0]} to {lengths[-1]} entries, expected one length")
        return _tensor(pc.list_flatten(column), path, name).view(len(column), lengths[0])
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        try:
            column = column.cast(pa.timestamp("s", getattr(kind, "tz", None))).cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise InputError(f"{path}: times in column {name!r} are finer than seconds; store them as integers") from error
    elif pa.types.is_null(kind):  # a text file without rows
        column = column.cast(pa.float32())
    elif pa.types.is_unsigned_integer(kind) and kind.bit_width > 8:
        try:
            column = column.cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise InputError(f"{path}: column {name!r} holds a number over 2**63 - 1: {error}") from error
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise InputError(f"{path}: column {name!r} holds {kind}, expected numbers")
    return torch.from_numpy(np.require(column.to_numpy(), requirements="W"))


def _labels(paths: list[Path], name: str) -> Tensor:
    """Classes as int64, -1 where there is none."""
    pa, pc = pyarrow(), pyarrow("compute")
    columns = [_undictionary(read_columns(path, [name])[name]) for path in paths]
    if all(pa.types.is_string(column.type) or pa.types.is_large_string(column.type) for column in columns):
        names = pa.chunked_array(
            [chunk.cast(pa.large_string()) for column in columns for chunk in column.chunks], pa.large_string()
        )
        classes = pc.unique(names).drop_null()
        column = pc.index_in(names, classes.take(pc.array_sort_indices(classes)), skip_nulls=True)
        return torch.from_numpy(np.require(column.fill_null(-1).to_numpy(), np.int64, "W"))
    parts = []
    for path, column in zip(paths, columns, strict=True):
        if pa.types.is_floating(column.type):  # what a data frame makes of integers with gaps
            column = pc.if_else(pc.is_nan(column), None, column)
        try:
            parts.append(column.cast(pa.int64()).fill_null(-1).to_numpy())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InputError(
                f"{path}: labels in column {name!r} must be whole numbers, or strings everywhere: {error}"
            ) from error
    return torch.from_numpy(np.concatenate(parts))


def _split_masks(paths: list[Path], name: str) -> dict[str, Tensor]:
    values: list[str | None] = []
    pc = pyarrow("compute")
    for path in paths:
        column = _undictionary(read_columns(path, [name])[name])
        for value in pc.unique(column).to_pylist():
            if value is not None and value not in _SPLITS:
                raise SchemaError(f"{path}: column {name!r} holds {value!r}, which is no split; known: {list(_SPLITS)}")
        values += column.to_pylist()
    folds = np.array([_SPLITS.get(value or "", "") for value in values], dtype="U5")
    return index_masks(len(folds), {split: np.flatnonzero(folds == split) for split in ("train", "val", "test")})


def _undictionary(column: Column) -> Column:
    return column.cast(column.type.value_type) if pyarrow().types.is_dictionary(column.type) else column


def _refuse_null(column: Column, path: Path, name: str) -> None:
    row = first_null(column)
    if row is not None and not pyarrow().types.is_null(column.type):
        raise InputError(f"{path}: column {name!r} is empty in row {row} (counting from 0, below the header)")
    if row is not None:
        raise InputError(f"{path}: column {name!r} is empty in every row")


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
