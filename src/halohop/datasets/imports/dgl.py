"""Partitions that DGL wrote (``part_config.json``), without DGL.

A partition has its graph (``graph.dgl``: its own nodes and edges, then copies of others', which are left out) and the columns of
what it owns (``node_feat.dgl``, ``edge_feat.dgl``). Where DGL's pipeline has kept the ids from before (``orig_nids.dgl``,
``orig_eids.dgl``), nodes and edges get these; else they keep the ids that DGL gave them, within their type.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from halohop.datasets.imports.beside import with_columns
from halohop.datasets.imports.dgl_config import Config, Ranges, read_config
from halohop.datasets.imports.dgl_files import Stored, read_graph, read_tensors
from halohop.datasets.imports.imported import Imported, Owners
from halohop.datasets.imports.order import Order
from halohop.datasets.staging import Staging
from halohop.errors import InputError
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.typing import NodeType, Relation, TableKey, relation_text

RENAMED = {"nodes": {"feat": "x", "label": "y", "labels": "y"}, "edges": {"feat": "edge_attr"}}


def read_dgl(config: str | Path, columns: Mapping[str, str | Path] | None = None, *, staging: Staging | None = None) -> Imported:
    """The graph in DGL's partitions.

    The columns keep their names, except those that are called otherwise here: ``feat`` becomes ``x`` (of edges ``edge_attr``),
    ``label`` ``y``; and those called ``..._mask`` become bool again, which DGL writes as uint8. Of partitions that `write_dgl`
    wrote, all names and dtypes are those from before. Types ``_N`` and ``_E`` are those of a homogeneous graph. The edges of one
    partition are in memory at a time, besides the result.

    Args:
        config: the JSON file that `dgl.distributed.partition_graph` or `dispatch_data.py` wrote.
        columns: see `halohop.datasets.imports.beside.with_columns`.
        staging: where rows are collected; by default in memory.

    Raises:
        IncompleteDatasetError: a file or partition is missing.
        InputError: a file holds something else than DGL writes, or counts differ.
        IdError: a node or edge is in no partition, or in several.

    Example:
        ``imported = read_dgl("products/ogbn-products.json")``
    """
    layout, staging = read_config(Path(config)), staging or Staging()
    old_nodes, raw = _nodes_before(layout)
    old_edges = {relation: _old_ids(layout, "orig_eids.dgl", ranges) for relation, ranges in layout.edges.items()}
    reader = _Edges(layout, {name: torch.cat(old) for name, old in old_nodes.items()}, old_edges)
    owned = [reader.of_part(part, staging) for part in range(len(layout.folders))]
    tables = GraphTables(
        nodes={name: _nodes(layout, name, old, raw[name], staging) for name, old in old_nodes.items()},
        edges={relation: _edges(layout, relation, owned, old, staging) for relation, old in old_edges.items()},
    )
    return Imported(tables=with_columns(tables, columns or {}), owners=_owners(layout, old_nodes))


def dgl_owners(config: str | Path) -> Owners:
    """Who owns the nodes by DGL's partitions; the arguments and errors are those of `read_dgl`."""
    layout = read_config(Path(config))
    return _owners(layout, _nodes_before(layout)[0])


def _nodes_before(layout: Config) -> tuple[dict[NodeType, list[Tensor]], dict[NodeType, Tensor | None]]:
    """By type and partition, the rows of its nodes in the tables of before, and by type the ids of these rows: None where they
    are 0, 1, 2, ..., which they are unless `write_dgl` has written other ones."""
    rows: dict[NodeType, list[Tensor]] = {}
    raw: dict[NodeType, Tensor | None] = {}
    for name, ranges in layout.nodes.items():
        rows[name], raw[name] = _old_ids(layout, "orig_nids.dgl", ranges), None
        if layout.bools is not None:
            ids = torch.cat(rows[name]).sort().values
            if not torch.equal(ids, torch.arange(len(ids))):
                rows[name], raw[name] = [torch.searchsorted(ids, own) for own in rows[name]], ids
    return rows, raw


def _old_ids(layout: Config, file: str, ranges: Ranges) -> list[Tensor]:
    """By partition, the ids from before DGL renumbered; DGL's own where they were not kept."""
    found = []
    for part, files in enumerate(layout.folders):
        kept = files.graph.parent / file
        stored = read_tensors(kept).get(ranges.name) if kept.is_file() else None
        ids = ranges.within(part) if stored is None else stored.tensor().long()
        if len(ids) != ranges.begin[part + 1] - ranges.begin[part]:
            raise InputError(f"{kept} has {len(ids)} ids of {ranges.name}, the ranges say otherwise; copy the whole folder")
        found.append(ids)
    return found


def _owners(layout: Config, ids: Mapping[NodeType, Sequence[Tensor]]) -> Owners:
    parts = {}
    for name, ranges in layout.nodes.items():
        Order(ids[name], ranges.count, f"node of type {name!r}")  # every id once, or it says which
        parts[name] = torch.empty(ranges.count, dtype=torch.int32)
        for part, own in enumerate(ids[name]):
            parts[name][own] = part
    return Owners(part=parts, num_parts=len(layout.folders))


class _Edges:
    """Reads the edges that each partition owns: those to its nodes.

    Args:
        layout: where they are.
        old_nodes, old_edges: ids from before: of the nodes of each type, and by partition of the edges of each relation.
    """

    def __init__(
        self, layout: Config, old_nodes: Mapping[NodeType, Tensor], old_edges: Mapping[Relation, Sequence[Tensor]]
    ) -> None:
        self._layout, self._old_nodes, self._old_edges = layout, old_nodes, old_edges

    def of_part(self, part: int, staging: Staging) -> dict[str, Tensor]:
        """By relation and "id", "src" or "dst": the ids of the edges and of their ends, within their types."""
        return staging.columns(f"edges of partition {part}", lambda: [self._read(part)])

    def _read(self, part: int) -> dict[str, Tensor]:
        file = self._layout.folders[part].graph
        graph = read_graph(file)
        try:
            inner, every = graph.edges["inner_edge"].tensor(), graph.edges["_ID"].tensor().long()
            nid = graph.nodes["_ID"].tensor().long()
        except KeyError as error:
            raise InputError(f"{file} has no column {error}; it is not a partition that DGL's partition_graph wrote") from None
        if not len(inner) == len(every) == len(graph.src) == len(graph.dst):
            raise InputError(f"{file} has {len(graph.src)} edges, but not one id for each; copy the partition again")
        own = torch.nonzero(inner).flatten()
        eid = every[own]
        if not bool((eid.diff() > 0).all()):
            order = torch.argsort(eid)
            own, eid = own[order], eid[order]
        found: dict[str, Tensor] = {}
        count = 0
        for relation, ranges in self._layout.edges.items():
            first, last = ranges.bounds[part]
            low, high = torch.searchsorted(eid, torch.tensor([first, last])).tolist()
            count += high - low
            found[_key(relation, "id")] = self._old_edges[relation][part][eid[low:high] - first]
            local = torch.cat([end[own[low:high]] for end in (graph.src, graph.dst)])
            if len(local) and not 0 <= int(local.min()) <= int(local.max()) < len(nid):
                raise InputError(
                    f"{file} has edges with nodes {int(local.min())} to {int(local.max())}, expected 0 to {len(nid) - 1}; "
                    "copy the partition again"
                )
            for end, local, name in (("src", graph.src, relation[0]), ("dst", graph.dst, relation[2])):
                ids = _within(self._layout.nodes[name], nid[local[own[low:high]]], file)
                found[_key(relation, end)] = self._old_nodes[name][ids]
        if count != len(own):
            raise InputError(f"{file} has {len(own)} edges of its own, {count} of them in its ranges; copy the whole folder")
        return found


def _key(relation: Relation, what: str) -> str:
    return f"{relation_text(relation)} {what}"


def _within(ranges: Ranges, ids: Tensor, file: Path) -> Tensor:
    """Ids that count over all types, counted within their type."""
    some = [(first, last, begin) for (first, last), begin in zip(ranges.bounds, ranges.begin, strict=False) if first < last]
    firsts, lasts, begins = torch.tensor(sorted(some), dtype=torch.int64).view(-1, 3).T.contiguous()
    at = torch.searchsorted(firsts, ids, right=True) - 1
    wrong = (at < 0) | (ids >= lasts[at.clamp(min=0)]) if len(firsts) else torch.ones(len(ids), dtype=torch.bool)
    if bool(wrong.any()):
        raise InputError(f"{file} has an edge with node {int(ids[wrong][0])}, which is no {ranges.name}; copy the whole folder")
    return ids + (begins - firsts)[at] if len(ids) else ids


def _nodes(layout: Config, name: NodeType, ids: list[Tensor], raw: Tensor | None, staging: Staging) -> NodeTable:
    ranges = layout.nodes[name]
    order = Order(ids, ranges.count, f"node of type {name!r}")
    pieces = [columns_of(files.node_columns, ranges.name) for files in layout.folders]
    return NodeTable(num_nodes=ranges.count, columns=_restored(order, pieces, name, layout, staging), raw_id=raw)


def _edges(layout: Config, relation: Relation, owned: list[dict[str, Tensor]], old: list[Tensor], staging: Staging) -> EdgeTable:
    ranges, name = layout.edges[relation], relation_text(relation)
    order = Order([edges[_key(relation, "id")] for edges in owned], ranges.count, f"edge of {name}")
    src, dst = (
        order.restored([edges[_key(relation, end)] for edges in owned], f"{end} of {name}", staging) for end in ("src", "dst")
    )
    stored = Order(old, ranges.count, f"edge of {name}")  # the rows of the columns are in the order of DGL's ids
    pieces = [columns_of(files.edge_columns, ranges.name) for files in layout.folders]
    return EdgeTable(src=src, dst=dst, columns=_restored(stored, pieces, relation, layout, staging))


def columns_of(file: Path, table: str) -> dict[str, Stored]:
    """The columns of one type; older versions did not write the type before the name."""
    found = {}
    for key, stored in read_tensors(file).items():
        of, slash, name = key.rpartition("/")
        if of == table or not slash:
            found[name] = stored
    return found


def _restored(
    order: Order, pieces: list[dict[str, Stored]], table: TableKey, layout: Config, staging: Staging
) -> dict[str, Tensor]:
    """The columns in the order of ids, under our names."""
    columns = {}
    kind, ranges = ("nodes", layout.nodes[table]) if isinstance(table, str) else ("edges", layout.edges[table])
    of = table if isinstance(table, str) else relation_text(table)
    names = dict.fromkeys(name for piece in pieces for name in piece)
    for name in names:
        for files, piece in zip(layout.folders, pieces, strict=True):
            if name not in piece:
                raise InputError(f"{files.graph.parent} lacks the column {name!r} of {kind}, which others have; copy it again")
        stored = [piece[name] for piece in pieces]
        if len({(piece.dtype, piece.shape[1:]) for piece in stored}) > 1:
            forms = ", ".join(f"{piece.dtype} {list(piece.shape[1:])}" for piece in stored)
            raise InputError(f"column {name!r} of {kind} is not the same in all partitions: {forms}")
        column = stored[0].typed(order.restored([piece.rows for piece in stored], f"{name} of {of}", staging))
        target, is_bool = RENAMED[kind].get(name, name), name.endswith("_mask")
        if layout.bools is not None:
            target, is_bool = name, f"{ranges.name}/{name}" in layout.bools
        columns[name if target in names else target] = column.bool() if is_bool and column.dtype == torch.uint8 else column
    return columns
