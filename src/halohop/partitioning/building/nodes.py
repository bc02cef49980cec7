"""The nodes of a type as columns: what is stored of them, and the part of it that a partition owns."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from halohop import ops
from halohop.partitioning.building.columns import Column, Given, LookedUp, Numbers, given
from halohop.partitioning.building.numbering import NodeOrder
from halohop.store.part import NodePart
from halohop.store.tables import NodeTable, is_dense


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeColumns:
    """The nodes of a type, in the order of their table.

    Args:
        num_nodes: how many.
        order: how they are renumbered.
        raw_id, block, columns: as of `NodePart`.
        sparse: columns of which only entries that are not zero are stored, in torch's sparse layouts.
    """

    num_nodes: int
    order: NodeOrder
    raw_id: Column | None
    block: Column | None
    columns: dict[str, Column]
    sparse: dict[str, Tensor]


def node_columns(table: NodeTable, order: NodeOrder, block: Tensor | None) -> NodeColumns:
    """The columns of a table; `block` is the block of every row, if there are blocks."""
    raw = Numbers(dtype=torch.int64) if table.raw_id is None else Given.of(table.raw_id)
    return NodeColumns(
        num_nodes=table.num_nodes,
        order=order,
        raw_id=None if order.raw_ends is None else LookedUp(places=raw, table=None, dtype=torch.int64),
        block=None if block is None else Given(tensor=block),
        columns=given({name: column for name, column in table.columns.items() if is_dense(column)}, table.stored),
        sparse={name: column for name, column in table.columns.items() if not is_dense(column)},
    )


class NodeParts:
    """The nodes of a type, partition by partition.

    Args:
        own: of all partitions.
    """

    def __init__(self, own: NodeColumns) -> None:
        self._own, self._row = own, own.order.rows()
        self._sparse = {name: ops.SparseRows.of(column) for name, column in own.sparse.items()}

    def part(self, low: int, high: int) -> NodePart:
        """Those with the gids from `low` to ``high - 1``; views of the table's columns where they are in its order."""

        def rows(column: Column) -> Tensor:
            return column.rows(0, self._own.num_nodes)(low, high, self._row)

        return NodePart(
            num_nodes=high - low,
            raw_id=None if self._own.raw_id is None else rows(self._own.raw_id),
            columns={name: rows(column) for name, column in self._own.columns.items()},
            sparse={name: self.sparse(name, low, high) for name in self._own.sparse},
            block=None if self._own.block is None else rows(self._own.block),
        )

    def sparse(self, name: str, low: int, high: int) -> ops.SparseRows:
        """The same of a sparse column."""
        rows = self._sparse[name]
        wanted = torch.arange(low, high) if self._row is None else self._row[low:high]
        taken = ops.SparsePieces([rows], [0, len(rows)]).take(wanted)
        return replace(taken, indptr=taken.indptr.long())
