"""HGT (Hu et al., "Heterogeneous Graph Transformer", 2020) as a model of the recipes, on PyG's `HGTConv` over lists."""

import torch.nn.functional as F
from torch import Tensor, nn

from halohop.nn import HGTConv, Hop, module_key
from halohop.recipes.models import ModelInput, NodeClassifier, input_modules, projected, to_features
from halohop.recipes.spec import ModelSpec
from halohop.typing import NodeType, Relation

Rows = dict[NodeType, Tensor]
Edges = dict[Relation, Tensor] | dict[Relation, Hop]


class TypedAttention(nn.Module):
    """A layer of HGT for every node type: one that nothing leads to is transformed alone, so that its rows stay known.

    Args:
        spec: node types, relations, width and heads.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        names = [_key(node_input.node_type) for node_input in spec.inputs]
        relations = [_keys(relation) for relation in spec.relations]
        reached = {relation[2] for relation in relations}
        self.alone = nn.ModuleDict({name: nn.Linear(spec.hidden, spec.hidden) for name in names if name not in reached})
        self.conv = HGTConv(spec.hidden, spec.hidden, (names, relations), heads=spec.heads)
        self.dropout = nn.Dropout(spec.dropout)

    def forward(self, x: Rows, edges: Edges) -> Rows:
        """New rows of all nodes that edges may lead to, ``[n, hidden]`` per type, from those of their in-neighbours."""
        names = {_key(name): name for name in x}
        x = {_key(name): self.dropout(rows) for name, rows in x.items()}
        out = self.conv(x, {_keys(relation): of_relation for relation, of_relation in edges.items()})
        return {names[key]: F.relu(self.alone[key](rows) if key in self.alone else out[key]) for key, rows in x.items()}


def _key(name: str, *, alone: bool = True) -> str:
    """A key of PyG's layer for a name. That layer reads "#" in a key as a dot, so "#" is reserved."""
    return module_key(name, "#", alone=alone)


def _keys(relation: Relation) -> Relation:
    return _key(relation[0]), _key(relation[1], alone=False), _key(relation[2])


class AttentionClassifier(NodeClassifier):
    """HGT on any number of node types and relations; features are projected to one width, or learned where there are none.

    It is made of `layers` that see a node's in-edges only, so `halohop.inference.user` computes it a layer at a time.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.target = spec.target
        self.projections = input_modules(spec)
        self.layers = nn.ModuleList(TypedAttention(spec) for _ in range(spec.layers))

    def inputs(self, node_type: NodeType, x: Tensor | None, raw_id: Tensor) -> Tensor:
        """Rows for the first layer."""
        numbers = {node_input.node_type: number for number, node_input in enumerate(self.spec.inputs)}
        rows: Tensor = self.projections[numbers[node_type]](raw_id if x is None else to_features(x))
        return rows

    def roots(self, given: ModelInput) -> Rows:
        x = projected(given, self.projections)
        for done, (layer, edges) in enumerate(zip(self.layers, given.hops, strict=True)):
            before = self.spec.layers - done  # the hops whose edges still matter for the roots
            x = {name: rows[: sum(given.found[name][: before + 1])] for name, rows in x.items()}
            x = layer(x, {relation: edges[relation] for relation in self.spec.relations})
        # Weights of types that do not matter here have a gradient, too: of zero, so that no rank waits for it.
        nothing = 0 * sum(parameter.sum() for parameter in self.parameters())
        return {name: rows[: given.found[name][0]] + nothing for name, rows in x.items()}
