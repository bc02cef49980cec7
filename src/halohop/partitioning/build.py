"""From tables and an assignment to partitions: renumbering, CSC, and the folder on disk."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from halohop import ops
from halohop.errors import InputError
from halohop.partitioning.assign import Assignment, assign, chosen
from halohop.partitioning.book import Book
from halohop.partitioning.report import Report, measure
from halohop.store.part import EdgePart, NodePart, Part
from halohop.store.schema import ColumnSpec, Schema, TableSpec
from halohop.store.tables import EdgeTable, GraphTables, NodeTable, is_dense
from halohop.store.writer import write_dataset
from halohop.typing import SOURCE_ID, NodeType, Relation

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
    method: str | Assignment | Tensor = "auto",
    seed: int = 0,
    halo: Sequence[str] = (),
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Divides a graph and writes it to a folder, which `halohop.open` reads.

    Args:
        tables: the graph.
        out: the new folder; it appears when it is complete.
        num_parts: how many partitions; some are empty if there are more than nodes.
        method, seed: see `halohop.partitioning.assign.assign`.
        halo: see `build_parts`.
        overwrite: whether to replace a halohop data set in `out`; anything else there is never touched.
        progress: told how far it is.

    Returns:
        Cut and balance; the data set keeps them too.

    Raises:
        InputError: `out` is there already, or see `assign` and `build_parts`.

    Example:
        >>> from halohop.store.tables import NodeTable
        >>> ring = EdgeTable(src=torch.arange(8), dst=torch.arange(1, 9) % 8)
        >>> tables = GraphTables(nodes={"node": NodeTable(num_nodes=8)}, edges={("node", "to", "node"): ring})
        >>> report = partition(tables, "ring", num_parts=2, method=torch.arange(8) // 4)
        >>> report.cut, [part.halo for part in report.parts]
        (0.25, [1, 1])
    """
    tell = progress or (lambda stage, done, total: None)
    _check_halo(tables, halo)
    with write_dataset(out, overwrite=overwrite) as writer:
        tell("assign", 0, 1)
        assignment = assign(tables, num_parts, method, seed=seed)
        tell("build", 0, 1)
        build = build_parts(tables, assignment, num_parts, halo=halo)
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
            partitioned={"method": chosen(method) if isinstance(method, str) else "given", "seed": seed},
            report=report.to_dict(),
        )
        tell("write", num_parts, num_parts)
    return report


def build_parts(tables: GraphTables, assignment: Assignment, num_parts: int, *, halo: Sequence[str] = ()) -> Build:
    """Renumbers a graph, so that a partition owns one range of gids per node type and relation.

    Nodes are ordered by (partition, raw id), edges by destination; the in-edges of a node keep the order of the table. Where
    that changes nothing, the columns of the parts are views of the tables' columns.

    Args:
        tables: the graph; its columns are not copied until a partition is asked for.
        assignment: from `assign`.
        num_parts: the partitions are 0 to num_parts - 1.
        halo: columns of nodes (one number each), or "raw_id", that are copied to every edge from such a node. So the owner of
            a list knows them of all its sources. Left out where an edge has a column of that name itself, which is asked
            first, and where raw ids are gids.

    Raises:
        InputError: `halo` names what no node has, or what is not a number per node.

    Example:
        >>> path = EdgeTable(src=torch.tensor([0, 1]), dst=torch.tensor([1, 2]))
        >>> tables = GraphTables(nodes={"node": NodeTable(num_nodes=3)}, edges={("node", "to", "node"): path})
        >>> build = build_parts(tables, {"node": torch.tensor([1, 0, 1])}, 2)
        >>> build.book.nodes, build.book.edges
        ({'node': (0, 1, 3)}, {('node', 'to', 'node'): (0, 1, 2)})
        >>> [part.nodes["node"].raw_id.tolist() for part in build.parts]
        [[1], [0, 2]]
    """
    _check_halo(tables, halo)
    nodes = {name: _number_nodes(table, assignment[name], num_parts) for name, table in tables.nodes.items()}
    edges = {relation: _number_edges(table, nodes[relation[2]]) for relation, table in tables.edges.items()}
    schema = Schema(
        nodes={
            name: TableSpec(count=table.num_nodes, columns=_specs(table.columns, table.names))
            for name, table in tables.nodes.items()
        },
        edges={
            relation: TableSpec(count=table.num_edges, columns=_specs(table.columns, {}))
            for relation, table in tables.edges.items()
        },
    )
    book = Book(
        nodes={name: numbering.bounds for name, numbering in nodes.items()},
        edges={relation: numbering.bounds for relation, numbering in edges.items()},
    )
    return Build(schema=schema, book=book, parts=(_part(tables, nodes, edges, halo, index) for index in range(num_parts)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Nodes:
    """How the nodes of a type are renumbered.

    Args:
        bounds: gids of the partitions.
        row: table row of every gid, int64; None if they are the same.
        gid: gid of every table row, int64; None likewise.
        raw: raw id of every gid, int64; None if they are the same.
        sparse: the table's sparse columns, in the order of the table.
    """

    bounds: tuple[int, ...]
    row: Tensor | None
    gid: Tensor | None
    raw: Tensor | None
    sparse: dict[str, ops.SparseRows]


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
    sparse = {name: ops.SparseRows.of(column) for name, column in table.columns.items() if not is_dense(column)}
    if torch.equal(row, identity):
        return _Nodes(bounds=bounds, row=None, gid=None, raw=raw, sparse=sparse)
    gid = torch.empty_like(identity)
    gid[row] = identity
    return _Nodes(bounds=bounds, row=row, gid=gid, raw=raw, sparse=sparse)


def _number_edges(table: EdgeTable, dst: _Nodes) -> _Edges:
    indptr, row = ops.build_csc(_translated(table.dst, dst.gid), dst.bounds[-1])
    row = row.to(_id_dtype(table.num_edges))
    identity = torch.arange(table.num_edges, dtype=row.dtype)
    return _Edges(bounds=tuple(indptr[list(dst.bounds)].tolist()), indptr=indptr, row=None if torch.equal(row, identity) else row)


def _part(
    tables: GraphTables, nodes: dict[NodeType, _Nodes], edges: dict[Relation, _Edges], halo: Sequence[str], index: int
) -> Part:
    return Part(
        nodes={name: _node_part(table, nodes[name], index) for name, table in tables.nodes.items()},
        edges={relation: _edge_part(tables, relation, edges[relation], nodes, halo, index) for relation in tables.edges},
    )


def _node_part(table: NodeTable, numbering: _Nodes, index: int) -> NodePart:
    low, high = numbering.bounds[index : index + 2]
    return NodePart(
        num_nodes=high - low,
        raw_id=None if numbering.raw is None else numbering.raw[low:high],
        columns={name: _rows(column, numbering.row, low, high) for name, column in table.columns.items() if is_dense(column)},
        sparse={name: _sparse_rows(rows, numbering.row, low, high) for name, rows in numbering.sparse.items()},
    )


def _edge_part(
    tables: GraphTables, relation: Relation, numbering: _Edges, nodes: dict[NodeType, _Nodes], halo: Sequence[str], index: int
) -> EdgePart:
    table, src, dst = tables.edges[relation], nodes[relation[0]], nodes[relation[2]]
    low, high = numbering.bounds[index : index + 2]
    first, last = dst.bounds[index : index + 2]
    indptr = numbering.indptr[first : last + 1] - low
    src_row = _rows(table.src, numbering.row, low, high)
    columns = {name: _rows(column, numbering.row, low, high) for name, column in table.columns.items()}
    wanted = [name for name in dict.fromkeys(halo) if name not in columns]
    borrowed = _borrowed(tables.nodes[relation[0]], src, wanted, src_row)
    times = {name: column for name, column in (columns | borrowed).items() if name != SOURCE_ID and _is_number(column)}
    return EdgePart(
        indptr=indptr,
        indices=_translated(src_row, src.gid).to(_id_dtype(src.bounds[-1])),
        edge_id=None if numbering.row is None else numbering.row[low:high],
        columns=columns,
        halo=borrowed,
        ascending=frozenset(name for name, column in times.items() if ops.never_falls(indptr, column)),
    )


def _borrowed(sources: NodeTable, numbering: _Nodes, halo: Sequence[str], src_row: Tensor) -> dict[str, Tensor]:
    """The columns named by `halo`, of the given rows; those that the type has."""
    borrowed = {name: ops.gather_rows(sources.columns[name], src_row) for name in halo if name in sources.columns}
    if SOURCE_ID in halo and numbering.raw is not None:
        raw = src_row if sources.raw_id is None else ops.gather_rows(sources.raw_id, src_row)
        low, high = torch.aminmax(numbering.raw)  # of all partitions, which must agree
        borrowed[SOURCE_ID] = raw.to(torch.int32 if low >= -_INT32_MAX and high <= _INT32_MAX else torch.int64)
    return borrowed


def _check_halo(tables: GraphTables, halo: Sequence[str]) -> None:
    if isinstance(halo, str):
        raise InputError(f"halo={halo!r} is a text; give a list of names, such as ({halo!r},)")
    known = sorted({name for table in tables.nodes.values() for name, column in table.columns.items() if _is_number(column)})
    for name in halo:
        having = [table.columns[name] for table in tables.nodes.values() if name in table.columns]
        if name != SOURCE_ID and not (having and all(map(_is_number, having))):
            why = "is not one number per node" if having else "is no column of nodes"
            raise InputError(f"halo names {name!r}, which {why}; it can name {[SOURCE_ID, *known]}")


def _is_number(column: Tensor) -> bool:
    """Whether it may hold times."""
    return column.dim() == 1 and column.dtype in ops.TIME_DTYPES


def _rows(column: Tensor, row: Tensor | None, low: int, high: int) -> Tensor:
    """The rows of a table's column that belong to the gids from `low` to `high`."""
    return column.detach()[low:high] if row is None else ops.gather_rows(column, row[low:high])


def _sparse_rows(rows: ops.SparseRows, row: Tensor | None, low: int, high: int) -> ops.SparseRows:
    """The same of a sparse column."""
    wanted = torch.arange(low, high) if row is None else row[low:high]
    taken = ops.SparsePieces([rows], [0, len(rows)]).take(wanted)
    return replace(taken, indptr=taken.indptr.long())


def _translated(rows: Tensor, gid: Tensor | None) -> Tensor:
    return rows if gid is None else ops.gather_rows(gid, rows)


def _ascending(ids: Tensor) -> bool:
    return bool((ids[1:] > ids[:-1]).all())


def _id_dtype(count: int) -> torch.dtype:
    """The smaller type that holds the ids 0 to count - 1."""
    return torch.int32 if count - 1 <= _INT32_MAX else torch.int64


def _specs(columns: dict[str, Tensor], names: dict[str, tuple[str, ...]]) -> dict[str, ColumnSpec]:
    return {name: ColumnSpec.of(column, names.get(name, ())) for name, column in columns.items()}
