"""DGL's `dgl.distributed`: partitioned graphs, tables and loaders of several processes."""

from typing import Any

from halohop.dgl.distributed import nn, optim
from halohop.dgl.distributed.dist_context import exit_client, get_rank, initialize, is_initialized
from halohop.dgl.distributed.dist_dataloader import (
    DistDataLoader,
    DistEdgeDataLoader,
    DistNodeDataLoader,
    EdgeCollator,
    NodeCollator,
)
from halohop.dgl.distributed.dist_graph import DistGraph
from halohop.dgl.distributed.dist_tensor import DistTensor
from halohop.dgl.distributed.graph_services import find_edges, in_subgraph, sample_etype_neighbors, sample_neighbors
from halohop.dgl.distributed.nn import DistEmbedding
from halohop.dgl.distributed.partition import load_partition, load_partition_book, load_partition_feats, partition_graph
from halohop.dgl.distributed.partition_book import (
    EdgePartitionPolicy,
    GraphPartitionBook,
    NodePartitionPolicy,
    PartitionPolicy,
    RangePartitionBook,
)
from halohop.dgl.distributed.split import edge_split, node_split
from halohop.dgl.notes import missing

__all__ = [
    "DistDataLoader",
    "DistEdgeDataLoader",
    "DistEmbedding",
    "DistGraph",
    "DistNodeDataLoader",
    "DistTensor",
    "EdgeCollator",
    "EdgePartitionPolicy",
    "GraphPartitionBook",
    "NodeCollator",
    "NodePartitionPolicy",
    "PartitionPolicy",
    "RangePartitionBook",
    "edge_split",
    "exit_client",
    "find_edges",
    "get_rank",
    "in_subgraph",
    "initialize",
    "is_initialized",
    "load_partition",
    "load_partition_book",
    "load_partition_feats",
    "nn",
    "node_split",
    "optim",
    "partition_graph",
    "sample_etype_neighbors",
    "sample_neighbors",
]


def __getattr__(name: str) -> Any:
    return missing("distributed", name)
