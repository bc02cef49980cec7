"""The numbers that DGL gives to nodes and edges: over all types, partition by partition, and in each type by type."""

from dataclasses import dataclass

import torch
from torch import Tensor

from halohop.datasets.part_config import PartConfig
from halohop.typing import NodeType, Relation, TableKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbering:
    """Of the nodes, or of the edges.

    Args:
        gids: by type, where the gids of each partition begin, and how many there are, int64 ``[parts + 1]``.
        firsts: where the numbers of each partition and type begin, and how many there are, int64 ``[parts * types + 1]``.
    """

    gids: list[Tensor]
    firsts: Tensor

    @classmethod
    def of(cls, bounds: list[tuple[int, ...]]) -> "Numbering":
        gids = [torch.tensor(ends) for ends in bounds]
        sizes = torch.stack([ends.diff() for ends in gids], 1).flatten()
        return cls(gids=gids, firsts=torch.cat([sizes.new_zeros(1), sizes.cumsum(0)]))

    @property
    def types(self) -> int:
        return len(self.gids)

    def bounds(self, part: int) -> tuple[int, int]:
        """The first number of a partition, and the one behind its last."""
        return int(self.firsts[part * self.types]), int(self.firsts[(part + 1) * self.types])

    def of_gids(self, type_: int, gids: Tensor) -> Tensor:
        """The numbers of some rows of a type."""
        part = self.part_of_gids(type_, gids)
        return gids + (self.firsts[type_ : -1 : self.types] - self.gids[type_][:-1])[part]

    def part_of_gids(self, type_: int, gids: Tensor) -> Tensor:
        """Who owns them."""
        return torch.searchsorted(self.gids[type_][1:], gids, right=True)

    def place(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """The partition and the type of some numbers."""
        place = torch.searchsorted(self.firsts[1:], numbers, right=True)
        return place // self.types, place % self.types


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """Of a data set.

    Args:
        nodes, edges: their numbers.
        node_types, relations: in the order of their numbers.
        names: of all of them, as DGL writes them.
    """

    nodes: Numbering
    edges: Numbering
    node_types: tuple[NodeType, ...]
    relations: tuple[Relation, ...]
    names: dict[TableKey, str]

    def gids(self, table: TableKey, part: int) -> tuple[int, int]:
        """The first gid of a partition in a table, and the one behind its last."""
        of = (
            self.nodes.gids[self.node_types.index(table)]
            if isinstance(table, str)
            else self.edges.gids[self.relations.index(table)]
        )
        return int(of[part]), int(of[part + 1])

    @classmethod
    def of(cls, config: PartConfig) -> "Numbers":
        schema, (nodes, edges) = config.description.schema, config.bounds
        return cls(
            nodes=Numbering.of(list(nodes.values())),
            edges=Numbering.of(list(edges.values())),
            node_types=tuple(schema.nodes),
            relations=tuple(schema.edges),
            names=dict(zip(schema.tables, (*nodes, *edges), strict=True)),
        )
