"""Who owns a node or an edge: P + 1 bounds per table, and nothing of the size of the graph."""

from dataclasses import dataclass
from itertools import pairwise

from halohop.errors import InputError
from halohop.typing import NodeType, Relation, TableKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """Gid ranges of the partitions.

    Partition p owns the gids ``bounds[p] <= gid < bounds[p + 1]`` of a table; an edge belongs to the owner of its destination.

    Args:
        nodes: bounds per node type, ``(0, ..., num_nodes)``.
        edges: bounds per relation, ``(0, ..., num_edges)``.

    Example:
        >>> book = Book(nodes={"node": (0, 2, 2, 5)}, edges={})
        >>> book.num_parts, book.offset("node", 2), book.count("node", 2)
        (3, 2, 3)
    """

    nodes: dict[NodeType, tuple[int, ...]]
    edges: dict[Relation, tuple[int, ...]]

    def __post_init__(self) -> None:
        lengths = {len(bounds) for bounds in (*self.nodes.values(), *self.edges.values())}
        if len(lengths) != 1 or min(lengths) < 2:
            raise InputError(f"every table of a book needs the same number of bounds, at least 2; got lengths {sorted(lengths)}")
        for key, bounds in (*self.nodes.items(), *self.edges.items()):
            if bounds[0] != 0 or any(low > high for low, high in pairwise(bounds)):
                raise InputError(f"bounds of {key!r} must start at 0 and never fall, got {bounds}")

    @property
    def num_parts(self) -> int:
        return len(next(iter(self.nodes.values()))) - 1

    def bounds(self, table: TableKey) -> tuple[int, ...]:
        return self.nodes[table] if isinstance(table, str) else self.edges[table]

    def offset(self, table: TableKey, part: int) -> int:
        """The first gid that partition `part` owns: gid = offset + lid."""
        return self.bounds(table)[part]

    def count(self, table: TableKey, part: int) -> int:
        bounds = self.bounds(table)
        return bounds[part + 1] - bounds[part]
