"""What a model's weights depend on: which model, on which node types, relations and features. Kept beside the weights."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from halohop.errors import InputError, SchemaError
from halohop.recipes.config import DecoderName, TrainConfig
from halohop.records import Schema
from halohop.typing import NodeType, Relation

TYPED = ("rgcn", "hgt")
"""The models for several node types or relations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInput:
    """What a node type brings: features of this `width`, or (None) a vector of width `learned` for each of its `count` nodes."""

    node_type: NodeType
    width: int | None
    count: int
    learned: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """Everything that a model's weights depend on; it is stored beside them.

    Args:
        kind: which model.
        target: the node type whose nodes are classified, or get vectors.
        num_classes: length of the logits, or of the vectors.
        classes: names of the classes, where the labels were strings.
        several: whether a node may belong to several classes.
        inputs: of every node type, in the schema's order.
        relations: in the schema's order.
        layers, hidden, heads, bases, dropout: as in `TrainConfig`.
        relation, decoder: of a model that predicts links: of which relation, and how it scores them.
    """

    kind: Literal["sage", "gcn", "gat", "rgcn", "hgt"]
    target: NodeType
    num_classes: int
    inputs: tuple[NodeInput, ...]
    relations: tuple[Relation, ...]
    layers: int
    hidden: int
    heads: int
    bases: int
    dropout: float
    relation: Relation | None = None
    decoder: DecoderName | None = None
    classes: tuple[str, ...] = ()
    several: bool = False

    @property
    def learns_vectors(self) -> bool:
        """Whether a node type has no features."""
        return any(node_input.width is None for node_input in self.inputs)

    @classmethod
    def of(
        cls, config: TrainConfig, schema: Schema, target: NodeType, num_classes: int, relation: Relation | None = None
    ) -> "ModelSpec":
        """The model that `config` asks for on a graph of this schema.

        Raises:
            InputError: the model does not fit the graph, or its features have no rows.
        """
        plain = schema.has_one_relation  # their names do not count
        kind = ("sage" if plain else "rgcn") if config.model == "auto" else config.model
        if plain and kind in TYPED:
            raise InputError(f"model={kind!r} is for graphs of several relations, this one has one; use 'sage', 'gcn' or 'gat'")
        if not plain and kind not in TYPED:
            raise InputError(
                f"model={kind!r} is for graphs of one node type and one relation, this one has {len(schema.nodes)} and "
                f"{len(schema.edges)}; use model='rgcn' or 'hgt'"
            )
        return cls(
            kind=kind,
            target=target,
            num_classes=num_classes,
            inputs=node_inputs(schema, config.hidden if config.embed_dim is None else config.embed_dim),
            relations=tuple(schema.edges),
            layers=config.layers,
            hidden=config.hidden,
            heads=config.heads,
            bases=config.bases,
            dropout=config.dropout_share,
            relation=relation,
            decoder=None if relation is None else config.decoder,
            classes=() if relation is not None else class_names(schema, target),
        )


def class_names(schema: Schema, target: NodeType) -> tuple[str, ...]:
    """Names of the classes of a node type; none where labels are numbers."""
    y = schema.nodes[target].columns.get("y")
    return () if y is None else y.names


def node_inputs(schema: Schema, learned: int = 0) -> tuple[NodeInput, ...]:
    """What the models are given of each node type: its features ``x``, or else vectors of the width `learned`.

    Raises:
        InputError: features that are not one row of numbers per node.
    """
    inputs = []
    for name, spec in schema.nodes.items():
        x = spec.columns.get("x")
        if x is not None and len(x.shape) != 1:
            raise InputError(f"features `x` of {name!r} have shape {x.shape} per node; store one row of numbers per node")
        if x is not None and x.is_complex:
            raise InputError(f"features `x` of {name!r} are {x.dtype}; store real numbers (torch.view_as_real)")
        width = None if x is None else x.shape[0]
        inputs.append(NodeInput(node_type=name, width=width, count=spec.count, learned=learned if x is None else 0))
    return tuple(inputs)


def columns_read(spec: ModelSpec, schema: Schema, labels: Sequence[str] = ()) -> dict[str, Any]:
    """What batches need for a model, as arguments of a loader: features, labels of the target, and gids where vectors are
    learned."""
    features = {name: ["x"] if "x" in table.columns else [] for name, table in schema.nodes.items()}
    columns = features | {spec.target: [*features[spec.target], *labels]}
    return {"node_columns": columns, "edge_columns": [], "gids": spec.learns_vectors}


def check_fits(spec: ModelSpec, schema: Schema) -> None:
    """Whether a model's weights mean something on this graph.

    Raises:
        SchemaError: names what differs.
    """
    here = {node_input.node_type: node_input for node_input in node_inputs(schema)}
    there = {node_input.node_type: node_input for node_input in spec.inputs}
    if list(here) != list(there):
        raise SchemaError(f"the model knows the node types {list(there)}, the graph has {list(here)}")
    if spec.relations != tuple(schema.edges):
        raise SchemaError(f"the model knows the relations {list(spec.relations)}, the graph has {list(schema.edges)}")
    for name, known in there.items():
        if known.width != here[name].width:
            raise SchemaError(f"the model knows {_width(known)} of {name!r}, the graph has {_width(here[name])}")
        if known.width is None and known.count != here[name].count:
            raise SchemaError(f"the model has learned {known.count} nodes of {name!r}, the graph has {here[name].count}")


def _width(node_input: NodeInput) -> str:
    return "no features" if node_input.width is None else f"{node_input.width} features"
