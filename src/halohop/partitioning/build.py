"""From tables and an assignment to partitions: renumbering, CSC, and the folder on disk."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from halohop import ops
from halohop.partitioning.assign import Method, assign, chosen
from halohop.partitioning.book import Book, check_edge_dir
from halohop.partitioning.division import TOLERANCE, Assignment
from halohop.partitioning.numbering import EdgeNumbers, NodeNumbers, number_edges, number_nodes, translated
from halohop.partitioning.parts import check_halo, edge_part, source_ids
from halohop.partitioning.report import Report, measure
from halohop.store.part import EdgePart, NodePart, Part
from halohop.store.schema import Schema, TableSpec, specs_of
from halohop.store.tables import GraphTables, NodeTable, is_dense
from halohop.store.writer import write_dataset
from halohop.typing import SOURCE_ID, EdgeDir, NodeType, OnProgress, Relation


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
    method: Method = "auto",
    seed: int = 0,
    tolerance: float = TOLERANCE,
    blocks: int | None = None,
    by_type: bool = False,
    halo: Sequence[str] = (),
    edge_dir: EdgeDir = "in",
    overwrite: bool = False,
    progress: OnProgress | None = None,
) -> Report:
    """Divides a graph and writes it to a folder, which `halohop.open` reads.

    Args:
        tables: the graph.
        out: the new folder; it appears when it is complete.
        num_parts: how many partitions; some are empty if there are more than nodes.
        method, seed, tolerance, blocks, by_type: see `halohop.partitioning.assign.assign`.
        halo, edge_dir: see `build_parts`.
        overwrite: whether to replace a halohop data set in `out`; anything else there is never touched.
        progress: called with (stage, done, total).

    Returns:
        Cut and balance; the data set keeps them too.

    Raises:
        InputError: `out` is there already, or see `assign` and `build_parts`.

    Example:
        >>> import torch
        >>> from halohop.store.tables import EdgeTable, NodeTable
        >>> ring = EdgeTable(src=torch.arange(8), dst=torch.arange(1, 9) % 8)
        >>> tables = GraphTables(nodes={"node": NodeTable(num_nodes=8)}, edges={("node", "to", "node"): ring})
        >>> report = partition(tables, "ring", num_parts=2, method=torch.arange(8) // 4)
        >>> report.cut, [part.halo for part in report.parts]
        (0.25, [1, 1])
    """
    on_progress = progress or (lambda stage, done, total: None)
    _check_halo(tables, halo)
    check_edge_dir(edge_dir)
    with write_dataset(out, overwrite=overwrite) as writer:
        on_progress("assign", 0, 1)
        listed = tables if edge_dir == "in" else tables.turned()
        division = assign(listed, num_parts, method, seed=seed, tolerance=tolerance, num_blocks=blocks, by_type=by_type)
        on_progress("build", 0, 1)
        build = build_parts(tables, division.part, num_parts, halo=halo, edge_dir=edge_dir, block=division.block)
        reports = []
        for index in range(num_parts):
            on_progress("write", index, num_parts)
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
            edge_dir=edge_dir,
            num_blocks=division.num_blocks,
        )
        on_progress("write", num_parts, num_parts)
    return report


def build_parts(
    tables: GraphTables,
    assignment: Assignment,
    num_parts: int,
    *,
    halo: Sequence[str] = (),
    edge_dir: EdgeDir = "in",
    block: Assignment | None = None,
) -> Build:
    """Renumbers a graph, so that a partition owns one range of gids per node type and relation.

    Nodes are ordered by (partition, raw id), edges by destination (with `edge_dir` "out" by source); those in the list of a node
    keep the order of the table. Where that changes nothing, the columns of the parts are views of the tables' columns.

    Args:
        tables: the graph; its columns are not copied until a partition is asked for.
        assignment: the partition of every node, such as `Division.part`.
        num_parts: the partitions are 0 to num_parts - 1.
        halo: columns of nodes (one number each), or "raw_id", that are copied to every edge from such a node. So the owner of
            a list knows them of all its sources. Left out where an edge has a column of that name itself, which is asked
            first, and where raw ids are gids. (In a graph with lists of out-edges, of the destinations instead.)
        edge_dir: which edges the lists of nodes hold.
        block: the block of every node, such as `Division.block`; None if there are none.

    Raises:
        InputError: `halo` names what no node has, or what is not a number per node.

    Example:
        >>> import torch
        >>> from halohop.store.tables import EdgeTable, NodeTable
        >>> path = EdgeTable(src=torch.tensor([0, 1]), dst=torch.tensor([1, 2]))
        >>> tables = GraphTables(nodes={"node": NodeTable(num_nodes=3)}, edges={("node", "to", "node"): path})
        >>> build = build_parts(tables, {"node": torch.tensor([1, 0, 1])}, 2)
        >>> build.book.nodes, build.book.edges
        ({'node': (0, 1, 3)}, {('node', 'to', 'node'): (0, 1, 2)})
        >>> [part.nodes["node"].raw_id.tolist() for part in build.parts]
        [[1], [0, 2]]
    """
    _check_halo(tables, halo)
    nodes = {name: number_nodes(table, assignment[name], num_parts) for name, table in tables.nodes.items()}
    end = 1 if edge_dir == "in" else 0
    edges = {relation: number_edges(table.ends[end], nodes[relation[2 * end]]) for relation, table in tables.edges.items()}
    schema = Schema(
        nodes={
            name: TableSpec(count=table.num_nodes, columns=specs_of(table.columns, table.names))
            for name, table in tables.nodes.items()
        },
        edges={
            relation: TableSpec(count=table.num_edges, columns=specs_of(table.columns, {}))
            for relation, table in tables.edges.items()
        },
    )
    book = Book(
        nodes={name: numbering.bounds for name, numbering in nodes.items()},
        edges={relation: numbering.bounds for relation, numbering in edges.items()},
        edge_dir=edge_dir,
    )
    return Build(schema=schema, book=book, parts=_parts(tables, nodes, edges, halo, book, block))


def _parts(
    tables: GraphTables,
    nodes: dict[NodeType, NodeNumbers],
    edges: dict[Relation, EdgeNumbers],
    halo: Sequence[str],
    book: Book,
    block: Assignment | None,
) -> Iterator[Part]:
    sparse = {name: _sparse(table) for name, table in tables.nodes.items()}
    for index in range(book.num_parts):
        yield _part(tables, nodes, edges, sparse, halo, book, block, index)


def _part(
    tables: GraphTables,
    nodes: dict[NodeType, NodeNumbers],
    edges: dict[Relation, EdgeNumbers],
    sparse: dict[NodeType, dict[str, ops.SparseRows]],
    halo: Sequence[str],
    book: Book,
    block: Assignment | None,
    index: int,
) -> Part:
    return Part(
        nodes={
            name: _node_part(table, nodes[name], sparse[name], None if block is None else block[name], index)
            for name, table in tables.nodes.items()
        },
        edges={relation: _edge_part(tables, relation, edges[relation], nodes, halo, book, index) for relation in tables.edges},
    )


def _node_part(
    table: NodeTable, numbering: NodeNumbers, sparse: dict[str, ops.SparseRows], block: Tensor | None, index: int
) -> NodePart:
    low, high = numbering.bounds[index : index + 2]
    return NodePart(
        num_nodes=high - low,
        raw_id=None if numbering.raw is None else numbering.raw[low:high],
        columns={name: _rows(column, numbering.row, low, high) for name, column in table.columns.items() if is_dense(column)},
        sparse={name: _sparse_rows(rows, numbering.row, low, high) for name, rows in sparse.items()},
        block=None if block is None else _rows(block, numbering.row, low, high),
    )


def _edge_part(
    tables: GraphTables,
    relation: Relation,
    numbering: EdgeNumbers,
    nodes: dict[NodeType, NodeNumbers],
    halo: Sequence[str],
    book: Book,
    index: int,
) -> EdgePart:
    table, near, listed = tables.edges[relation], book.neighbor_type(relation), book.list_type(relation)
    low, high = numbering.bounds[index : index + 2]
    first, last = nodes[listed].bounds[index : index + 2]
    neighbor_row = _rows(table.ends[1 - book.list_end], numbering.row, low, high)
    columns = {name: _rows(column, numbering.row, low, high) for name, column in table.columns.items()}
    wanted = [name for name in dict.fromkeys(halo) if name not in columns]
    return edge_part(
        indptr=numbering.indptr[first : last + 1] - low,
        src_gid=translated(neighbor_row, nodes[near].gid),
        num_sources=nodes[near].bounds[-1],
        edge_id=None if numbering.row is None else numbering.row[low:high],
        columns=columns,
        halo=_borrowed(tables.nodes[near], nodes[near], wanted, neighbor_row),
    )


def _borrowed(sources: NodeTable, numbering: NodeNumbers, halo: Sequence[str], src_row: Tensor) -> dict[str, Tensor]:
    """The columns named by `halo`, of the given rows; those that the type has."""
    borrowed = {name: ops.gather_rows(sources.columns[name], src_row) for name in halo if name in sources.columns}
    if SOURCE_ID in halo and numbering.raw is not None:
        raw = src_row if sources.raw_id is None else ops.gather_rows(sources.raw_id, src_row)
        borrowed[SOURCE_ID] = source_ids(raw, torch.aminmax(numbering.raw))  # of all partitions, which must agree
    return borrowed


def _check_halo(tables: GraphTables, halo: Sequence[str]) -> None:
    check_halo(halo, [specs_of(table.columns, {}) for table in tables.nodes.values()])


def _rows(column: Tensor, row: Tensor | None, low: int, high: int) -> Tensor:
    """The rows of a table's column that belong to the gids from `low` to `high`."""
    return column.detach()[low:high] if row is None else ops.gather_rows(column, row[low:high])


def _sparse(table: NodeTable) -> dict[str, ops.SparseRows]:
    return {name: ops.SparseRows.of(column) for name, column in table.columns.items() if not is_dense(column)}


def _sparse_rows(rows: ops.SparseRows, row: Tensor | None, low: int, high: int) -> ops.SparseRows:
    """The same of a sparse column."""
    wanted = torch.arange(low, high) if row is None else row[low:high]
    taken = ops.SparsePieces([rows], [0, len(rows)]).take(wanted)
    return replace(taken, indptr=taken.indptr.long())
