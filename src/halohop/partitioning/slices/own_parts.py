"""From a slice of a graph to a partition: the same arrays that dividing the whole graph would make."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from halohop import ops
from halohop.errors import IdError, InputError
from halohop.partitioning.building.numbering import NodeNumbers, id_dtype, translated
from halohop.partitioning.building.parts import edge_part, source_dtype
from halohop.partitioning.slices.owners import Owners
from halohop.partitioning.slices.slices import EdgeSlice, MemoryPartition, NodeSlice
from halohop.store.part import EdgePart, NodePart, Part
from halohop.store.tables import check_columns, is_dense
from halohop.typing import SOURCE_ID, NodeType, Relation, relation_text


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnBook:
    """Who owns what, as one partition was given it.

    Args:
        nodes: per node type.
        edges: per relation; None where it was not given.
    """

    nodes: dict[NodeType, Owners]
    edges: dict[Relation, Owners | None]

    @classmethod
    def of(cls, given: MemoryPartition) -> "OwnBook":
        """
        Raises:
            InputError: an owner book that is none.
        """
        edges = {
            relation: None if own.owner is None else Owners.of(own.owner, given.num_parts, f"{relation_text(relation)} edge")
            for relation, own in given.edges.items()
        }
        nodes = {name: Owners.of(own.owner, given.num_parts, f"{name} node") for name, own in given.nodes.items()}
        return cls(nodes=nodes, edges=edges)


def own_part(given: MemoryPartition, book: OwnBook, numbers: dict[NodeType, NodeNumbers] | None = None) -> Part:
    """The partition as it is stored. Where rows are in order already, its columns are views of those given.

    The ids of edges are int64: how many there are is not known before the partitions have met (`with_edge_ids`).

    Args:
        given: what the user gave.
        book: the owners.
        numbers: of all nodes, where they are known already.

    Raises:
        InputError: rows or edges that another partition owns, rows that are missing, or ids that occur twice.
        IdError: an edge from or to a node that has no owner.
    """
    numbers = numbers or {name: owners.numbers() for name, owners in book.nodes.items()}
    return Part(
        nodes={name: _node_part(own, name, book.nodes[name], numbers[name], given.part) for name, own in given.nodes.items()},
        edges={
            relation: _edge_part(own, relation, numbers, book.edges[relation], given) for relation, own in given.edges.items()
        },
    )


def with_edge_ids(part: Part, bounds: dict[Relation, tuple[int, ...]]) -> Part:
    """The partition with the ids of its edges as they are stored; `bounds` are the gids of all partitions' edges."""
    edges = {}
    for relation, own in part.edges.items():
        ends = bounds[relation]
        edges[relation] = own if own.edge_id is None else replace(own, edge_id=own.edge_id.to(id_dtype(ends[-1])))
    return replace(part, edges=edges)


def _node_part(own: NodeSlice, name: NodeType, owners: Owners, numbers: NodeNumbers, part: int) -> NodePart:
    low, high = owners.bounds[part : part + 2]
    expected = torch.arange(low, high) if numbers.raw is None else numbers.raw[low:high]
    order = None if own.id is None else _order(own.id.long(), expected, owners, name, part)
    check_columns(own.columns, high - low, f"nodes of {name!r} in partition {part}")
    dense = {key: column.detach() for key, column in own.columns.items() if is_dense(column)}
    sparse = {key: ops.SparseRows.of(column) for key, column in own.columns.items() if not is_dense(column)}
    return NodePart(
        num_nodes=high - low,
        raw_id=None if numbers.raw is None else expected,
        columns={key: column if order is None else ops.gather_rows(column, order) for key, column in dense.items()},
        sparse={key: _sparse_rows(rows, order) for key, rows in sparse.items()},
    )


def _order(ids: Tensor, expected: Tensor, owners: Owners, name: NodeType, part: int) -> Tensor | None:
    """The row of every node of the partition; None where rows are in order."""
    if torch.equal(ids, expected):
        return None
    ordered, order = ids.sort(stable=True)
    twice = (ordered.diff() == 0).nonzero().view(-1)
    if len(twice):
        raise InputError(f"node {int(ordered[twice[0]])} of {name!r} is given twice; give each node one row")
    _check_owners(ids, owners, part, "node", repr(name))
    missing = expected[~torch.isin(expected, ids)]
    if len(missing):
        raise InputError(
            f"partition {part} owns node {int(missing[0])} of {name!r}, but has no row of it; give the rows of all nodes that it "
            "owns"
        )
    return order


def _sparse_rows(rows: ops.SparseRows, order: Tensor | None) -> ops.SparseRows:
    if order is not None:
        rows = ops.SparsePieces([rows], [0, len(rows)]).take(order)
    values = rows.values.expand(len(rows.indices)).contiguous()  # what one partition has everywhere, another may not
    return replace(rows, indptr=rows.indptr.long(), values=values)


def _edge_part(
    own: EdgeSlice, relation: Relation, numbers: dict[NodeType, NodeNumbers], owners: Owners | None, given: MemoryPartition
) -> EdgePart:
    part, end = given.part, 1 if given.edge_dir == "in" else 0
    near, listed = numbers[relation[2 - 2 * end]], numbers[relation[2 * end]]
    neighbor_gid, gid = (_gids(own.edge_index[row], table, relation) for row, table in ((1 - end, near), (end, listed)))
    low, high = listed.bounds[part : part + 2]
    _check_owned(own.edge_index[end], relation, gid, listed.bounds, given)
    if owners is not None:
        _check_book(own, relation, owners, part)
    by_id = None if own.edge_id is None else _by_id(own.edge_id.long(), relation)
    indptr, order = ops.build_csc((gid if by_id is None else gid[by_id]) - low, high - low)
    order = order if by_id is None else by_id[order]
    row = None if torch.equal(order, torch.arange(len(order))) else order
    columns = {name: _rows(column, row) for name, column in own.columns.items()}
    halo = {name: _rows(column, row) for name, column in own.halo.items() if name not in own.columns}
    if SOURCE_ID in halo and near.raw is None:
        del halo[SOURCE_ID]
    elif SOURCE_ID in halo:
        halo[SOURCE_ID] = halo[SOURCE_ID].to(source_dtype((0, near.bounds[-1] - 1)))
    return edge_part(
        indptr=indptr,
        src_gid=_rows(neighbor_gid, row),
        num_sources=near.bounds[-1],
        edge_id=None if own.edge_id is None else _rows(own.edge_id.long(), row),
        columns=columns,
        halo=halo,
    )


def _gids(ends: Tensor, numbers: NodeNumbers, relation: Relation) -> Tensor:
    count = numbers.bounds[-1]
    unknown = ((ends < 0) | (ends >= count)).nonzero().view(-1)
    if len(unknown):
        raise IdError(
            f"edge {int(unknown[0])} of {relation_text(relation)} names node {int(ends[unknown[0]])}, which has no owner: the "
            f"owner book has {count} nodes; give an owner for every node"
        )
    return translated(ends.long(), numbers.gid)


def _check_owned(raw: Tensor, relation: Relation, gid: Tensor, bounds: tuple[int, ...], given: MemoryPartition) -> None:
    part = given.part
    foreign = ((gid < bounds[part]) | (gid >= bounds[part + 1])).nonzero().view(-1)
    if len(foreign):
        first = foreign[0]
        owner = int(torch.searchsorted(torch.tensor(bounds[1:]), gid[first], right=True))
        leads, end, other = ("leads to", "destination", "out") if given.edge_dir == "in" else ("comes from", "source", "in")
        raise InputError(
            f"edge {int(first)} of {relation_text(relation)} in partition {part} {leads} node {int(raw[first])}, which "
            f"partition {owner} owns; give every edge to the owner of its {end}, or make the partitions with edge_dir={other!r}"
        )


def _by_id(ids: Tensor, relation: Relation) -> Tensor | None:
    """The edges in the order of their ids; None where they are in order."""
    ordered, order = ids.sort(stable=True)
    twice = (ordered.diff() == 0).nonzero().view(-1)
    if len(twice):
        raise InputError(f"edge id {int(ordered[twice[0]])} of {relation_text(relation)} is given twice; number every edge")
    if len(ids) and int(ordered[0]) < 0:
        raise InputError(f"edge id {int(ordered[0])} of {relation_text(relation)} is below 0; number edges from 0 on")
    return None if torch.equal(ordered, ids) else order


def _check_book(own: EdgeSlice, relation: Relation, owners: Owners, part: int) -> None:
    text = relation_text(relation)
    owned, given = owners.bounds[part + 1] - owners.bounds[part], own.edge_index.size(1)
    if owned != given:
        raise InputError(f"partition {part} owns {owned} edges of {text}, but has {given}; give all edges that it owns")
    if own.edge_id is None and owners.dense is not None:
        raise InputError(f"edges of {text} have owners, but no ids by which to look these up; give edge_id")
    if own.edge_id is not None:
        _check_owners(own.edge_id.long(), owners, part, "edge", text)


def _check_owners(ids: Tensor, owners: Owners, part: int, kind: str, table: str) -> None:
    """Whether the partition owns all of these nodes or edges; `kind` is "node" or "edge"."""
    outside = ((ids < 0) | (ids >= owners.count)).nonzero().view(-1)
    if len(outside):
        raise InputError(
            f"{kind} {int(ids[outside[0]])} of {table} has no owner: the owner book has {owners.count} {kind}s; give an owner "
            "for every id"
        )
    foreign = (owners.of_ids(ids) != part).nonzero().view(-1)
    if len(foreign):
        first = ids[foreign[:1]]
        raise InputError(
            f"{kind} {int(first)} of {table} is given to partition {part}, but its owner is partition "
            f"{int(owners.of_ids(first))}; give each {kind} to its owner"
        )


def _rows(column: Tensor, row: Tensor | None) -> Tensor:
    return column.detach() if row is None else ops.gather_rows(column.detach(), row)
