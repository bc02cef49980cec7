"""`graphlearn_torch.distributed`, by its names."""

from typing import Any

from halohop.glt.distributed.dist_client import async_request_server, init_client, request_server, shutdown_client
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
from halohop.glt.distributed.dist_random_partitioner import DistRandomPartitioner
from halohop.glt.distributed.dist_server import DistServer, get_server, init_server, wait_and_shutdown_server
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
    "DistRandomPartitioner",
    "DistRole",
    "DistServer",
    "DistSubGraphLoader",
    "MpDistSamplingWorkerOptions",
    "PartialFeature",
    "RemoteDistSamplingWorkerOptions",
    "RpcDataPartitionRouter",
    "all_gather",
    "async_request_server",
    "barrier",
    "get_context",
    "get_rpc_master_addr",
    "get_rpc_master_port",
    "get_server",
    "global_all_gather",
    "global_barrier",
    "init_client",
    "init_rpc",
    "init_server",
    "init_worker_group",
    "request_server",
    "rpc_is_initialized",
    "rpc_sync_data_partitions",
    "shutdown_client",
    "shutdown_rpc",
    "wait_and_shutdown_server",
]


def __getattr__(name: str) -> Any:
    return missing("distributed", name)
