"""How large a graph is, by the names that PyG's data objects use."""

from halohop.partitioning.book import Book
from halohop.store.schema import Schema
from halohop.typing import NodeType, Relation


class Counted:
    """Counts of a graph, from its schema alone.

    Example:
        >>> from halohop.cluster.graph import in_memory
        >>> from halohop.datasets import synthetic_hetero
        >>> graph = in_memory(synthetic_hetero(100))
        >>> graph.num_nodes_dict["paper"], graph.num_nodes == sum(graph.num_nodes_dict.values())
        (100, True)
    """

    schema: Schema
    book: Book

    @property
    def node_types(self) -> list[NodeType]:
        return list(self.schema.nodes)

    @property
    def edge_types(self) -> list[Relation]:
        return list(self.schema.edges)

    def metadata(self) -> tuple[list[NodeType], list[Relation]]:
        """Node types and relations, as PyG's models of several types take them."""
        return self.node_types, self.edge_types

    @property
    def num_nodes_dict(self) -> dict[NodeType, int]:
        return {name: spec.count for name, spec in self.schema.nodes.items()}

    @property
    def num_edges_dict(self) -> dict[Relation, int]:
        return {name: spec.count for name, spec in self.schema.edges.items()}

    @property
    def num_nodes(self) -> int:
        """Of all types together."""
        return sum(self.num_nodes_dict.values())

    @property
    def num_edges(self) -> int:
        """Of all relations together."""
        return sum(self.num_edges_dict.values())

    @property
    def num_node_features(self) -> int | dict[NodeType, int]:
        """Width of the features `x`, by node type where there are several; 0 where there are none, as PyG says it."""
        columns = {name: spec.columns.get("x") for name, spec in self.schema.nodes.items()}
        widths = {name: 0 if x is None else (*x.shape, 1)[0] for name, x in columns.items()}
        return next(iter(widths.values())) if len(widths) == len(self.schema.edges) == 1 else widths

    def __repr__(self) -> str:
        nodes = ", ".join(f"{name}: {count:,}" for name, count in self.num_nodes_dict.items())
        edges = ", ".join(f"{' '.join(name)}: {count:,}" for name, count in self.num_edges_dict.items())
        return f"{type(self).__name__}(nodes={{{nodes}}}, edges={{{edges}}}, partitions={self.book.num_parts})"
