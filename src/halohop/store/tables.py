"""A whole graph as the user gave it: node tables and edge tables, in the user's order, in memory.

Every source (PyG objects, npz, RDF, CSV, Parquet, OGB, synthetic) becomes a `GraphTables`; partitioning and the in-memory
graph both start from one. Nothing is renumbered yet: edges refer to rows of the node tables.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from halohop.errors import IdError, InputError, SchemaError
from halohop.ops import Narrow
from halohop.store.ordering import ascending_rows, ascends, ends_of
from halohop.store.schema import Schema, TableSpec, specs_of
from halohop.typing import RAW_TEXT, RESERVED, NodeType, Relation, relation_text

_INTEGERS = (torch.int64, torch.int32)
_CHECK_BYTES = 256 << 20  # that checks of a column may take: it may be mapped over a file, and larger than memory


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTable:
    """All nodes of one type.

    Args:
        num_nodes: how many.
        columns: per-node tensors ``[num_nodes, ...]`` of any dtype: features, labels ``y``, masks ``<split>_mask`` (bool). A
            matrix in torch's sparse layouts (COO, CSR) is stored sparse, too.
        raw_id: the user's ids, int64 ``[num_nodes]``, all different; None means 0, 1, 2, ...
        names: by column, of its values 0, 1, 2, ... where the user's were strings.
        stored: by column, how its numbers are to be stored in fewer bytes than they have
            (`halohop.partitioning.building.narrowing`).

    Raises:
        InputError: a column's first dimension is not num_nodes; raw ids of the wrong shape or dtype, or not unique.
    """

    num_nodes: int
    columns: dict[str, Tensor] = field(default_factory=dict)
    raw_id: Tensor | None = None
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    stored: dict[str, Narrow] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.num_nodes < 0:
            raise InputError(f"num_nodes={self.num_nodes} is negative")
        check_columns(self.columns, self.num_nodes, "nodes")
        if self.raw_id is not None:
            check_ids(self.raw_id, self.num_nodes, "raw_id")
            twice = _first_twice(self.raw_id)
            if twice is not None:
                raise InputError(f"raw_id holds the id {twice} twice; every node needs an id of its own")


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeTable:
    """All edges of one relation.

    Args:
        src, dst: rows in the node tables of the relation's end types, int64 or int32 ``[num_edges]``.
        columns: per-edge tensors ``[num_edges, ...]`` of any dtype: features, weights, timestamps.
        stored: as of `NodeTable`.

    The edge id that users see (``e_id``) is the position in this table.
    """

    src: Tensor
    dst: Tensor
    columns: dict[str, Tensor] = field(default_factory=dict)
    stored: dict[str, Narrow] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_ids(self.src, len(self.dst), "src")
        check_ids(self.dst, len(self.src), "dst")
        check_columns(self.columns, self.num_edges, "edges")

    @property
    def num_edges(self) -> int:
        return len(self.src)

    @property
    def ends(self) -> tuple[Tensor, Tensor]:
        """Sources and destinations."""
        return self.src, self.dst


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphTables:
    """A graph in the user's order: a table per node type and a table per relation.

    Raises:
        SchemaError: a relation names a node type that has no table, or a name that cannot be a file name.
        IdError: an edge points outside its node table.

    Example:
        >>> ring = GraphTables(
        ...     nodes={"node": NodeTable(num_nodes=3)},
        ...     edges={("node", "to", "node"): EdgeTable(src=torch.tensor([0, 1, 2]), dst=torch.tensor([1, 2, 0]))},
        ... )
        >>> ring.edges["node", "to", "node"].num_edges
        3
    """

    nodes: dict[NodeType, NodeTable]
    edges: dict[Relation, EdgeTable]

    def __post_init__(self) -> None:
        for relation, table in self.edges.items():
            check_relation(relation, self.nodes)
            for node_type, rows, end in ((relation[0], table.src, "src"), (relation[2], table.dst, "dst")):
                _check_rows(rows, self.nodes[node_type].num_nodes, f"{end} of {relation_text(relation)}")
        check_names(self.nodes, self.edges)

    def turned(self) -> "GraphTables":
        """The same graph with every edge the other way round, its relation's types too; nothing is copied.

        Example:
            >>> nodes = {name: NodeTable(num_nodes=1) for name in "ab"}
            >>> one = EdgeTable(src=torch.tensor([0]), dst=torch.tensor([0]))
            >>> list(GraphTables(nodes=nodes, edges={("a", "to", "b"): one}).turned().edges)
            [('b', 'to', 'a')]
        """
        edges = {(dst, name, src): replace(table, src=table.dst, dst=table.src) for (src, name, dst), table in self.edges.items()}
        return replace(self, edges=edges)


def is_dense(column: Tensor) -> bool:
    """Whether all entries of a column are stored, and not only those that are not zero."""
    return column.layout == torch.strided


def check_relation(relation: Relation, node_types: Collection[NodeType]) -> None:
    """
    Raises:
        SchemaError: it has not three parts, or joins types that are none of `node_types`.
    """
    if len(relation) != 3:
        raise SchemaError(f"relation {relation!r} must be (source type, name, destination type)")
    for node_type in relation[::2]:
        if node_type not in node_types:
            raise SchemaError(f"relation {relation!r} uses node type {node_type!r}; known: {sorted(node_types)}")


def check_names(node_types: Iterable[NodeType], relations: Iterable[Relation]) -> None:
    """
    Raises:
        SchemaError: a name that cannot be part of a file's.
    """
    for name in (*node_types, *(part for relation in relations for part in relation)):
        if not name or "/" in name or "\0" in name or "__" in name or name in (".", ".."):
            raise SchemaError(f"{name!r} cannot name a node type or relation: no '/', no '__', not empty")


def check_edge_index(edge_index: Tensor) -> None:
    """
    Raises:
        InputError: it is no tensor of integers ``[2, num_edges]``.
    """
    _check_tensor(edge_index, "edge_index")
    if edge_index.dim() != 2 or edge_index.size(0) != 2:
        raise InputError(f"edge_index has shape {tuple(edge_index.shape)}, expected [2, num_edges]")
    check_ids(edge_index[0], edge_index.size(1), "edge_index")


def check_ids(ids: Tensor, length: int | None, name: str) -> None:
    """
    Raises:
        InputError: they are no integers, or not so many (None: as many as there are).
    """
    _check_tensor(ids, name)
    if ids.dim() != 1 or ids.dtype not in _INTEGERS:
        raise InputError(f"{name} must be one-dimensional int64 or int32, got {ids.dtype} of shape {tuple(ids.shape)}")
    if length is not None and len(ids) != length:
        raise InputError(f"{name} has {len(ids)} entries, expected {length}")


def _check_rows(rows: Tensor, num_rows: int, name: str) -> None:
    if len(rows) == 0:
        return
    low, high = ends_of(rows, _CHECK_BYTES)
    if low < 0 or high >= num_rows:
        raise IdError(f"{name} holds {low if low < 0 else high}, but ids go from 0 to {num_rows - 1}")


def _first_twice(ids: Tensor) -> int | None:
    """An id that occurs twice."""
    if ascends(ids, _CHECK_BYTES):
        return None
    for rows in ascending_rows(ids, _CHECK_BYTES):
        ordered = ids[rows]
        again = (ordered[1:] == ordered[:-1]).nonzero().view(-1)
        if len(again):
            return int(ordered[again[0]])
    return None


def check_columns(columns: Mapping[str, Tensor], num_rows: int, what: str) -> None:
    """
    Raises:
        InputError: a column that has not so many rows, or that cannot be stored; `what` is "nodes" or "edges".
        SchemaError: a name that no column may have.
    """
    for name, column in columns.items():
        _check_tensor(column, f"column {name!r}")
        if not name or (name.startswith(RESERVED) and name != RAW_TEXT):
            raise SchemaError(f"{name!r} cannot name a column: a name is not empty, and does not begin with {RESERVED!r}")
        if not is_dense(column) and (what == "edges" or column.dim() != 2):
            where = "of edges" if what == "edges" else f"of shape {tuple(column.shape)}"
            raise InputError(f"column {name!r} {where} is {column.layout}; only matrices of nodes are stored so: use .to_dense()")
        if column.dim() == 0 or len(column) != num_rows:
            raise InputError(f"column {name!r} has shape {tuple(column.shape)}, but there are {num_rows} {what}")


def _check_tensor(value: object, what: str) -> None:
    if not isinstance(value, Tensor):
        raise InputError(f"{what} is a {type(value).__name__}; give a tensor: torch.as_tensor(...)")


def schema_of(tables: GraphTables) -> Schema:
    """What a graph is made of."""
    return Schema(
        nodes={
            name: TableSpec(count=table.num_nodes, columns=specs_of(table.columns, table.names, table.stored))
            for name, table in tables.nodes.items()
        },
        edges={
            relation: TableSpec(count=table.num_edges, columns=specs_of(table.columns, {}, table.stored))
            for relation, table in tables.edges.items()
        },
    )
