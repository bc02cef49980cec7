"""The edges of a relation as columns: what orders them, what is stored of them, and what is looked up for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from halohop import ops
from halohop.partitioning.book import list_end_of
from halohop.partitioning.building.columns import Column, Given, LookedUp, Numbers, given, resident
from halohop.partitioning.building.numbering import NodeOrder, id_dtype
from halohop.partitioning.building.parts import source_dtype
from halohop.store.part import EdgePart
from halohop.store.tables import GraphTables
from halohop.typing import SOURCE_ID, EdgeDir, NodeType, Relation


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeColumns:
    """The edges of a relation, in the order of their table.

    Args:
        num_edges: how many.
        bounds: gids of the nodes that have lists, by partition.
        key: gid of the node in whose list each edge is.
        indices: gid of the node at the other end.
        edge_id: number of the edge.
        columns, halo: as of `EdgePart`.
    """

    num_edges: int
    bounds: tuple[int, ...]
    key: Column
    indices: Column
    edge_id: Column
    columns: dict[str, Column]
    halo: dict[str, Column]

    @property
    def times(self) -> frozenset[str]:
        """Names of columns that may hold times."""
        return frozenset(
            name
            for name, column in {**self.columns, **self.halo}.items()
            if name != SOURCE_ID and not column.shape and column.dtype in ops.TIME_DTYPES
        )


class EdgeReader:
    """Makes the columns of relations; holds in memory what they look up.

    Args:
        tables: the graph.
        orders: how its nodes are renumbered.
        halo: columns of nodes that edges keep of the nodes at their other ends, see
            `halohop.partitioning.building.build.build_parts`.
        edge_dir: which edges the lists of nodes hold.
    """

    def __init__(self, tables: GraphTables, orders: Mapping[NodeType, NodeOrder], halo: Sequence[str], edge_dir: EdgeDir) -> None:
        self._tables, self._orders, self._halo, self._end = tables, orders, halo, list_end_of(edge_dir)
        self._resident: dict[tuple[NodeType, str], Tensor] = {}

    def columns(self, relation: Relation) -> EdgeColumns:
        """Of one relation."""
        table, end = self._tables.edges[relation], self._end
        listed, near = relation[2 * end], relation[2 - 2 * end]
        rows = Given.of(table.ends[1 - end])
        columns = given(table.columns, table.stored)
        return EdgeColumns(
            num_edges=table.num_edges,
            bounds=self._orders[listed].bounds,
            key=self._gids(Given.of(table.ends[end]), listed),
            indices=self._gids(rows, near),
            edge_id=Numbers(dtype=id_dtype(table.num_edges)),
            columns=columns,
            halo={name: column for name, column in self._halo_columns(rows, near).items() if name not in columns},
        )

    def _gids(self, rows: Column, node_type: NodeType) -> Column:
        order = self._orders[node_type]
        return LookedUp(places=rows, table=order.gid, dtype=id_dtype(order.bounds[-1]))

    def _halo_columns(self, rows: Column, near: NodeType) -> dict[str, Column]:
        """The columns named by `halo` that the type has, and raw ids where these are not gids."""
        nodes, ends = self._tables.nodes[near], self._orders[near].raw_ends
        found: dict[str, Column] = {
            name: LookedUp(places=rows, table=self._in_memory(near, name, nodes.columns[name]), dtype=nodes.columns[name].dtype)
            for name in dict.fromkeys(self._halo)
            if name in nodes.columns
        }
        if SOURCE_ID in self._halo and ends is not None:
            raw = None if nodes.raw_id is None else self._in_memory(near, SOURCE_ID, nodes.raw_id)
            found[SOURCE_ID] = LookedUp(places=rows, table=raw, dtype=source_dtype(ends))
        return found

    def _in_memory(self, node_type: NodeType, name: str, column: Tensor) -> Tensor:
        if (node_type, name) not in self._resident:
            self._resident[node_type, name] = resident(column)
        return self._resident[node_type, name]


class EdgeParts:
    """The edges of a relation, partition by partition.

    Args:
        own: of all partitions.
    """

    def __init__(self, own: EdgeColumns) -> None:
        self._own = own
        self._lists = list_order(own.key.rows(0, own.num_edges)(0, own.num_edges, None), 0, own.bounds[-1])
        self.bounds = tuple(self._lists.indptr[list(own.bounds)].tolist())

    def part(self, index: int) -> EdgePart:
        """Those of a partition. Where they are in the order of the table, columns are views of its columns."""
        own, order = self._own, self._lists.order
        low, high = self.bounds[index : index + 2]
        first, last = own.bounds[index : index + 2]
        indptr = self._lists.indptr[first : last + 1] - low

        def rows(column: Column) -> Tensor:
            return column.rows(0, own.num_edges)(low, high, order)

        columns = {name: rows(column) for name, column in own.columns.items()}
        halo = {name: rows(column) for name, column in own.halo.items()}
        return EdgePart(
            indptr=indptr,
            indices=rows(own.indices),
            edge_id=None if order is None else rows(own.edge_id),
            columns=columns,
            halo=halo,
            ascending=frozenset(name for name in own.times if ops.never_falls(indptr, (columns | halo)[name])),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOrder:
    """How some edges are ordered: those of node after node, for each in the order of the table.

    Args:
        indptr: where the list of each of the nodes begins, int64 ``[num_nodes + 1]``.
        order: which of the edges each place has, int32 or int64; None where they are in order already.
    """

    indptr: Tensor
    order: Tensor | None


def list_order(keys: Tensor, low: int, high: int) -> ListOrder:
    """Orders edges in the lists of the gids from `low` to ``high - 1``; `keys` are these gids, int32 or int64 ``[num_edges]``."""
    local = keys - low if low else keys
    if bool((local[1:] >= local[:-1]).all()):
        return ListOrder(indptr=ops.count_lists(local, high - low), order=None)
    indptr, order = ops.build_csc(local, high - low, dtype=id_dtype(len(keys)))
    return ListOrder(indptr=indptr, order=order)
