"""GraphLearn-for-PyTorch's names over halohop: scripts written for it run by changing one import.

    import halohop.glt as glt        instead of        import graphlearn_torch as glt

A thin layer: graphs, batches, hosts and servers are halohop's. `names` lists what works, what is accepted and what is refused;
docs/migrate.md says what differs.
"""

from halohop.glt import channel, data, distributed, loader, partition, sampler, utils
from halohop.glt.typing import (
    EDGE_TYPE_STR_SPLIT,
    EdgeIndexTensor,
    EdgeType,
    FeaturePartitionData,
    GraphPartitionData,
    HeteroFeaturePartitionData,
    HeteroGraphPartitionData,
    InputEdges,
    InputNodes,
    NodeIndex,
    NodeLabel,
    NodeType,
    NumNeighbors,
    Seeds,
    Split,
    TensorDataType,
    as_str,
    reverse_edge_type,
)

__all__ = [
    "EDGE_TYPE_STR_SPLIT",
    "EdgeIndexTensor",
    "EdgeType",
    "FeaturePartitionData",
    "GraphPartitionData",
    "HeteroFeaturePartitionData",
    "HeteroGraphPartitionData",
    "InputEdges",
    "InputNodes",
    "NodeIndex",
    "NodeLabel",
    "NodeType",
    "NumNeighbors",
    "Seeds",
    "Split",
    "TensorDataType",
    "as_str",
    "channel",
    "data",
    "distributed",
    "loader",
    "partition",
    "reverse_edge_type",
    "sampler",
    "utils",
]
