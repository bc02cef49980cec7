"""From tables and an assignment to partitions: renumbering, CSC, and the folder on disk."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from halohop.errors import InputError
from halohop.partitioning.assigners.assign import Classes, Method, assign, chosen, classes_of
from halohop.partitioning.assigners.defaults import TOLERANCE
from halohop.partitioning.assigners.division import Assignment, Division
from halohop.partitioning.assigners.given import identity
from halohop.partitioning.book import Book, check_edge_dir
from halohop.partitioning.building.dataset import BuildRequest, build
from halohop.partitioning.building.edges import EdgeParts, EdgeReader
from halohop.partitioning.building.nodes import NodeParts, node_columns
from halohop.partitioning.building.numbering import number_nodes
from halohop.partitioning.building.parts import check_halo
from halohop.partitioning.building.report import Report
from halohop.partitioning.planning.budget import Budget
from halohop.store.part import Part
from halohop.store.schema import Schema, specs_of
from halohop.store.tables import GraphTables, schema_of
from halohop.store.weight_sums import weight_columns
from halohop.typing import EdgeDir, NodeType, OnProgress, Relation


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
    balance_types: bool = False,
    balance_classes: Classes | None = None,
    halo: Sequence[str] = (),
    edge_dir: EdgeDir = "in",
    weight_sums: Sequence[str] = (),
    overwrite: bool = False,
    memory: str | int | None = None,
    worker: bool = False,
    progress: OnProgress | None = None,
) -> Report:
    """Divides a graph and writes it to a folder, which `halohop.open` reads.

    A graph that does not fit into memory is divided step by step, with files in ``OUT.build`` beside the new folder. If it is
    killed there, the same call goes on where it was.

    Args:
        tables: the graph; columns may be mapped over files.
        out: the new folder; it appears when it is complete.
        num_parts: how many partitions, at most as many as there are nodes, unless `method` is an assignment.
        method, seed, tolerance, blocks, balance_types, balance_classes: see `halohop.partitioning.assigners.assign.assign`.
        halo, edge_dir: see `build_parts`.
        weight_sums: columns of edges, weights, whose running sums are stored, see `halohop.store.weight_sums`.
        overwrite: whether to replace a halohop data set in `out`; anything else there is never touched.
        memory: what this process may take, beside the columns that are in its memory: bytes, or a size such as "4GB"; None is
            half of what is available.
        worker: share the work with all processes that are started with the same arguments, here or on other hosts. One that
            comes when `out` is there has nothing left to do.
        progress: called with (stage, done, total).

    Returns:
        Cut and balance; the data set keeps them too.

    Raises:
        InputError: `out` is there already, `memory` is too little, an impossible weight, or see `assign` and `build_parts`.
        SchemaError: there is no such column of weights.
        WriteError: a file cannot be written, as on a full disk; names it.

    Example:
        >>> import torch
        >>> from halohop.store.tables import EdgeTable, NodeTable
        >>> ring = EdgeTable(src=torch.arange(8), dst=torch.arange(1, 9) % 8)
        >>> tables = GraphTables(nodes={"node": NodeTable(num_nodes=8)}, edges={("node", "to", "node"): ring})
        >>> report = partition(tables, "ring", num_parts=2, method=torch.arange(8) // 4)
        >>> report.cut, [part.halo for part in report.parts]
        (0.25, [1, 1])
    """
    _check_halo(tables, halo)
    check_edge_dir(edge_dir)
    method = chosen(method, tables, memory) if isinstance(method, str) else method
    by = repr(method) if isinstance(method, str) or callable(method) else identity(method)
    classes_of(balance_classes, tables, method)
    request = BuildRequest(
        num_parts=num_parts,
        halo=tuple(halo),
        edge_dir=edge_dir,
        overwrite=overwrite,
        memory=memory,
        worker=worker,
        weight_sums=weight_columns(schema_of(tables).edge_columns, weight_sums),
        partitioned={"method": method if isinstance(method, str) else "given", "seed": seed},
        divided={"tolerance": tolerance, "blocks": blocks, "balance_types": balance_types, "method": by}
        | ({} if balance_classes is None else {"balance_classes": identity(balance_classes)}),
    )
    listed = tables if edge_dir == "in" else tables.turned()

    def divide(budget: Budget, scratch: Path) -> Division:
        balance = {"balance_types": balance_types, "balance_classes": balance_classes}
        options: dict[str, Any] = {"tolerance": tolerance, "num_blocks": blocks, **balance}
        return assign(listed, num_parts, method, seed=seed, **options, memory=budget, scratch=scratch)

    return build(tables, out, request, divide, progress or _no_progress)


def check_num_parts(tables: GraphTables, num_parts: int, method: Method) -> None:
    """Refuses partitions that would be empty, unless the user says which node is where.

    Raises:
        InputError: there are more partitions than nodes.
    """
    if not isinstance(method, str):
        return
    num_nodes = sum(table.num_nodes for table in tables.nodes.values())
    if num_parts > max(num_nodes, 1):
        raise InputError(f"num_parts={num_parts}, but the graph has {num_nodes} nodes; give at most {max(num_nodes, 1)}")


def _no_progress(stage: str, done: int, total: int) -> None: ...


def build_parts(
    tables: GraphTables,
    assignment: Assignment,
    num_parts: int,
    *,
    halo: Sequence[str] = (),
    edge_dir: EdgeDir = "in",
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
    orders = {name: number_nodes(table, assignment[name], num_parts) for name, table in tables.nodes.items()}
    reader = EdgeReader(tables, orders, halo, edge_dir)
    edges = {relation: EdgeParts(reader.columns(relation)) for relation in tables.edges}
    nodes = {name: NodeParts(node_columns(table, orders[name], None)) for name, table in tables.nodes.items()}
    book = Book(
        nodes={name: order.bounds for name, order in orders.items()},
        edges={relation: own.bounds for relation, own in edges.items()},
        edge_dir=edge_dir,
    )
    return Build(schema=schema_of(tables), book=book, parts=(_part(nodes, edges, book, index) for index in range(num_parts)))


def _part(nodes: dict[NodeType, NodeParts], edges: dict[Relation, EdgeParts], book: Book, index: int) -> Part:
    return Part(
        nodes={name: own.part(*book.bounds(name)[index : index + 2]) for name, own in nodes.items()},
        edges={relation: own.part(index) for relation, own in edges.items()},
    )


def _check_halo(tables: GraphTables, halo: Sequence[str]) -> None:
    check_halo(halo, [specs_of(table.columns, {}) for table in tables.nodes.values()])
