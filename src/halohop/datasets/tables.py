"""Graphs from node and edge tables in CSV, TSV and Parquet files; `halohop.datasets.spec` says how they are described."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from halohop.datasets.direction import add_reverses
from halohop.datasets.ids import Ids, id_parts, mentioned_ids, read_ids
from halohop.datasets.scale import normalize_rows
from halohop.datasets.spec import EdgeFiles, GraphFiles, NodeFiles, load_spec, spec_path
from halohop.datasets.splits import index_masks, random_masks
from halohop.datasets.staging import Staging
from halohop.datasets.table_columns import SAMPLED_OF_EDGES, SAMPLED_OF_NODES, columns_of, split_masks, split_name, stacked
from halohop.datasets.table_labels import labels, memberships
from halohop.datasets.table_parts import characters, parts_of
from halohop.errors import IncompleteDatasetError, InputError, SchemaError
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.typing import RAW_TEXT, NodeType, Relation


def read_tables(source: str | Path | GraphFiles, root: str | Path = ".", *, staging: Staging | None = None) -> GraphTables:
    """A graph from its tables.

    Args:
        source: a description, its file, or the folder of a ``graph.toml``.
        root: folder that file names start from, where `source` is a description; else it is the description's folder.
        staging: where the columns are collected; by default in memory.

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
        return read_tables(load_spec(path), path.parent, staging=staging)
    root, staging = Path(root), staging or Staging()
    relations = {relation_of(text): files for text, files in source.edges.items()}
    _check_kinds(source.nodes, relations)
    ids: dict[NodeType, Ids] = {}
    nodes: dict[NodeType, NodeTable] = {}
    for node_type, files in source.nodes.items():
        ids[node_type], nodes[node_type] = _read_nodes(staging, root, node_type, files)
    for node_type in dict.fromkeys(end for relation in relations for end in (relation[0], relation[2])):
        if node_type not in nodes:
            ends, given = _ends(root, relations, node_type), _given_kind(relations, node_type)
            ids[node_type] = mentioned_ids(staging, node_type, ends, given)
            nodes[node_type] = _with_ids(ids[node_type], {}, {})
    edges = {relation: _read_edges(staging, root, relation, files, ids) for relation, files in relations.items()}
    tables = GraphTables(nodes=nodes, edges=edges)
    tables = normalize_rows(tables, [name for name, files in source.nodes.items() if files.normalize], staging=staging)
    return add_reverses(tables, [name for name, files in relations.items() if files.undirected], staging=staging)


def _read_nodes(staging: Staging, root: Path, node_type: NodeType, files: NodeFiles) -> tuple[Ids, NodeTable]:
    table, paths = f"nodes.{node_type}", paths_of(root, files.file)
    ids = read_ids(staging, node_type, node_type, paths, files.id, files.kinds.get(files.id))
    columns: dict[str, Tensor] = {}
    names: dict[str, tuple[str, ...]] = {}
    if files.features:
        columns["x"] = stacked(staging, f"{table}.x", paths, files.features, files.dtype, missing=files.allow_missing)
    if isinstance(files.label, str):
        columns["y"], names["y"] = labels(staging, f"{table}.y", paths, files.label, files.kinds.get(files.label))
    elif files.label:
        columns["y"], names["y"] = memberships(staging, f"{table}.y", paths, files.label), files.label
    if files.split is not None:
        columns |= split_masks(staging, f"{table}.split", paths, files.split)
    masks = {f"{split_name(split)}_mask": name for split, name in files.masks.items()}
    columns |= columns_of(staging, f"{table}.masks", paths, masks, torch.bool)
    if files.splits:
        columns |= staging.columns(f"{table}.splits", lambda: [_listed(staging, root, files, ids)])
    if files.fractions is not None:
        if "y" not in columns:
            raise InputError(f"fractions={files.fractions} are of the nodes with a label, but {files.file} names no label")
        y, fractions = columns["y"], files.fractions
        y = y if y.dim() == 1 else (y >= 0).any(dim=1).long() - 1
        columns |= staging.columns(f"{table}.fractions", lambda: [random_masks(y, fractions=fractions)])
    further = {name: name for name in files.columns}
    columns |= columns_of(staging, f"{table}.columns", paths, further, sampled=SAMPLED_OF_NODES)
    return ids, _with_ids(ids, columns, names)


def _read_edges(staging: Staging, root: Path, relation: Relation, files: EdgeFiles, ids: Mapping[NodeType, Ids]) -> EdgeTable:
    table, paths = f"edges.{'__'.join(relation)}", paths_of(root, files.file)

    def rows() -> Iterator[dict[str, Tensor]]:
        for part in parts_of(staging, paths, [files.src, files.dst], characters(files.src, files.dst)):
            yield {"src": ids[relation[0]].rows(part, files.src), "dst": ids[relation[2]].rows(part, files.dst)}

    ends = staging.columns(f"{table}.ends", rows)
    columns: dict[str, Tensor] = {}
    if files.features:
        columns["edge_attr"] = stacked(
            staging, f"{table}.edge_attr", paths, files.features, files.dtype, missing=files.allow_missing
        )
    named = {"weight": files.weight, "time": files.time} | {name: name for name in files.columns}
    given = {target: name for target, name in named.items() if name is not None}
    columns |= columns_of(staging, f"{table}.columns", paths, given, sampled=SAMPLED_OF_EDGES)
    return EdgeTable(src=ends["src"], dst=ends["dst"], columns=columns)


def _listed(staging: Staging, root: Path, files: NodeFiles, ids: Ids) -> dict[str, Tensor]:
    """Masks of the rows that each split's files name."""
    shown = replace(ids, node_type=files.file)

    def rows(pattern: str) -> Iterator[np.ndarray]:
        return (shown.rows(part, files.id).numpy() for part in id_parts(staging, paths_of(root, pattern), files.id))

    return index_masks(ids.count, {split_name(split): rows(pattern) for split, pattern in files.splits.items()})


def _ends(root: Path, relations: Mapping[Relation, EdgeFiles], node_type: NodeType) -> list[tuple[Path, str]]:
    """Where edges mention a node type: files and columns."""
    ends = (
        (end, name, files.file)
        for (src, _, dst), files in relations.items()
        for end, name in ((src, files.src), (dst, files.dst))
    )
    return [(path, name) for end, name, pattern in ends if end == node_type for path in paths_of(root, pattern)]


def _given_kind(relations: Mapping[Relation, EdgeFiles], node_type: NodeType) -> str | None:
    """The kind that tables of edges give the ids of a node type."""
    given = [
        files.kinds[name]
        for (src, _, dst), files in relations.items()
        for end, name in ((src, files.src), (dst, files.dst))
        if end == node_type and name in files.kinds
    ]
    if len(set(given)) > 1:
        raise SchemaError(f"kinds of edges give the ids of {node_type!r} as text and as numbers; choose one")
    return given[0] if given else None


def _check_kinds(nodes: Mapping[NodeType, NodeFiles], relations: Mapping[Relation, EdgeFiles]) -> None:
    """
    Raises:
        SchemaError: `kinds` names a column whose kind is not chosen there.
    """
    for name, files in nodes.items():
        _check_names(f"nodes.{name}", files.kinds, [files.id, files.label])
    for (src, name, dst), ends in relations.items():
        free = [column for end, column in ((src, ends.src), (dst, ends.dst)) if end not in nodes]
        _check_names(f"edges.{src}__{name}__{dst}", ends.kinds, free)


def _check_names(where: str, kinds: Mapping[str, str], names: Sequence[object]) -> None:
    for name in kinds:
        if name not in names:
            raise SchemaError(
                f"{where}: kinds names {name!r}, whose kind is not chosen there; name the column of ids or of the label, "
                "or in edges the ids of a node type without a table"
            )


def _with_ids(ids: Ids, columns: dict[str, Tensor], names: dict[str, tuple[str, ...]]) -> NodeTable:
    """The table of nodes with these ids: integers are raw ids, strings a column; their raw ids are 0, 1, 2, ..."""
    if ids.text is not None:
        columns = columns | {RAW_TEXT: ids.text}
    return NodeTable(num_nodes=ids.count, columns=columns, names=names, raw_id=ids.raw)


def paths_of(root: Path, pattern: str) -> list[Path]:
    """The files that a pattern means, by name.

    Raises:
        IncompleteDatasetError: no file matches it.
    """
    if not any(letter in pattern for letter in "*?["):
        return [root / pattern]
    paths = sorted(root.glob(pattern))
    if not paths:
        raise IncompleteDatasetError(f"no file in {root} matches {pattern!r}")
    return paths


def relation_of(text: str) -> Relation:
    """The relation that a key of edges spells.

    Raises:
        SchemaError: it is not ``src__name__dst``.
    """
    parts = text.split("__")
    if len(parts) != 3 or not all(parts):
        raise SchemaError(f"edges.{text}: a relation is named src__name__dst, like user__buys__item")
    return parts[0], parts[1], parts[2]
