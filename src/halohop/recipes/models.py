"""The models: PyG's own for one relation, a relational one for many. All of them: ``model(batch) -> logits of the seeds``."""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import HeteroData
from torch_geometric.nn import GAT
from torch_geometric.nn.models.basic_gnn import BasicGNN

from halohop.nn import Hop, aggregate, fuse, hops
from halohop.recipes.spec import ModelSpec
from halohop.recipes.vectors import LearnedVectors, learned_vectors, of_nodes
from halohop.typing import NodeType, Relation


def part_of(batch: Any, key: NodeType | Relation) -> Any:
    """What a batch holds of a node type or relation; a batch of one of each is that part."""
    return batch[key] if isinstance(batch, HeteroData) else batch


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInput:
    """What a model computes with, of a batch: tensors and numbers only, whose shapes decide what a compiler makes of the model.

    Args:
        rows: per node type its features, or the vectors that its nodes have learned, ``[n, width]``.
        hops: per layer, the outermost first, the edges of each relation that it reads.
        found: per node type how many nodes each hop found, those that sampling began at first.
        seeds: how many of the target's nodes are asked about; None: all that sampling began at.
        pairs: of a model that scores pairs, those: positions of sources, of their destinations, of other destinations.
    """

    rows: dict[NodeType, Tensor]
    hops: list[dict[Relation, Hop]]
    found: dict[NodeType, list[int]]
    seeds: int | None = None
    pairs: tuple[Tensor, Tensor, Tensor] | None = None


class BatchModel(nn.Module):
    """A model that computes with batches: what it reads of one, and what it makes of that."""

    def read(self, batch: Any) -> ModelInput:
        """What of a batch it computes with."""
        raise NotImplementedError

    def compute(self, given: ModelInput) -> Any:
        """What comes out; tensors alone decide it, and nothing here asks for their contents."""
        raise NotImplementedError

    def forward(self, batch: Any) -> Any:
        return self.compute(self.read(batch))


class NodeClassifier(BatchModel):
    """An encoder of nodes and a linear head: ``model(batch)`` gives the seeds' logits, float ``[batch_size, num_classes]``."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.spec = spec
        self.dropout = nn.Dropout(spec.dropout)
        self.head = nn.Linear(spec.hidden, spec.num_classes)

    def read(self, batch: Any) -> ModelInput:
        learned = learned_vectors(self)
        stores = {node_input.node_type: part_of(batch, node_input.node_type) for node_input in self.spec.inputs}
        layers = hops(batch, layers=self.spec.layers)
        return ModelInput(
            rows={name: of_nodes(learned[name], store) if name in learned else store.x for name, store in stores.items()},
            hops=[edges if isinstance(edges, dict) else {self.spec.relations[0]: edges} for edges in layers],
            found={name: store.num_sampled_nodes for name, store in stores.items()},
            seeds=stores[self.spec.target].get("batch_size"),
        )

    def roots(self, given: ModelInput) -> dict[NodeType, Tensor]:
        """The last hidden layer of the nodes that sampling began at, a batch's first ones: float ``[n, hidden]`` per type."""
        raise NotImplementedError

    def encode(self, batch: Any) -> Tensor:
        """The seeds' last hidden layer, float ``[batch_size, hidden]``."""
        return self._of_seeds(self.read(batch))

    def compute(self, given: ModelInput) -> Tensor:
        logits: Tensor = self.head(self.dropout(self._of_seeds(given)))
        return logits

    def _of_seeds(self, given: ModelInput) -> Tensor:
        return self.roots(given)[self.spec.target][: given.seeds]


class MeanConv(nn.Module):
    """A layer of GraphSAGE (Hamilton et al., 2017): a weight for the node, another for the mean of its neighbours."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.root = nn.Linear(width, hidden)
        self.neighbour = nn.Linear(width, hidden, bias=False)

    def forward(self, x: Tensor, hop: Hop) -> Tensor:
        return aggregate(x, hop, reduce="mean", lin=self.neighbour, root=self.root)


class SelfLoopMeanConv(nn.Module):
    """A layer of GCN (Kipf and Welling, 2017) with row normalisation, D^-1 (A + I) instead of D^-1/2 (A + I) D^-1/2.

    A sampled subgraph does not know its sources' degrees (the outermost look isolated), so the symmetric weights would be
    wrong, and different for training and for full neighbourhoods. A mean over sampled neighbours estimates the mean over all.
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.weight = nn.Linear(width, hidden)

    def forward(self, x: Tensor, hop: Hop) -> Tensor:
        return aggregate(x, hop, reduce="mean", lin=self.weight, own=True)


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
        width = node_input.learned if node_input.width is None else max(node_input.width, 1)
        options = {
            "in_channels": width,
            "hidden_channels": spec.hidden,
            "num_layers": spec.layers,
            "dropout": spec.dropout,
            "norm": "layer",
            "norm_kwargs": {"mode": "node"},
        }
        if spec.kind == "gat":
            encoder: BasicGNN = GAT(**options, heads=spec.heads)
        else:
            encoder = {"sage": _SAGE, "gcn": _GCN}[spec.kind](**options)
        self.encoder: Any = fuse(encoder)

    def roots(self, given: ModelInput) -> dict[NodeType, Tensor]:
        ((name, rows),) = given.rows.items()
        x = to_features(rows) if self.embedding is None else self.dropout(rows)
        # Each layer reads the hops that still matter for the seeds. All in-edges of a node come in one hop, so that is exact.
        for done, (conv, norm, edges) in enumerate(zip(self.encoder.convs, self.encoder.norms, given.hops, strict=True), 1):
            x = F.relu(norm(conv(x, edges[self.spec.relations[0]])))
            x = self.dropout(x) if done < self.spec.layers else x
        return {name: x}


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

    def forward(
        self, x: dict[NodeType, Tensor], edges: dict[Relation, Hop], num_dst: dict[NodeType, int]
    ) -> dict[NodeType, Tensor]:
        """New rows of the first `num_dst` nodes of each type."""
        weights = torch.einsum("rb,bio->rio", self.mixture, self.bases)
        out = {name: self.root(x[name][:count]) for name, count in num_dst.items()}
        # One product per relation, empty ones too, so that every parameter has a gradient on every rank.
        for ((src, _, dst), hop), weight in zip(edges.items(), weights.unbind(), strict=True):
            out[dst] = out[dst] + aggregate(x[src], hop, reduce="mean") @ weight
        return out


class RelationalClassifier(NodeClassifier):
    """R-GCN on any number of node types and relations; features are projected to one width, or learned where there are none."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.inputs = input_modules(spec)
        num_bases = min(spec.bases, len(spec.relations))
        self.convs = nn.ModuleList(RelationalConv(spec.hidden, len(spec.relations), num_bases) for _ in range(spec.layers))

    def roots(self, given: ModelInput) -> dict[NodeType, Tensor]:
        x = projected(given, self.inputs)
        for done, (conv, edges) in enumerate(zip(self.convs, given.hops, strict=True)):
            before = self.spec.layers - done  # the hops whose edges still matter for the seeds
            num_dst = {name: sum(given.found[name][:before]) for name in x}
            x = {name: self.dropout(rows) for name, rows in x.items()}
            out = conv(x, {relation: edges[relation] for relation in self.spec.relations}, num_dst)
            x = {name: F.relu(rows) for name, rows in out.items()}
        return x


def to_features(x: Tensor) -> Tensor:
    """The features that a model computes with, float32: a column of zeros if there is none, because layers need a width."""
    return x.float() if x.shape[1] else torch.zeros(len(x), 1, device=x.device)


def input_modules(spec: ModelSpec) -> nn.ModuleList:
    """Per node type what brings it to the width of the layers: a projection of its features, or a vector for each node."""
    return nn.ModuleList(
        LearnedVectors(node_input, spec.hidden) if node_input.width is None else nn.Linear(max(node_input.width, 1), spec.hidden)
        for node_input in spec.inputs
    )


def projected(given: ModelInput, modules: nn.ModuleList) -> dict[NodeType, Tensor]:
    """Rows of all nodes of a typed batch, ``[n, hidden]`` per node type, made by `input_modules`; what was learned is so wide."""
    return {
        name: rows if isinstance(module, LearnedVectors) else module(to_features(rows))
        for (name, rows), module in zip(given.rows.items(), modules, strict=True)
    }
