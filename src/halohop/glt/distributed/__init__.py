"""`graphlearn_torch.distributed`, by its names."""

from typing import Any

from halohop.glt.distributed.dist_context import DistContext, DistRole, get_context, init_worker_group
from halohop.glt.distributed.dist_dataset import DistDataset
from halohop.glt.distributed.dist_feature import DistFeature, PartialFeature
from halohop.glt.distributed.dist_graph import DistGraph
from halohop.glt.distributed.dist_link_neighbor_loader import DistLinkNeighborLoader
from halohop.glt.distributed.dist_loader import DistLoader
from halohop.glt.distributed.dist_neighbor_loader import DistNeighborLoader
from halohop.glt.distributed.dist_options import (
    AllDistSamplingWorkerOptions,
    CollocatedDistSamplingWorkerOptions,
    MpDistSamplingWorkerOptions,
    RemoteDistSamplingWorkerOptions,
)
from halohop.glt.distributed.dist_subgraph_loader import DistSubGraphLoader
from halohop.glt.distributed.rpc import (
    RpcDataPartitionRouter,
    all_gather,
    barrier,
    get_rpc_master_addr,
    get_rpc_master_port,
    global_all_gather,
    global_barrier,
    init_rpc,
    rpc_is_initialized,
    rpc_sync_data_partitions,
    shutdown_rpc,
)
from halohop.glt.notes import missing

__all__ = [
    "AllDistSamplingWorkerOptions",
    "CollocatedDistSamplingWorkerOptions",
    "DistContext",
    "DistDataset",
    "DistFeature",
    "DistGraph",
    "DistLinkNeighborLoader",
    "DistLoader",
    "DistNeighborLoader",
    "DistRole",
    "DistSubGraphLoader",
    "MpDistSamplingWorkerOptions",
    "PartialFeature",
    "RemoteDistSamplingWorkerOptions",
    "RpcDataPartitionRouter",
    "all_gather",
    "barrier",
    "get_context",
    "get_rpc_master_addr",
    "get_rpc_master_port",
    "global_all_gather",
    "global_barrier",
    "init_rpc",
    "init_worker_group",
    "rpc_is_initialized",
    "rpc_sync_data_partitions",
    "shutdown_rpc",
]


def __getattr__(name: str) -> Any:
    return missing("distributed", name)
