"""Graphs in folders of ``.npy`` files, mapped rather than read.

A graph of one node type and one relation is one folder; names that begin with ``edge_`` mean columns of edges, others of nodes::

    graph/edge_index.npy         [2, num_edges], rows of the node arrays
    graph/edge_weight.npy        ... edge_attr, edge_time
    graph/x.npy  y.npy  train_mask.npy

One of several has a folder for each, in which every file but ``edge_index.npy`` is a column::

    graph/nodes/user/x.npy  y.npy  train_mask.npy
    graph/edges/user__buys__item/edge_index.npy  weight.npy

The ids of nodes are 0, 1, 2, ..., or what ``raw_id.npy`` holds: integers or strings.
"""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import DTypeLike
from torch import Tensor

from halohop.datasets.casting import as_tensor, nearest
from halohop.datasets.staging import Staging
from halohop.datasets.text import Texts, collect_texts
from halohop.errors import IncompleteDatasetError, InputError, SchemaError
from halohop.store.foreign import map_foreign
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.typing import EDGE, NODE, RAW_TEXT, NodeType, Relation

EDGE_INDEX = "edge_index"
_EDGE_COLUMN = "edge_"
_CLASS_NAMES, _IDS = "y", "raw_id"


def read_arrays(folder: str | Path, staging: Staging | None = None) -> GraphTables:
    """A graph from a folder of ``.npy`` files; its columns are the files' own pages.

    A column ``y`` of strings is numbered in sorted order; an empty one means -1, no class.

    Args:
        folder: of the files.
        staging: where columns are collected that torch cannot take as they are; by default in memory.

    Raises:
        IncompleteDatasetError: there are no such files.
        InputError: a file that cannot be read without pickle, of a dtype that torch lacks, or whose shape does not fit.
        SchemaError: a folder of edges that is not called ``src__name__dst``.
        IdError: an edge of a node that is not there.

    Example:
        >>> np.save("edge_index.npy", np.array([[0, 1], [1, 2]]))
        >>> np.save("x.npy", np.zeros((3, 8), np.float32))
        >>> read_arrays(".").nodes["node"].num_nodes
        3
    """
    staging = staging or Staging()
    nodes, edges = folders_of(Path(folder))
    ends = {relation: _edge_index(staging, relation, files) for relation, files in edges.items()}
    for node_type in dict.fromkeys(end for relation in edges for end in (relation[0], relation[2])):
        nodes.setdefault(node_type, [])
    return GraphTables(
        nodes={name: _nodes(staging, name, files, _mentioned(name, ends)) for name, files in nodes.items()},
        edges={relation: _edges(staging, ends[relation], files) for relation, files in edges.items()},
    )


def folders_of(folder: Path) -> tuple[dict[NodeType, list[Path]], dict[Relation, list[Path]]]:
    """The files of each node type and relation.

    Raises:
        IncompleteDatasetError: there are none.
        SchemaError: a folder of edges that is not called ``src__name__dst``.
    """
    if (folder / f"{EDGE_INDEX}.npy").is_file():
        files = sorted(folder.glob("*.npy"))
        of_edges = [file for file in files if file.name.startswith(_EDGE_COLUMN)]
        return {NODE: [file for file in files if file not in of_edges]}, {EDGE: of_edges}
    nodes = {path.name: sorted(path.glob("*.npy")) for path in sorted(folder.glob("nodes/*/"))}
    edges = {_relation(path): sorted(path.glob("*.npy")) for path in sorted(folder.glob("edges/*/"))}
    if not nodes and not edges:
        raise IncompleteDatasetError(f"{folder} has neither {EDGE_INDEX}.npy nor folders nodes/TYPE and edges/SRC__NAME__DST")
    return nodes, edges


def _nodes(staging: Staging, name: NodeType, files: list[Path], mentioned: int) -> NodeTable:
    arrays = {file.stem: map_foreign(file) for file in files}
    sizes = {stem: len(array) for stem, array in arrays.items()}
    num_nodes = max(sizes.values(), default=mentioned)
    for file in files:
        if sizes[file.stem] != num_nodes:
            raise InputError(f"{file} has {sizes[file.stem]} rows, but other arrays of {name!r} have {num_nodes}")
    names, raw_id = {}, None
    columns: dict[str, Tensor] = {}
    for file in files:
        array = arrays[file.stem]
        if array.dtype.kind == "U" and file.stem == _IDS:
            columns[RAW_TEXT] = _texts(staging, file, array)
        elif array.dtype.kind == "U" and file.stem == _CLASS_NAMES:
            columns[file.stem], names[file.stem] = _numbered(staging, file, array)
        elif file.stem == _IDS:
            raw_id = _tensor(staging, file, array, np.int64)
        else:
            columns[file.stem] = _tensor(staging, file, array)
    return NodeTable(num_nodes=num_nodes, columns=columns, raw_id=raw_id, names=names)


def _edges(staging: Staging, ends: Tensor, files: list[Path]) -> EdgeTable:
    columns = {file.stem: _tensor(staging, file, map_foreign(file)) for file in files if file.stem != EDGE_INDEX}
    for file in files:
        if file.stem in columns and len(columns[file.stem]) != ends.shape[1]:
            raise InputError(f"{file} has {len(columns[file.stem])} rows, but there are {ends.shape[1]} edges")
    return EdgeTable(src=ends[0], dst=ends[1], columns=columns)


def _edge_index(staging: Staging, relation: Relation, files: list[Path]) -> Tensor:
    found = [file for file in files if file.stem == EDGE_INDEX]
    if not found:
        raise IncompleteDatasetError(f"the edges {'__'.join(relation)} have no {EDGE_INDEX}.npy")
    ends = _tensor(staging, found[0], map_foreign(found[0]))
    if ends.dim() != 2 or ends.shape[0] != 2 or ends.dtype not in (torch.int64, torch.int32):
        raise InputError(f"{found[0]} is {ends.dtype} of shape {tuple(ends.shape)}, expected int64 or int32 of [2, num_edges]")
    return ends


def _mentioned(name: NodeType, ends: dict[Relation, Tensor]) -> int:
    """How many nodes there are by the edges alone."""
    ids = [rows[end] for (src, _, dst), rows in ends.items() for end, of in ((0, src), (1, dst)) if of == name and rows.numel()]
    return max((int(rows.max()) + 1 for rows in ids), default=0)


def _texts(staging: Staging, file: Path, array: np.ndarray) -> Tensor:
    slices = [*staging.slices(len(array), array.dtype.itemsize)]
    return collect_texts(staging, _name(file), lambda: (Texts.of(array[rows].tolist()) for rows in slices))


def _numbered(staging: Staging, file: Path, array: np.ndarray) -> tuple[Tensor, tuple[str, ...]]:
    """Numbers of names in sorted order, -1 for the empty one; and the names."""
    slices = [*staging.slices(len(array), array.dtype.itemsize)]

    def names() -> list[str]:
        found = array[:0]
        for rows in slices:
            found = np.unique(np.concatenate([found, array[rows]]))
        return list(map(str, found))

    found = np.array(staging.fact(f"{_name(file)}.names", names, list[str]), dtype=array.dtype)
    empty = int(len(found) > 0 and found[0] == "")
    numbers = staging.column(
        _name(file), lambda: (torch.from_numpy(np.searchsorted(found, array[rows]) - empty) for rows in slices)
    )
    return numbers, tuple(found[empty:].tolist())


def _tensor(staging: Staging, file: Path, array: np.ndarray, dtype: DTypeLike | None = None) -> Tensor:
    """An array as it is, or as `dtype`, or as the nearest that torch has."""
    try:
        wanted = np.dtype(dtype or nearest(array.dtype))
    except TypeError as error:
        raise InputError(f"{file} holds {array.dtype}, which is no kind of number; expected integers, floats or bools") from error
    return as_tensor(staging, _name(file), array, wanted)


def _name(file: Path) -> str:
    return f"{file.parent.name}.{file.stem}"


def _relation(path: Path) -> Relation:
    parts = path.name.split("__")
    if len(parts) != 3 or not all(parts):
        raise SchemaError(f"{path}: a folder of edges is named src__name__dst, like user__buys__item")
    return parts[0], parts[1], parts[2]
