"""From tables and an assignment to partitions: renumbering, CSC, and the folder on disk."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from halohop import ops
from halohop.partitioning.assign import Assignment, assign
from halohop.partitioning.book import Book
from halohop.partitioning.report import Report, measure
from halohop.store.disk import write_dataset
from halohop.store.part import EdgePart, NodePart, Part
from halohop.store.schema import ColumnSpec, Schema, TableSpec
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.typing import NodeType, Relation

_INT32_MAX = 2**31 - 1

Progress = Callable[[str, int, int], None]
"""Called with a stage ("assign", "build", "write"), steps done, and steps in all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """A renumbered graph.

    Args:
        schema: what it is made of.
        book: who owns what.
        parts: the partitions in order, made one at a time when asked for.
    """

    schema: Schema
    book: Book
    parts: Iterator[Part]


def partition(
    tables: GraphTables,
    out: str | Path,
    *,
    num_parts: int,
    method: str | Assignment | Tensor = "metis",
    seed: int = 0,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Divides a graph and writes it to a folder, which `halohop.open` reads.

    Args:
        tables: the graph.
        out: the new folder; it appears when it is complete.
        num_parts: how many partitions; some are empty if there are more than nodes.
        method, seed: see `halohop.partitioning.assign.assign`.
        overwrite: whether to replace a halohop data set in `out`; anything else there is never touched.
        progress: told how far it is.

    Returns:
        Cut and balance; the data set keeps them too.

    Raises:
        InputError: `out` is there already, or see `assign`.

    Example:
        >>> from halohop.store.tables import NodeTable
        >>> ring = EdgeTable(src=torch.arange(8), dst=torch.arange(1, 9) % 8)
        >>> tables = GraphTables(nodes={"node": NodeTable(num_nodes=8)}, edges={("node", "to", "node"): ring})
        >>> report = partition(tables, "ring", num_parts=2, method=torch.arange(8) // 4)
        >>> report.cut, [part.halo for part in report.parts]
        (0.25, [1, 1])
    """
    tell = progress or (lambda stage, done, total: None)
    with write_dataset(out, overwrite=overwrite) as writer:
        tell("assign", 0, 1)
        assignment = assign(tables, num_parts, method, seed=seed)
        tell("build", 0, 1)
        build = build_parts(tables, assignment, num_parts)
        reports = []
        for index in range(num_parts):
            tell("write", index, num_parts)
            part = next(build.parts)
            num_bytes = writer.add(part)
            reports.append(measure(part, build.book, index, num_bytes=num_bytes))
            del part  # before the next one is made: only one at a time fits
        report = Report(parts=tuple(reports))
        writer.finish(
            schema=build.schema,
            node_bounds=build.book.nodes,
            edge_bounds=build.book.edges,
            partitioned={"method": method if isinstance(method, str) else "given", "seed": seed},
            report=report.to_dict(),
        )
        tell("write", num_parts, num_parts)
    return report


def build_parts(tables: GraphTables, assignment: Assignment, num_parts: int) -> Build:
    """Renumbers a graph, so that a partition owns one range of gids per node type and relation.

    Nodes are ordered by (partition, raw id), edges by destination; the in-edges of a node keep the order of the table. Where
    that changes nothing, the columns of the parts are views of the tables' columns.

    Args:
        tables: the graph; its columns are not copied until a partition is asked for.
        assignment: from `assign`.
        num_parts: the partitions are 0 to num_parts - 1.

    Example:
        >>> path = EdgeTable(src=torch.tensor([0, 1]), dst=torch.tensor([1, 2]))
        >>> tables = GraphTables(nodes={"node": NodeTable(num_nodes=3)}, edges={("node", "to", "node"): path})
        >>> build = build_parts(tables, {"node": torch.tensor([1, 0, 1])}, 2)
        >>> build.book.nodes, build.book.edges
        ({'node': (0, 1, 3)}, {('node', 'to', 'node'): (0, 1, 2)})
        >>> [part.nodes["node"].raw_id.tolist() for part in build.parts]
        [[1], [0, 2]]
    """
    nodes = {name: _number_nodes(table, assignment[name], num_parts) for name, table in tables.nodes.items()}
    edges = {relation: _number_edges(table, nodes[relation[2]]) for relation, table in tables.edges.items()}
    schema = Schema(
        nodes={name: TableSpec(count=table.num_nodes, columns=_specs(table)) for name, table in tables.nodes.items()},
        edges={relation: TableSpec(count=table.num_edges, columns=_specs(table)) for relation, table in tables.edges.items()},
    )
    book = Book(
        nodes={name: numbering.bounds for name, numbering in nodes.items()},
        edges={relation: numbering.bounds for relation, numbering in edges.items()},
    )
    return Build(schema=schema, book=book, parts=(_part(tables, nodes, edges, index) for index in range(num_parts)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Nodes:
    """How the nodes of a type are renumbered.

    Args:
        bounds: gids of the partitions.
        row: table row of every gid, int64; None if they are the same.
        gid: gid of every table row, int64; None likewise.
        raw: raw id of every gid, int64; None if they are the same.
    """

    bounds: tuple[int, ...]
    row: Tensor | None
    gid: Tensor | None
    raw: Tensor | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Edges:
    """How the edges of a relation are renumbered.

    Args:
        bounds: gids of the partitions.
        indptr: CSC pointers over the gids of all destinations, int64.
        row: table row of every edge gid, int32 or int64; None if they are the same.
    """

    bounds: tuple[int, ...]
    indptr: Tensor
    row: Tensor | None


def _number_nodes(table: NodeTable, part: Tensor, num_parts: int) -> _Nodes:
    raw = None if table.raw_id is None else table.raw_id.long()
    by_raw = None if raw is None or _ascending(raw) else torch.argsort(raw)
    starts, row = ops.build_csc(part if by_raw is None else part[by_raw], num_parts)
    row = row if by_raw is None else by_raw[row]
    identity = torch.arange(table.num_nodes)
    raw = row if raw is None else raw[row]
    raw = None if torch.equal(raw, identity) else raw
    bounds = tuple(starts.tolist())
    if torch.equal(row, identity):
        return _Nodes(bounds=bounds, row=None, gid=None, raw=raw)
    gid = torch.empty_like(identity)
    gid[row] = identity
    return _Nodes(bounds=bounds, row=row, gid=gid, raw=raw)


def _number_edges(table: EdgeTable, dst: _Nodes) -> _Edges:
    indptr, row = ops.build_csc(_translated(table.dst, dst.gid), dst.bounds[-1])
    row = row.to(_id_dtype(table.num_edges))
    identity = torch.arange(table.num_edges, dtype=row.dtype)
    return _Edges(bounds=tuple(indptr[list(dst.bounds)].tolist()), indptr=indptr, row=None if torch.equal(row, identity) else row)


def _part(tables: GraphTables, nodes: dict[NodeType, _Nodes], edges: dict[Relation, _Edges], index: int) -> Part:
    return Part(
        nodes={name: _node_part(table, nodes[name], index) for name, table in tables.nodes.items()},
        edges={
            relation: _edge_part(table, edges[relation], nodes[relation[0]], nodes[relation[2]], index)
            for relation, table in tables.edges.items()
        },
    )


def _node_part(table: NodeTable, numbering: _Nodes, index: int) -> NodePart:
    low, high = numbering.bounds[index : index + 2]
    return NodePart(
        num_nodes=high - low,
        raw_id=None if numbering.raw is None else numbering.raw[low:high],
        columns={name: _rows(column, numbering.row, low, high) for name, column in table.columns.items()},
    )


def _edge_part(table: EdgeTable, numbering: _Edges, src: _Nodes, dst: _Nodes, index: int) -> EdgePart:
    low, high = numbering.bounds[index : index + 2]
    first, last = dst.bounds[index : index + 2]
    sources = _translated(_rows(table.src, numbering.row, low, high), src.gid)
    return EdgePart(
        indptr=numbering.indptr[first : last + 1] - low,
        indices=sources.to(_id_dtype(src.bounds[-1])),
        edge_id=None if numbering.row is None else numbering.row[low:high],
        columns={name: _rows(column, numbering.row, low, high) for name, column in table.columns.items()},
    )


def _rows(column: Tensor, row: Tensor | None, low: int, high: int) -> Tensor:
    """The rows of a table's column that belong to the gids from `low` to `high`."""
    return column.detach()[low:high] if row is None else ops.gather_rows(column, row[low:high])


def _translated(rows: Tensor, gid: Tensor | None) -> Tensor:
    return rows if gid is None else ops.gather_rows(gid, rows)


def _ascending(ids: Tensor) -> bool:
    return bool((ids[1:] > ids[:-1]).all())


def _id_dtype(count: int) -> torch.dtype:
    """The smaller type that holds the ids 0 to count - 1."""
    return torch.int32 if count - 1 <= _INT32_MAX else torch.int64


def _specs(table: NodeTable | EdgeTable) -> dict[str, ColumnSpec]:
    return {name: ColumnSpec.of(column) for name, column in table.columns.items()}
