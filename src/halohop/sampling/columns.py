"""Which columns of its nodes and edges a batch gets."""

from collections.abc import Iterable
from dataclasses import dataclass

from halohop.typing import NodeType, Relation, TableKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The columns that a batch gets, and whether it gets ids; all of them by default.

    Args:
        nodes: names per node type; a type that is not there gets none. None: every type gets all of its columns.
        edges: the same for relations.
        node_ids, edge_ids: whether it gets the user's ids of its nodes, and of its edges.
    """

    nodes: dict[NodeType, tuple[str, ...]] | None = None
    edges: dict[Relation, tuple[str, ...]] | None = None
    node_ids: bool = True
    edge_ids: bool = True

    @property
    def only_ids(self) -> "Columns":
        """The ids alone."""
        return Columns(nodes={}, edges={}, node_ids=self.node_ids, edge_ids=self.edge_ids)

    def has(self, table: TableKey, name: str) -> bool:
        """Whether a column of a table is one of them."""
        chosen = self._chosen(table)
        return chosen is None or name in chosen

    def of(self, table: TableKey, known: Iterable[str]) -> tuple[str, ...]:
        """Those of a table, in the order of `known`, which are all that it has."""
        chosen = self._chosen(table)
        if chosen is None:
            return tuple(known)
        return tuple(name for name in known if name in chosen) if chosen else ()

    def _chosen(self, table: TableKey) -> tuple[str, ...] | None:
        if isinstance(table, str):
            return None if self.nodes is None else self.nodes.get(table, ())
        return None if self.edges is None else self.edges.get(table, ())


ALL = Columns()
NONE = Columns(nodes={}, edges={})
