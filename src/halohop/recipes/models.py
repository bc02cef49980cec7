"""The models: PyG's own for one relation, a relational one for many. All of them: ``model(batch) -> logits of the seeds``."""

from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch_geometric.nn import GAT, SimpleConv
from torch_geometric.nn.models.basic_gnn import BasicGNN

from halohop.cluster.graph import Graph
from halohop.errors import InputError, SchemaError
from halohop.pyg.convert import is_homogeneous
from halohop.recipes.config import TrainConfig
from halohop.store.schema import Schema
from halohop.typing import NodeType, Relation


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInput:
    """What a node type brings: features of this width, or (None) a learned vector for each of its `count` nodes."""

    node_type: NodeType
    width: int | None
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """Everything that a model's weights depend on; it is stored beside them.

    Args:
        kind: which model.
        target: the node type whose nodes are classified.
        num_classes: length of the logits.
        inputs: of every node type, in the schema's order.
        relations: in the schema's order.
        layers, hidden, heads, bases, dropout: as in `TrainConfig`.
    """

    kind: Literal["sage", "gcn", "gat", "rgcn"]
    target: NodeType
    num_classes: int
    inputs: tuple[NodeInput, ...]
    relations: tuple[Relation, ...]
    layers: int
    hidden: int
    heads: int
    bases: int
    dropout: float

    @classmethod
    def of(cls, config: TrainConfig, schema: Schema, target: NodeType, num_classes: int) -> "ModelSpec":
        """The model that `config` asks for on a graph of this schema.

        Raises:
            InputError: the model does not fit the graph, or its features have no rows.
        """
        plain = is_homogeneous(schema)
        kind = ("sage" if plain else "rgcn") if config.model == "auto" else config.model
        if plain and kind == "rgcn":
            raise InputError("model='rgcn' is for graphs of several relations, this one has one; use 'sage', 'gcn' or 'gat'")
        if not plain and kind != "rgcn":
            raise InputError(
                f"model={kind!r} is for graphs of one node type and one relation, this one has {len(schema.nodes)} and "
                f"{len(schema.edges)}; use model='rgcn'"
            )
        return cls(
            kind=kind,
            target=target,
            num_classes=num_classes,
            inputs=node_inputs(schema),
            relations=tuple(schema.edges),
            layers=config.layers,
            hidden=config.hidden,
            heads=config.heads,
            bases=config.bases,
            dropout=config.dropout,
        )


def node_inputs(schema: Schema) -> tuple[NodeInput, ...]:
    """What the models are given of each node type: its features ``x``, or nothing.

    Raises:
        InputError: features that are not one row of numbers per node.
    """
    inputs = []
    for name, spec in schema.nodes.items():
        x = spec.columns.get("x")
        if x is not None and len(x.shape) != 1:
            raise InputError(f"features `x` of {name!r} have shape {x.shape} per node; store one row of numbers per node")
        if x is None and "n_id" in spec.columns:
            raise InputError(f"{name!r} has no features and a column `n_id`, which hides the node ids; rename that column")
        inputs.append(NodeInput(node_type=name, width=None if x is None else x.shape[0], count=spec.count))
    return tuple(inputs)


def check_raw_ids(graph: Graph, spec: ModelSpec) -> None:
    """Learned vectors are found by raw id, so these must be 0, 1, 2, ...

    Raises:
        InputError: they are not.
    """
    for node_input in spec.inputs:
        if node_input.width is None and node_input.count:
            _, raw = graph.select(None, node_input.node_type)
            if int(raw[0]) != 0 or int(raw[-1]) != node_input.count - 1:
                raise InputError(
                    f"nodes of {node_input.node_type!r} have no features `x`, so each learns a vector, found by its id; "
                    f"for that ids must be 0 to {node_input.count - 1}, but they go from {int(raw[0])} to {int(raw[-1])}: "
                    "give the nodes features, or number them from 0"
                )


def build_model(spec: ModelSpec) -> "NodeClassifier":
    """A new model, with weights from torch's random state."""
    return RelationalClassifier(spec) if spec.kind == "rgcn" else PlainClassifier(spec)


class NodeClassifier(nn.Module):
    """An encoder of seeds and a linear head."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.spec = spec
        self.dropout = nn.Dropout(spec.dropout)
        self.head = nn.Linear(spec.hidden, spec.num_classes)

    def encode(self, batch: Any) -> Tensor:
        """The seeds' last hidden layer, float ``[batch_size, hidden]``."""
        raise NotImplementedError

    def forward(self, batch: Any) -> Tensor:
        """The seeds' logits, float ``[batch_size, num_classes]``."""
        logits: Tensor = self.head(self.dropout(self.encode(batch)))
        return logits


class MeanConv(nn.Module):
    """A layer of GraphSAGE (Hamilton et al., 2017): a weight for the node, another for the mean of its neighbours.

    The mean commutes with the weight. Multiplying first moves `hidden` numbers per edge instead of the width of the features.
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.root = nn.Linear(width, hidden)
        self.neighbour = nn.Linear(width, hidden, bias=False)
        self.mean = SimpleConv(aggr="mean")

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out: Tensor = self.root(x) + self.mean(self.neighbour(x), edge_index)
        return out


class SelfLoopMeanConv(nn.Module):
    """A layer of GCN (Kipf and Welling, 2017) with row normalisation, D^-1 (A + I) instead of D^-1/2 (A + I) D^-1/2.

    A sampled subgraph does not know its sources' degrees (the outermost look isolated), so the symmetric weights would be
    wrong, and different for training and for full neighbourhoods. A mean over sampled neighbours estimates the mean over all.
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.weight = nn.Linear(width, hidden)
        self.mean = SimpleConv(aggr="mean", combine_root="self_loop")

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out: Tensor = self.mean(self.weight(x), edge_index)
        return out


class _SAGE(BasicGNN):  # type: ignore[misc]
    supports_edge_weight = False
    supports_edge_attr = False

    def init_conv(self, in_channels: int, out_channels: int, **_: Any) -> nn.Module:
        return MeanConv(in_channels, out_channels)


class _GCN(BasicGNN):  # type: ignore[misc]
    supports_edge_weight = False
    supports_edge_attr = False

    def init_conv(self, in_channels: int, out_channels: int, **_: Any) -> nn.Module:
        return SelfLoopMeanConv(in_channels, out_channels)


class PlainClassifier(NodeClassifier):
    """GraphSAGE, GCN or GAT on a graph of one node type and one relation."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        (node_input,) = spec.inputs
        self.embedding = _embedding(node_input, spec.hidden)
        width = spec.hidden if node_input.width is None else node_input.width
        options = {
            "in_channels": width,
            "hidden_channels": spec.hidden,
            "num_layers": spec.layers,
            "dropout": spec.dropout,
            "norm": "layer",
            "norm_kwargs": {"mode": "node"},
        }
        if spec.kind == "gat":
            self.encoder = GAT(**options, heads=spec.heads)
        else:
            self.encoder = {"sage": _SAGE, "gcn": _GCN}[spec.kind](**options)

    def encode(self, batch: Any) -> Tensor:
        x = batch.x.float() if self.embedding is None else self.dropout(self.embedding(batch.n_id))
        # Trimming skips, per layer, the hops that no longer matter for the seeds. All in-edges of a node come in one hop, so
        # what is left is exact.
        hidden = self.encoder(
            x,
            batch.edge_index,
            num_sampled_nodes_per_hop=batch.num_sampled_nodes,
            num_sampled_edges_per_hop=batch.num_sampled_edges,
        )
        return F.relu(hidden[: batch.batch_size])


class RelationalConv(nn.Module):
    """A layer of R-GCN (Schlichtkrull et al., 2018): a mean per relation, with weights that are mixtures of shared bases."""

    def __init__(self, hidden: int, num_relations: int, num_bases: int) -> None:
        super().__init__()
        self.root = nn.Linear(hidden, hidden)
        self.bases = nn.Parameter(torch.empty(num_bases, hidden, hidden))
        self.mixture = nn.Parameter(torch.empty(num_relations, num_bases))
        for basis in self.bases:
            nn.init.xavier_uniform_(basis)
        nn.init.normal_(self.mixture, std=num_bases**-0.5)

    def forward(self, x: Tensor, edges: list[tuple[Tensor, Tensor, Tensor]], num_dst: int) -> Tensor:
        """New rows of the first `num_dst` nodes, from (src, dst, 1 / in-degree of dst) per relation."""
        src, dst, share = (torch.cat(column) for column in zip(*edges, strict=True))
        rows = torch.split(x[src] * share[:, None], [len(relation[0]) for relation in edges])
        weights = torch.einsum("rb,bio->rio", self.mixture, self.bases)
        # One product per relation, empty ones too, so that every parameter has a gradient on every rank.
        messages = torch.cat([rows_r @ weight for rows_r, weight in zip(rows, weights.unbind(), strict=True)])
        out: Tensor = self.root(x[:num_dst]).index_add(0, dst, messages)
        return out


class RelationalClassifier(NodeClassifier):
    """R-GCN on any number of node types and relations; features are projected to one width, or learned where there are none."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.inputs = nn.ModuleList(
            _embedding(node_input, spec.hidden) or nn.Linear(node_input.width or 0, spec.hidden) for node_input in spec.inputs
        )
        num_bases = min(spec.bases, len(spec.relations))
        self.convs = nn.ModuleList(RelationalConv(spec.hidden, len(spec.relations), num_bases) for _ in range(spec.layers))

    def encode(self, batch: Any) -> Tensor:
        view = _HopView.of(batch, self.spec)
        rows = []
        for node_input, module in zip(self.spec.inputs, self.inputs, strict=True):
            store = batch[node_input.node_type]
            rows.append(module(store.n_id if node_input.width is None else store.x.float()))
        x = torch.cat(rows)[view.order]
        for layer, conv in enumerate(self.convs):
            hops = self.spec.layers - layer  # the hops whose edges still matter for the seeds
            num_dst = view.nodes_until[hops - 1]
            x = F.relu(conv(self.dropout(x[: view.nodes_until[hops]]), view.edges_within(hops), num_dst))
        return x[: batch[self.spec.target].batch_size]


@dataclass(frozen=True, slots=True, kw_only=True)
class _HopView:
    """A typed batch with all its nodes in one row, hop after hop: each layer needs a prefix of the nodes and of the edges.

    Args:
        order: which row of the node types' rows, end to end, comes at each place.
        nodes_until: places taken by the seeds and the first k hops, for k = 0, 1, ...
        edges: per relation, the places of both ends and 1 / (in-edges of that relation at the destination).
        edges_until: per relation, the edges of the first k hops.
    """

    order: Tensor
    nodes_until: list[int]
    edges: list[tuple[Tensor, Tensor, Tensor]]
    edges_until: list[list[int]]

    @classmethod
    def of(cls, batch: Any, spec: ModelSpec) -> "_HopView":
        sampled = {node_input.node_type: batch[node_input.node_type].num_sampled_nodes for node_input in spec.inputs}
        device = batch[spec.target].n_id.device
        places: dict[NodeType, list[Tensor]] = {name: [] for name in sampled}
        nodes_until, end = [], 0
        for hop in range(spec.layers + 1):
            for name, counts in sampled.items():
                places[name].append(torch.arange(end, end + counts[hop], device=device))
                end += counts[hop]
            nodes_until.append(end)
        place = {name: torch.cat(parts) for name, parts in places.items()}
        edges, edges_until = [], []
        for src_type, name, dst_type in spec.relations:
            store = batch[src_type, name, dst_type]
            src, dst = store.edge_index
            share = 1 / torch.bincount(dst, minlength=len(place[dst_type]))[dst].float()
            edges.append((place[src_type][src], place[dst_type][dst], share))
            edges_until.append([sum(store.num_sampled_edges[:hops]) for hops in range(spec.layers + 1)])
        order = torch.cat(list(place.values())).argsort()
        return cls(order=order, nodes_until=nodes_until, edges=edges, edges_until=edges_until)

    def edges_within(self, hops: int) -> list[tuple[Tensor, Tensor, Tensor]]:
        return [
            (src[: until[hops]], dst[: until[hops]], share[: until[hops]])
            for (src, dst, share), until in zip(self.edges, self.edges_until, strict=True)
        ]


def _embedding(node_input: NodeInput, hidden: int) -> nn.Embedding | None:
    if node_input.width is not None:
        return None
    embedding = nn.Embedding(node_input.count, hidden)
    nn.init.xavier_uniform_(embedding.weight)
    return embedding


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
