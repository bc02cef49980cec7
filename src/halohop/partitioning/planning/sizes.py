"""How large the tables of a graph are: what an estimate needs, without a single row."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from halohop.store.tables import GraphTables, NodeTable, is_dense
from halohop.typing import NodeType, Relation


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSizes:
    """One node table or edge table.

    Args:
        rows: how many.
        columns: bytes of a row, by column.
        own_ids: of nodes: whether they have ids other than 0, 1, 2, ...
    """

    rows: int
    columns: dict[str, float] = field(default_factory=dict)
    own_ids: bool = False

    @property
    def row_bytes(self) -> float:
        """Bytes of a row, all columns together."""
        return sum(self.columns.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSizes:
    """A graph.

    Args:
        nodes, edges: its tables.
        read_bytes: of files that are read chunk by chunk and written once more before the graph can be divided, such as CSV; 0
            where the graph's own files are mapped, or it is in memory.
        decode_seconds: how long decoding these files takes, such as parsing text; 0 where that is nothing beside writing.
        guessed: what was estimated, as a sentence each; the rest is exact.

    Example:
        >>> papers = GraphSizes(
        ...     nodes={"node": TableSizes(rows=111_059_956, columns={"x": 512})},
        ...     edges={("node", "to", "node"): TableSizes(rows=1_615_685_872)},
        ... )
        >>> papers.num_edges, papers.table_bytes
        (1615685872, 82713671424)
    """

    nodes: dict[NodeType, TableSizes]
    edges: dict[Relation, TableSizes]
    read_bytes: int = 0
    decode_seconds: float = 0.0
    guessed: tuple[str, ...] = ()

    @property
    def num_nodes(self) -> int:
        return sum(table.rows for table in self.nodes.values())

    @property
    def num_edges(self) -> int:
        return sum(table.rows for table in self.edges.values())

    @property
    def table_bytes(self) -> int:
        """Of all tables in memory: their columns, ids, and both ends of edges in 8 bytes each."""
        nodes = sum(table.rows * (table.row_bytes + 8 * table.own_ids) for table in self.nodes.values())
        return math.ceil(nodes + sum(table.rows * (table.row_bytes + 16) for table in self.edges.values()))

    @classmethod
    def of(cls, tables: GraphTables) -> "GraphSizes":
        """Those of tables that are there."""
        return cls(
            nodes={
                name: TableSizes(rows=table.num_nodes, columns=_columns(table.columns, table.num_nodes), own_ids=_own_ids(table))
                for name, table in tables.nodes.items()
            },
            edges={
                relation: TableSizes(rows=table.num_edges, columns=_columns(table.columns, table.num_edges))
                for relation, table in tables.edges.items()
            },
        )


def _columns(columns: Mapping[str, Tensor], num_rows: int) -> dict[str, float]:
    return {name: _row_bytes(column, num_rows) for name, column in columns.items()}


def _row_bytes(column: Tensor, num_rows: int) -> float:
    if is_dense(column):
        return column.dtype.itemsize * math.prod(column.shape[1:])
    entries = len(column.values()) if column.layout == torch.sparse_csr else column._nnz()
    return 8 + entries * (column.dtype.itemsize + 4) / max(num_rows, 1)


def _own_ids(table: NodeTable) -> bool:
    return table.raw_id is not None
