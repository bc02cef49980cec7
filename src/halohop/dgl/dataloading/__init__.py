"""`dgl.dataloading`, by its names."""

from importlib import import_module
from typing import Any

from halohop.dgl.dataloading import negative_sampler
from halohop.dgl.dataloading.base import (
    BlockSampler,
    Sampler,
    set_dst_lazy_features,
    set_edge_lazy_features,
    set_node_lazy_features,
    set_src_lazy_features,
)
from halohop.dgl.dataloading.dataloader import DataLoader, EdgeDataLoader, NodeDataLoader
from halohop.dgl.dataloading.edge_sampler import EdgePredictionSampler, as_edge_prediction_sampler, find_exclude_eids
from halohop.dgl.dataloading.neighbor_sampler import (
    LaborSampler,
    MultiLayerFullNeighborSampler,
    MultiLayerNeighborSampler,
    NeighborSampler,
)
from halohop.dgl.notes import missing

__all__ = [
    "BlockSampler",
    "DataLoader",
    "EdgeDataLoader",
    "EdgePredictionSampler",
    "LaborSampler",
    "MultiLayerFullNeighborSampler",
    "MultiLayerNeighborSampler",
    "NeighborSampler",
    "NodeDataLoader",
    "Sampler",
    "as_edge_prediction_sampler",
    "find_exclude_eids",
    "negative_sampler",
    "set_dst_lazy_features",
    "set_edge_lazy_features",
    "set_node_lazy_features",
    "set_src_lazy_features",
]


_OF_DISTRIBUTED = ("DistDataLoader", "DistEdgeDataLoader", "DistNodeDataLoader", "EdgeCollator", "NodeCollator")


def __getattr__(name: str) -> Any:
    if name in _OF_DISTRIBUTED:  # where DGL had them before 2.0
        return getattr(import_module("halohop.dgl.distributed"), name)
    return missing("dataloading", name)
