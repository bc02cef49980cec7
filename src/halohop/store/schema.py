"""What a graph is made of: types, counts and columns, without a single row."""

from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor

from halohop.errors import SchemaError
from halohop.typing import NodeType, Relation


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSpec:
    """One column: torch dtype name (``"float32"``) and the shape of one row (``()`` for a scalar)."""

    dtype: str
    shape: tuple[int, ...]

    @classmethod
    def of(cls, column: Tensor) -> "ColumnSpec":
        return cls(dtype=str(column.dtype).removeprefix("torch."), shape=tuple(column.shape[1:]))


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSpec:
    """The rows of one node type, or of one relation: how many, and which columns."""

    count: int
    columns: dict[str, ColumnSpec]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """Node types and relations of a graph; their order is the user's and the same on every host."""

    nodes: dict[NodeType, TableSpec]
    edges: dict[Relation, TableSpec]

    def node_type(self, name: str | None) -> NodeType:
        """The node type called `name`; with None the only one there is.

        Raises:
            SchemaError: there is no such type, or None was given and there are several.
        """
        if name is None and len(self.nodes) == 1:
            return next(iter(self.nodes))
        if name is None:
            raise SchemaError(f"this graph has several node types, name one of {list(self.nodes)}")
        if name not in self.nodes:
            raise SchemaError(f"unknown node type {name!r}; known: {list(self.nodes)}")
        return name

    def relation(self, relation: Iterable[str]) -> Relation:
        """The relation equal to `relation`, checked.

        Raises:
            SchemaError: the graph has no such relation.
        """
        key = tuple(relation)
        for known in self.edges:
            if known == key:
                return known
        raise SchemaError(f"unknown relation {key!r}; known: {list(self.edges)}")

    def splits(self, node_type: NodeType) -> tuple[str, ...]:
        """Names of the stored splits of a node type: a split "train" is the bool column "train_mask" (one bool per node)."""
        return tuple(
            name.removesuffix("_mask")
            for name, spec in self.nodes[node_type].columns.items()
            if name.endswith("_mask") and spec.dtype == "bool" and spec.shape == ()
        )
