"""DGL's `dgl.distributed`: partitioned graphs, tables and loaders of several processes."""

from typing import Any

from halohop.dgl.distributed import nn, optim
from halohop.dgl.distributed.dist_context import exit_client, get_rank, initialize, is_initialized
from halohop.dgl.distributed.dist_graph import DistGraph
from halohop.dgl.distributed.dist_tensor import DistTensor
from halohop.dgl.distributed.graph_services import find_edges
from halohop.dgl.distributed.nn import DistEmbedding
from halohop.dgl.distributed.partition import load_partition, load_partition_book, load_partition_feats, partition_graph
from halohop.dgl.distributed.partition_book import (
    EdgePartitionPolicy,
    GraphPartitionBook,
    NodePartitionPolicy,
    PartitionPolicy,
    RangePartitionBook,
)
from halohop.dgl.notes import missing

__all__ = [
    "DistEmbedding",
    "DistGraph",
    "DistTensor",
    "EdgePartitionPolicy",
    "GraphPartitionBook",
    "NodePartitionPolicy",
    "PartitionPolicy",
    "RangePartitionBook",
    "exit_client",
    "find_edges",
    "get_rank",
    "initialize",
    "is_initialized",
    "load_partition",
    "load_partition_book",
    "load_partition_feats",
    "nn",
    "optim",
    "partition_graph",
]


def __getattr__(name: str) -> Any:
    return missing("distributed", name)
