"""A training step of PyG's models as their users write it, on halohop's batches or on those of PyG's own loader.

A unit's seconds are those of forward, backward and optimizer; its batches are made between the steps.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch_geometric
from torch import Tensor, nn
from torch_geometric.data import HeteroData
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import GATConv, GCNConv, GINConv, GraphConv, HeteroConv, HGTConv, SAGEConv, models, to_hetero

import halohop
from benchmarks.contestants.pyg_epoch import data_of
from benchmarks.layers import HEADS, HIDDEN, heads_of, widths
from benchmarks.model import CLASSES, Ready, Trainer
from benchmarks.protocol import Info, serve
from benchmarks.work import SeedBatches, column, relations
from halohop.nn import fuse


def start(folder: str, fanout: list[int], threads: int, kind: str, way: str, loader: str = "halohop") -> tuple[Info, Any]:
    """A contestant.

    Args:
        folder: of the graph.
        fanout: of the batches; a model has as many layers.
        threads: of torch.
        kind: of `_PYG` (PyG's models), `_OWN` (layers in a list of the user's module) or `_TYPED`.
        way: "plain", as in PyG's tutorials; "seeds", with `fuse(model, rows="seeds")`; "counts", fused, given the counts of hops.
        loader: "halohop", or "pyg", which samples with pyg-lib or torch-sparse.
    """
    torch.set_num_threads(threads)
    seeds = SeedBatches(folder)
    read = _typed_data if kind in _TYPED else data_of
    graph: Any = halohop.open(f"{folder}/parts-1") if loader == "halohop" else read(folder)
    loaders: dict[int, Any] = {}

    def epoch(batches: int) -> Iterator[Any]:
        if batches not in loaders:
            nodes: Any = torch.cat([torch.from_numpy(chosen) for chosen in seeds.take(batches)])
            nodes = ("paper", nodes) if kind in _TYPED else nodes
            make: Any = halohop.NeighborLoader if loader == "halohop" else NeighborLoader
            loaders[batches] = make(graph, fanout, nodes, batch_size=seeds.batch_size)
        return iter(loaders[batches])

    def model() -> nn.Module:
        made = _model(kind, folder, len(fanout))
        fused = made if way == "plain" else fuse(made, rows="seeds" if way == "seeds" else "all")
        return _AsWritten(fused, counts=way == "counts")

    versions = {module.__name__: module.__version__ for module in (halohop, torch, torch_geometric)}
    return Info(versions=versions), Trainer(model, epoch, _ready, step_only=True).run


def _ready(batch: Any) -> Ready:
    """The batch itself stands where layers of other contestants have their edges."""
    typed = isinstance(batch, HeteroData)
    nodes, edges = (batch["paper"], batch.edge_index_dict.values()) if typed else (batch, [batch.edge_index])
    return nodes.x, nodes.y[: nodes.batch_size], [(ends[0], batch, nodes.batch_size) for ends in edges]


class _AsWritten(nn.Module):
    """The call of a user's script: the model of a batch, and the rows of its seeds.

    Args:
        model: the user's.
        counts: whether the script passes the counts of the hops.
    """

    def __init__(self, model: nn.Module, *, counts: bool) -> None:
        super().__init__()
        self.model, self._counts = model, counts

    def forward(self, x: Tensor, hops: list[tuple[Tensor, Any, int]]) -> Tensor:
        _, batch, seeds = hops[0]
        given: dict[str, Any] = {}
        if self._counts:
            given = {"num_sampled_nodes_per_hop": batch.num_sampled_nodes, "num_sampled_edges_per_hop": batch.num_sampled_edges}
        out: Tensor = self.model(batch) if isinstance(batch, HeteroData) else self.model(x, batch.edge_index, **given)
        return out[:seeds]


class _Own(nn.Module):
    """A module as users write it: layers in a list, a ReLU between them."""

    def __init__(self, make: Callable[[int, int], nn.Module], features: int, layers: int) -> None:
        super().__init__()
        self.convs = nn.ModuleList(make(wide, narrow) for wide, narrow in widths(features, layers))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        for number, conv in enumerate(self.convs):
            x = conv(x, edge_index)
            if number < len(self.convs) - 1:
                x = x.relu()
        return x


class _Typed(nn.Module):
    """Rows of all types in as many columns, and layers over all relations.

    Args:
        folder: of the graph; types without features get rows to learn.
        layers: how many.
        convs: gives the layers, of the types and relations.
    """

    def __init__(self, folder: str, layers: int, convs: Callable[[Any, int], list[nn.Module]]) -> None:
        super().__init__()
        schema = halohop.open(f"{folder}/parts-1").schema
        self.begin = nn.ModuleDict(
            {
                kind: nn.Linear(table.columns["x"].shape[0], HIDDEN)
                if "x" in table.columns
                else nn.Embedding(table.count, HIDDEN)
                for kind, table in schema.nodes.items()
            }
        )
        self.convs = nn.ModuleList(convs((list(schema.nodes), list(schema.edges)), layers))
        self.end = nn.Linear(HIDDEN, CLASSES)

    def forward(self, batch: HeteroData) -> Tensor:
        rows = {kind: first(batch[kind].x if "x" in batch[kind] else batch[kind].n_id) for kind, first in self.begin.items()}
        for conv in self.convs:
            rows = {kind: out.relu() for kind, out in conv(rows, batch.edge_index_dict).items()}
        out: Tensor = self.end(rows["paper"])
        return out


def _gin(wide: int, narrow: int) -> nn.Module:
    return GINConv(nn.Sequential(nn.Linear(wide, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, narrow)))


def _gat(wide: int, narrow: int) -> nn.Module:
    columns, heads = heads_of(narrow)
    return GATConv(wide, columns, heads=heads)


_PYG: dict[str, Callable[..., nn.Module]] = {
    "GraphSAGE": models.GraphSAGE,
    "GCN": models.GCN,
    "GIN": models.GIN,
    "GAT": partial(models.GAT, heads=HEADS),
}
_OWN: dict[str, Callable[[int, int], nn.Module]] = {
    "SAGEConv": SAGEConv,
    "GCNConv": GCNConv,
    "GINConv": _gin,
    "GATConv": _gat,
    "GraphConv": GraphConv,
}
_TYPED: dict[str, Callable[[Any, int], list[nn.Module]]] = {
    "to_hetero(GraphSAGE)": lambda types, layers: [to_hetero(models.GraphSAGE(HIDDEN, HIDDEN, layers), types)],
    "HeteroConv(SAGEConv)": lambda types, layers: [
        HeteroConv({relation: SAGEConv(HIDDEN, HIDDEN) for relation in types[1]}) for _ in range(layers)
    ],
    "HGTConv": lambda types, layers: [HGTConv(HIDDEN, HIDDEN, types, HEADS) for _ in range(layers)],
}


def _model(kind: str, folder: str, layers: int) -> nn.Module:
    if kind in _TYPED:
        return _Typed(folder, layers, _TYPED[kind])
    features = column(folder, "x").shape[1]
    return _PYG[kind](features, HIDDEN, layers, CLASSES) if kind in _PYG else _Own(_OWN[kind], features, layers)


def _typed_data(folder: str) -> HeteroData:
    """A typed graph as PyG's object, in memory; edges are in the order of their destinations."""
    data = HeteroData()
    for kind, table in halohop.open(f"{folder}/parts-1").schema.nodes.items():
        data[kind].num_nodes = table.count
        for name in {"x", "y"} & {*table.columns}:
            data[kind][name] = torch.from_numpy(column(folder, name, kind))
    for relation, (indptr, indices) in relations(folder).items():
        dst = torch.arange(len(indptr) - 1).repeat_interleave(torch.from_numpy(indptr).diff())
        data[relation].edge_index = torch.stack([torch.from_numpy(indices).long(), dst])
    return data


if __name__ == "__main__":
    serve(start)
