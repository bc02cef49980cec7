"""Types of nodes and edges by DGL's names, and what a graph of halohop calls them."""

from dataclasses import dataclass
from typing import Self

import halohop
from halohop.dgl.graph import DEFAULT_ETYPE, DEFAULT_NTYPE
from halohop.dgl.kinds import Kinds, only
from halohop.typing import NodeType, Relation, TableKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Types(Kinds):
    """The types of a graph, in its order; those of a homogeneous graph are called ``_N`` and ``_E`` in DGL.

    Args:
        nodes: what halohop calls each node type.
        edges: what halohop calls each relation.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> ring = Data(num_nodes=3, edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]))
        >>> types = Types.of(halohop.graph(ring).schema)
        >>> types.ntypes, types.canonical_etypes, types.relation("_E")
        (['_N'], [('_N', '_E', '_N')], ('node', 'to', 'node'))
    """

    nodes: dict[str, NodeType]
    edges: dict[Relation, Relation]

    @classmethod
    def of(cls, schema: halohop.records.Schema) -> Self:
        """Those of a graph of halohop."""
        if schema.is_homogeneous:
            return cls(nodes={DEFAULT_NTYPE: next(iter(schema.nodes))}, edges={DEFAULT_ETYPE: next(iter(schema.edges))})
        return cls(nodes={name: name for name in schema.nodes}, edges={name: name for name in schema.edges})

    ntypes = property(lambda self: list(self.nodes))
    canonical_etypes = property(lambda self: list(self.edges))

    def relation(self, etype: str | Relation | None) -> Relation:
        """What halohop calls a relation; raises as `to_canonical_etype`."""
        return self.edges[self.to_canonical_etype(etype)]

    def ntype(self, ntype: str | None) -> str:
        """A node type, or the only one.

        Raises:
            SchemaError: there is no such type, or None was given and there are several.
        """
        return only(self.nodes, ntype)

    def node_type(self, ntype: str | None) -> NodeType:
        """What halohop calls a node type; raises as `ntype`."""
        return self.nodes[self.ntype(ntype)]

    def of_table(self, table: TableKey) -> str | Relation:
        """What DGL calls a table of halohop's."""
        known: dict[TableKey, str | Relation] = {ours: name for name, ours in self.nodes.items()}
        known |= {ours: name for name, ours in self.edges.items()}
        return known[table]
