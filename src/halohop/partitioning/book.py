"""Who owns a node or an edge: P + 1 bounds per table, and nothing of the size of the graph."""

from dataclasses import dataclass
from itertools import pairwise
from typing import get_args

from halohop.errors import InputError
from halohop.typing import EdgeDir, NodeType, Relation, TableKey


def check_edge_dir(edge_dir: str) -> None:
    """
    Raises:
        InputError: it is none.
    """
    if edge_dir not in get_args(EdgeDir):
        raise InputError(f"edge_dir={edge_dir!r} is neither 'in' nor 'out'; with 'in' the neighbours of a node lead to it")


def list_end_of(edge_dir: EdgeDir) -> int:
    """Of the two ends of an edge (0: source, 1: destination), the one in whose list it is."""
    return 1 if edge_dir == "in" else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """Gid ranges of the partitions.

    Partition p owns the gids ``bounds[p] <= gid < bounds[p + 1]`` of a table. An edge is in the list of its destination, or with
    `edge_dir` "out" in that of its source, and belongs to the owner of that node.

    Args:
        nodes: bounds per node type, ``(0, ..., num_nodes)``.
        edges: bounds per relation, ``(0, ..., num_edges)``.
        edge_dir: which edges the lists of nodes hold.
        num_blocks: every node belongs to one of so many blocks, and a partition is a run of blocks; 0 where there are none.

    Example:
        >>> book = Book(nodes={"node": (0, 2, 2, 5)}, edges={})
        >>> book.num_parts, book.offset("node", 2), book.count("node", 2)
        (3, 2, 3)
    """

    nodes: dict[NodeType, tuple[int, ...]]
    edges: dict[Relation, tuple[int, ...]]
    edge_dir: EdgeDir = "in"
    num_blocks: int = 0

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

    @property
    def list_end(self) -> int:
        """Of the two ends of an edge (0: source, 1: destination), the one in whose list it is."""
        return list_end_of(self.edge_dir)

    def list_type(self, relation: Relation) -> NodeType:
        """The type of the nodes whose lists hold the edges."""
        return relation[2 * self.list_end]

    def neighbor_type(self, relation: Relation) -> NodeType:
        """The type of the nodes at the other end."""
        return relation[2 - 2 * self.list_end]

    def require_in_edges(self, what: str) -> None:
        """
        Raises:
            InputError: the lists hold out-edges, with which `what` does not work.
        """
        if self.edge_dir != "in":
            raise InputError(
                f"{what} reads the in-edges of nodes, and this graph has their out-edges; divide it with edge_dir='in'"
            )

    def bounds(self, table: TableKey) -> tuple[int, ...]:
        return self.nodes[table] if isinstance(table, str) else self.edges[table]

    def offset(self, table: TableKey, part: int) -> int:
        """The first gid that partition `part` owns: gid = offset + lid."""
        return self.bounds(table)[part]

    def count(self, table: TableKey, part: int) -> int:
        bounds = self.bounds(table)
        return bounds[part + 1] - bounds[part]
