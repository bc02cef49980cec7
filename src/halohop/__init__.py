"""halohop: train graph neural networks on graphs that outgrow one process, one machine or its RAM.

    halohop.partition(data, "parts/", num_parts=4)        divide a graph once
    graph = halohop.open("parts/")                         map it, and find the hosts that hold the rest
    halohop.NeighborLoader(graph, [15, 10, 5], "train")    mini-batches as PyG's loader gives them

Names are loaded when they are first used, so importing halohop costs little.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from halohop import hosts, placement, records, security, slices  # noqa: F401
    from halohop.cluster.adding import add_columns
    from halohop.cluster.graph import Graph
    from halohop.cluster.summing import add_weight_sums
    from halohop.datasets.sources import load_link_graph, load_source
    from halohop.loading.metrics import metrics
    from halohop.net.connect import connect
    from halohop.net.open import open_graph
    from halohop.net.serve import serve
    from halohop.pyg.function_loader import FunctionLoader
    from halohop.pyg.graph import graph
    from halohop.pyg.link_neighbor_loader import LinkNeighborLoader
    from halohop.pyg.neighbor_loader import NeighborLoader
    from halohop.pyg.partition import partition
    from halohop.pyg.replicas import Replicas, add_replicas
    from halohop.pyg.sampler import HalohopSampler
    from halohop.pyg.stores import HalohopFeatureStore, HalohopGraphStore
    from halohop.pyg.subgraph_loader import SubGraphLoader
    from halohop.samplers.cluster_loader import ClusterLoader
    from halohop.samplers.hgt_loader import HGTLoader
    from halohop.samplers.ppr_loader import PPRLoader, ppr
    from halohop.samplers.random_walk import random_walk
    from halohop.samplers.saint_loader import GraphSAINTEdgeSampler, GraphSAINTNodeSampler, GraphSAINTRandomWalkSampler
    from halohop.store.afar.fetching import fetch
    from halohop.store.afar.uploading import upload
    from halohop.store.description import describe
    from halohop.tensors.dist_embedding import DistEmbedding
    from halohop.tensors.dist_tensor import DistTensor
    from halohop.tensors.read_ahead import ReadAhead
    from halohop.world import World

    open = open_graph

__version__ = "0.2.0.dev0"

__all__ = [
    "ClusterLoader",
    "DistEmbedding",
    "DistTensor",
    "FunctionLoader",
    "Graph",
    "GraphSAINTEdgeSampler",
    "GraphSAINTNodeSampler",
    "GraphSAINTRandomWalkSampler",
    "HGTLoader",
    "HalohopFeatureStore",
    "HalohopGraphStore",
    "HalohopSampler",
    "LinkNeighborLoader",
    "NeighborLoader",
    "PPRLoader",
    "ReadAhead",
    "Replicas",
    "SubGraphLoader",
    "World",
    "add_columns",
    "add_replicas",
    "add_weight_sums",
    "connect",
    "describe",
    "fetch",
    "graph",
    "load_link_graph",
    "load_source",
    "metrics",
    "partition",
    "ppr",
    "random_walk",
    "serve",
    "upload",
]
"""All public names but `open`, which ``from halohop import *`` must not put in the place of Python's."""

_HOMES = {
    "GraphSAINTEdgeSampler": ("halohop.samplers.saint_loader", "GraphSAINTEdgeSampler"),
    "GraphSAINTNodeSampler": ("halohop.samplers.saint_loader", "GraphSAINTNodeSampler"),
    "GraphSAINTRandomWalkSampler": ("halohop.samplers.saint_loader", "GraphSAINTRandomWalkSampler"),
    "HGTLoader": ("halohop.samplers.hgt_loader", "HGTLoader"),
    "ClusterLoader": ("halohop.samplers.cluster_loader", "ClusterLoader"),
    "DistTensor": ("halohop.tensors.dist_tensor", "DistTensor"),
    "FunctionLoader": ("halohop.pyg.function_loader", "FunctionLoader"),
    "Graph": ("halohop.cluster.graph", "Graph"),
    "HalohopFeatureStore": ("halohop.pyg.stores", "HalohopFeatureStore"),
    "HalohopGraphStore": ("halohop.pyg.stores", "HalohopGraphStore"),
    "HalohopSampler": ("halohop.pyg.sampler", "HalohopSampler"),
    "LinkNeighborLoader": ("halohop.pyg.link_neighbor_loader", "LinkNeighborLoader"),
    "PPRLoader": ("halohop.samplers.ppr_loader", "PPRLoader"),
    "NeighborLoader": ("halohop.pyg.neighbor_loader", "NeighborLoader"),
    "SubGraphLoader": ("halohop.pyg.subgraph_loader", "SubGraphLoader"),
    "ReadAhead": ("halohop.tensors.read_ahead", "ReadAhead"),
    "Replicas": ("halohop.pyg.replicas", "Replicas"),
    "add_columns": ("halohop.cluster.adding", "add_columns"),
    "add_weight_sums": ("halohop.cluster.summing", "add_weight_sums"),
    "add_replicas": ("halohop.pyg.replicas", "add_replicas"),
    "load_link_graph": ("halohop.datasets.sources", "load_link_graph"),
    "load_source": ("halohop.datasets.sources", "load_source"),
    "World": ("halohop.world", "World"),
    "connect": ("halohop.net.connect", "connect"),
    "DistEmbedding": ("halohop.tensors.dist_embedding", "DistEmbedding"),
    "describe": ("halohop.store.description", "describe"),
    "fetch": ("halohop.store.afar.fetching", "fetch"),
    "graph": ("halohop.pyg.graph", "graph"),
    "metrics": ("halohop.loading.metrics", "metrics"),
    "open": ("halohop.net.open", "open_graph"),
    "partition": ("halohop.pyg.partition", "partition"),
    "ppr": ("halohop.samplers.ppr_loader", "ppr"),
    "random_walk": ("halohop.samplers.random_walk", "random_walk"),
    "serve": ("halohop.net.serve", "serve"),
    "upload": ("halohop.store.afar.uploading", "upload"),
}


_MOVED = {
    "hosts": ("Limits", "Meeting", "TensorChannel", "meet"),
    "placement": ("Frequency", "NearShare", "hotness", "place_at_random", "place_by_hotness", "read_replicas", "share_near"),
    "records": ("Description", "Draws", "Edges", "Padding", "Schema"),
    "security": ("Certificate", "Token", "load_token"),
    "slices": ("EdgeSlice", "MemoryPartition", "NodeSlice", "SliceWriter", "join_slices", "partition_slices", "read_partition"),
}
"""Names that have moved from here to public modules. `halohop.Token` and the others work until 0.4."""

_MODULES = frozenset(
    {
        *("collectives", "cores", "datasets", "dgl", "errors", "files", "glt", "inference", "init", "memory", "nn", "optim"),
        *("recipes", "testing", "typing", *_MOVED),
    }
)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"halohop.{name}")
    if home := next((module for module, names in _MOVED.items() if name in names), None):
        return getattr(import_module(f"halohop.{home}"), name)
    if name not in _HOMES:
        raise AttributeError(f"module 'halohop' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_MODULES})
