"""The models: PyG's own for one relation, a relational one for many. All of them: ``model(batch) -> logits of the seeds``."""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import HeteroData
from torch_geometric.nn import GAT, SimpleConv
from torch_geometric.nn.models.basic_gnn import BasicGNN

from halohop.recipes.spec import ModelSpec
from halohop.recipes.vectors import LearnedVectors, of_nodes
from halohop.typing import NodeType, Relation


def part_of(batch: Any, key: NodeType | Relation) -> Any:
    """What a batch holds of a node type or relation; a batch of one of each is that part."""
    return batch[key] if isinstance(batch, HeteroData) else batch


class NodeClassifier(nn.Module):
    """An encoder of nodes and a linear head."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.spec = spec
        self.dropout = nn.Dropout(spec.dropout)
        self.head = nn.Linear(spec.hidden, spec.num_classes)

    def roots(self, batch: Any) -> dict[NodeType, Tensor]:
        """The last hidden layer of the nodes that sampling began at, a batch's first ones: float ``[n, hidden]`` per type."""
        raise NotImplementedError

    def encode(self, batch: Any) -> Tensor:
        """The seeds' last hidden layer, float ``[batch_size, hidden]``."""
        return self.roots(batch)[self.spec.target]

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
        self.embedding = LearnedVectors(node_input) if node_input.width is None else None
        width = node_input.learned if node_input.width is None else node_input.width
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

    def roots(self, batch: Any) -> dict[NodeType, Tensor]:
        x = batch.x.float() if self.embedding is None else self.dropout(of_nodes(self.embedding, batch))
        # Trimming skips, per layer, the hops that no longer matter for the seeds. All in-edges of a node come in one hop, so
        # what is left is exact.
        hidden = self.encoder(
            x,
            batch.edge_index,
            num_sampled_nodes_per_hop=batch.num_sampled_nodes,
            num_sampled_edges_per_hop=batch.num_sampled_edges,
        )
        return {self.spec.inputs[0].node_type: F.relu(hidden[: batch.num_sampled_nodes[0]])}


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
        self.inputs = input_modules(spec)
        num_bases = min(spec.bases, len(spec.relations))
        self.convs = nn.ModuleList(RelationalConv(spec.hidden, len(spec.relations), num_bases) for _ in range(spec.layers))

    def roots(self, batch: Any) -> dict[NodeType, Tensor]:
        view = _HopView.of(batch, self.spec)
        rows = projected(batch, self.spec, self.inputs)
        x = torch.cat(list(rows.values()))[view.order]
        for layer, conv in enumerate(self.convs):
            hops = self.spec.layers - layer  # the hops whose edges still matter for the seeds
            num_dst = view.nodes_until[hops - 1]
            x = F.relu(conv(self.dropout(x[: view.nodes_until[hops]]), view.edges_within(hops), num_dst))
        return dict(zip(rows, torch.split(x, [batch[name].num_sampled_nodes[0] for name in rows]), strict=True))


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


def input_modules(spec: ModelSpec) -> nn.ModuleList:
    """Per node type what brings it to the width of the layers: a projection of its features, or a vector for each node."""
    return nn.ModuleList(
        LearnedVectors(node_input, spec.hidden) if node_input.width is None else nn.Linear(node_input.width, spec.hidden)
        for node_input in spec.inputs
    )


def projected(batch: Any, spec: ModelSpec, modules: nn.ModuleList) -> dict[NodeType, Tensor]:
    """Rows of all nodes of a typed batch, ``[n, hidden]`` per node type, made by `input_modules`."""
    stores = [(batch[node_input.node_type], node_input) for node_input in spec.inputs]
    return {
        node_input.node_type: of_nodes(module, store) if node_input.width is None else module(store.x.float())
        for (store, node_input), module in zip(stores, modules, strict=True)
    }
