"""halohop: train graph neural networks on graphs that outgrow one process, one machine or its RAM.

    halohop.partition(data, "parts/", num_parts=4)        divide a graph once
    graph = halohop.open("parts/")                         map it, and find the hosts that hold the rest
    halohop.NeighborLoader(graph, [15, 10, 5], "train")    mini-batches as PyG's loader gives them

Names are loaded when they are first used, so importing halohop costs little.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from halohop.cluster.adding import add_columns
    from halohop.cluster.graph import Graph
    from halohop.cluster.reading import read_partition, read_replicas
    from halohop.cluster.summing import add_weight_sums
    from halohop.datasets.sources import load_link_graph, load_source
    from halohop.loading.metrics import metrics
    from halohop.loading.tensor_channel import TensorChannel
    from halohop.net.connect import connect
    from halohop.net.meeting import Meeting, meet
    from halohop.net.open import open_graph
    from halohop.net.serve import serve
    from halohop.net.slices import partition_slices
    from halohop.partitioning.assigners.dealing import place_at_random
    from halohop.partitioning.slices.slice_reader import join_slices
    from halohop.partitioning.slices.slice_writer import SliceWriter
    from halohop.partitioning.slices.slices import EdgeSlice, MemoryPartition, NodeSlice
    from halohop.pyg.draws import Draws, Edges
    from halohop.pyg.frequency import Frequency, place_by_hotness
    from halohop.pyg.function_loader import FunctionLoader
    from halohop.pyg.graph import graph
    from halohop.pyg.hotness import hotness
    from halohop.pyg.link_neighbor_loader import LinkNeighborLoader
    from halohop.pyg.neighbor_loader import NeighborLoader
    from halohop.pyg.partition import partition
    from halohop.pyg.replicas import Replicas, add_replicas
    from halohop.pyg.sampler import HalohopSampler
    from halohop.pyg.share_near import NearShare, share_near
    from halohop.pyg.stores import HalohopFeatureStore, HalohopGraphStore
    from halohop.pyg.subgraph_loader import SubGraphLoader
    from halohop.samplers.cluster_loader import ClusterLoader
    from halohop.samplers.hgt_loader import HGTLoader
    from halohop.samplers.ppr_loader import PPRLoader, ppr
    from halohop.samplers.random_walk import random_walk
    from halohop.samplers.saint_loader import GraphSAINTEdgeSampler, GraphSAINTNodeSampler, GraphSAINTRandomWalkSampler
    from halohop.sampling.caps import Padding
    from halohop.store.afar.fetching import fetch
    from halohop.store.afar.uploading import upload
    from halohop.store.description import Description, describe
    from halohop.store.schema import Schema
    from halohop.tensors.dist_embedding import DistEmbedding
    from halohop.tensors.dist_tensor import DistTensor
    from halohop.tensors.read_ahead import ReadAhead
    from halohop.transport.base import Limits
    from halohop.transport.security import Certificate, Token, load_token
    from halohop.world import World

    open = open_graph

__version__ = "0.2.0.dev0"

__all__ = [
    "Certificate",
    "ClusterLoader",
    "Description",
    "DistEmbedding",
    "DistTensor",
    "Draws",
    "EdgeSlice",
    "Edges",
    "Frequency",
    "FunctionLoader",
    "Graph",
    "GraphSAINTEdgeSampler",
    "GraphSAINTNodeSampler",
    "GraphSAINTRandomWalkSampler",
    "HGTLoader",
    "HalohopFeatureStore",
    "HalohopGraphStore",
    "HalohopSampler",
    "Limits",
    "LinkNeighborLoader",
    "Meeting",
    "MemoryPartition",
    "NearShare",
    "NeighborLoader",
    "NodeSlice",
    "PPRLoader",
    "Padding",
    "ReadAhead",
    "Replicas",
    "Schema",
    "SliceWriter",
    "SubGraphLoader",
    "TensorChannel",
    "Token",
    "World",
    "add_columns",
    "add_replicas",
    "add_weight_sums",
    "connect",
    "describe",
    "fetch",
    "graph",
    "hotness",
    "join_slices",
    "load_link_graph",
    "load_source",
    "load_token",
    "meet",
    "metrics",
    "partition",
    "partition_slices",
    "place_at_random",
    "place_by_hotness",
    "ppr",
    "random_walk",
    "read_partition",
    "read_replicas",
    "serve",
    "share_near",
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
    "Draws": ("halohop.pyg.draws", "Draws"),
    "Edges": ("halohop.pyg.draws", "Edges"),
    "FunctionLoader": ("halohop.pyg.function_loader", "FunctionLoader"),
    "EdgeSlice": ("halohop.partitioning.slices.slices", "EdgeSlice"),
    "Frequency": ("halohop.pyg.frequency", "Frequency"),
    "Graph": ("halohop.cluster.graph", "Graph"),
    "MemoryPartition": ("halohop.partitioning.slices.slices", "MemoryPartition"),
    "NodeSlice": ("halohop.partitioning.slices.slices", "NodeSlice"),
    "HalohopFeatureStore": ("halohop.pyg.stores", "HalohopFeatureStore"),
    "HalohopGraphStore": ("halohop.pyg.stores", "HalohopGraphStore"),
    "HalohopSampler": ("halohop.pyg.sampler", "HalohopSampler"),
    "LinkNeighborLoader": ("halohop.pyg.link_neighbor_loader", "LinkNeighborLoader"),
    "PPRLoader": ("halohop.samplers.ppr_loader", "PPRLoader"),
    "NearShare": ("halohop.pyg.share_near", "NearShare"),
    "NeighborLoader": ("halohop.pyg.neighbor_loader", "NeighborLoader"),
    "Padding": ("halohop.sampling.caps", "Padding"),
    "SliceWriter": ("halohop.partitioning.slices.slice_writer", "SliceWriter"),
    "SubGraphLoader": ("halohop.pyg.subgraph_loader", "SubGraphLoader"),
    "TensorChannel": ("halohop.loading.tensor_channel", "TensorChannel"),
    "Token": ("halohop.transport.security", "Token"),
    "Certificate": ("halohop.transport.security", "Certificate"),
    "ReadAhead": ("halohop.tensors.read_ahead", "ReadAhead"),
    "Replicas": ("halohop.pyg.replicas", "Replicas"),
    "add_columns": ("halohop.cluster.adding", "add_columns"),
    "add_weight_sums": ("halohop.cluster.summing", "add_weight_sums"),
    "add_replicas": ("halohop.pyg.replicas", "add_replicas"),
    "Schema": ("halohop.store.schema", "Schema"),
    "Limits": ("halohop.transport.base", "Limits"),
    "load_link_graph": ("halohop.datasets.sources", "load_link_graph"),
    "load_source": ("halohop.datasets.sources", "load_source"),
    "load_token": ("halohop.transport.security", "load_token"),
    "World": ("halohop.world", "World"),
    "connect": ("halohop.net.connect", "connect"),
    "DistEmbedding": ("halohop.tensors.dist_embedding", "DistEmbedding"),
    "Description": ("halohop.store.description", "Description"),
    "describe": ("halohop.store.description", "describe"),
    "Meeting": ("halohop.net.meeting", "Meeting"),
    "meet": ("halohop.net.meeting", "meet"),
    "fetch": ("halohop.store.afar.fetching", "fetch"),
    "graph": ("halohop.pyg.graph", "graph"),
    "hotness": ("halohop.pyg.hotness", "hotness"),
    "join_slices": ("halohop.partitioning.slices.slice_reader", "join_slices"),
    "metrics": ("halohop.loading.metrics", "metrics"),
    "open": ("halohop.net.open", "open_graph"),
    "partition": ("halohop.pyg.partition", "partition"),
    "partition_slices": ("halohop.net.slices", "partition_slices"),
    "place_at_random": ("halohop.partitioning.assigners.dealing", "place_at_random"),
    "place_by_hotness": ("halohop.pyg.frequency", "place_by_hotness"),
    "ppr": ("halohop.samplers.ppr_loader", "ppr"),
    "random_walk": ("halohop.samplers.random_walk", "random_walk"),
    "read_partition": ("halohop.cluster.reading", "read_partition"),
    "read_replicas": ("halohop.cluster.reading", "read_replicas"),
    "serve": ("halohop.net.serve", "serve"),
    "share_near": ("halohop.pyg.share_near", "share_near"),
    "upload": ("halohop.store.afar.uploading", "upload"),
}


_MODULES = frozenset(
    {
        *("collectives", "cores", "datasets", "dgl", "errors", "files", "glt", "inference", "init", "memory", "nn", "optim"),
        *("recipes", "testing", "typing"),
    }
)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"halohop.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'halohop' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_MODULES})
