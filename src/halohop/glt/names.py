"""The names of GLT that `halohop.glt` offers, and replacements for the others. Code, tests and docs read this table."""

WORKS: dict[str, tuple[str, ...]] = {
    "typing": (
        *(
            "NodeType",
            "EdgeType",
            "EDGE_TYPE_STR_SPLIT",
            "as_str",
            "reverse_edge_type",
            "TensorDataType",
            "NodeLabel",
            "NodeIndex",
        ),
        *("Split", "GraphPartitionData", "FeaturePartitionData", "HeteroGraphPartitionData", "HeteroFeaturePartitionData"),
        *("Seeds", "InputNodes", "EdgeIndexTensor", "InputEdges", "NumNeighbors"),
    ),
    "data": ("Dataset", "DeviceGroup", "Feature", "Graph", "Topology", "random_split", "sort_by_in_degree"),
    "loader": (
        *("LinkLoader", "LinkNeighborLoader", "NeighborLoader", "NodeLoader", "SubGraphLoader"),
        *("get_edge_label_index", "to_data", "to_hetero_data"),
    ),
    "sampler": (
        *("BaseSampler", "EdgeIndex", "EdgeSamplerInput", "HeteroSamplerOutput", "NegativeSampling", "NegativeSamplingMode"),
        *("NeighborOutput", "NeighborSampler", "NodeSamplerInput", "RandomNegativeSampler", "RemoteNodePathSamplerInput"),
        *("RemoteNodeSplitSamplerInput", "RemoteSamplerInput", "SamplerOutput", "SamplingConfig", "SamplingType"),
    ),
    "partition": (
        *("FrequencyPartitioner", "GLTPartitionBook", "HeteroEdgePartitionDict", "HeteroNodePartitionDict", "OffsetId2Index"),
        *("PartitionBook", "PartitionerBase", "RandomPartitioner", "RangePartitionBook", "build_partition_feature"),
        *("cat_feature_cache", "load_feature_partition_data", "load_graph_partition_data", "load_partition"),
    ),
    "distributed": (
        *("CollocatedDistSamplingWorkerOptions", "DistContext", "DistDataset", "DistFeature", "DistGraph"),
        *("DistLinkNeighborLoader", "DistLoader", "DistNeighborLoader", "DistRandomPartitioner", "DistRole", "DistServer"),
        *("DistSubGraphLoader", "MpDistSamplingWorkerOptions", "PartialFeature", "RemoteDistSamplingWorkerOptions"),
        *("RpcDataPartitionRouter", "all_gather", "async_request_server", "barrier", "get_context", "get_server"),
        *("global_all_gather", "global_barrier", "init_client", "init_rpc", "init_server", "init_worker_group"),
        *("get_rpc_master_addr", "get_rpc_master_port", "request_server", "rpc_is_initialized", "rpc_sync_data_partitions"),
        *("shutdown_client", "shutdown_rpc", "wait_and_shutdown_server"),
    ),
    "channel": ("ChannelBase", "MpChannel", "QueueTimeoutError", "SampleMessage", "ShmChannel"),
    "utils": (
        *("CastMixin", "apply_to_all_tensor", "assign_device", "convert_to_tensor", "coo_to_csc"),
        *("coo_to_csr", "count_dict", "default_id_filter", "default_id_select", "ensure_device", "ensure_dir"),
        *("get_available_device", "get_free_port", "id2idx", "index_select"),
        *("load_ckpt", "merge_dict", "parse_size", "ptr2ind", "python_exit_status", "save_ckpt"),
        *("seed_everything", "share_memory", "singleton", "squeeze", "tensor_equal_with_device"),
    ),
}
"""Names that work with GLT's arguments, defaults and results, by package of GLT."""

_TABLES = "read tables from Parquet or CSV files with halohop.load_source (docs/guide/data.md)"
_VINEYARD = "write the graph as files, and partition them with halohop.partition (docs/guide/data.md)"
_SAVES = "write complete partitions with PartitionerBase.partition, halohop.partition or halohop.slices.SliceWriter"
_RPC = "halohop's hosts and servers answer questions about graphs only; use torch.distributed.rpc for your own calls"
_SAMPLING = "use the distributed loaders, which sample in their own threads, and pass them worker options"
_PIECES = "save each piece with torch.save, or all with halohop.slices.SliceWriter; GLT's file is a sequence of pickles"
_MERGED = "use NeighborSampler.sample_from_edges, which samples around both ends at once, so there is nothing to merge"

_IPC = "a Dataset goes to other processes as it is: pass it to torch.multiprocessing, which shares the memory of its tensors"

REFUSED: dict[str, str] = {
    "data.TableDataset": _TABLES,
    "data.UnifiedTensor": "pass the complete tensor as node features; loaders gather its rows wherever it is stored",
    "data.VineyardGid2Lid": _VINEYARD,
    "data.VineyardPartitionBook": _VINEYARD,
    "data.get_fid_from_gid": _VINEYARD,
    "data.get_frag_vertex_num": _VINEYARD,
    "data.get_frag_vertex_offset": _VINEYARD,
    "data.load_edge_feature_from_vineyard": _VINEYARD,
    "data.load_vertex_feature_from_vineyard": _VINEYARD,
    "data.v6d_id_filter": _VINEYARD,
    "data.v6d_id_select": _VINEYARD,
    "data.vineyard_to_csr": _VINEYARD,
    "data.share_ipc": _IPC,
    "data.from_ipc_handle": _IPC,
    "data.Graph.graph_handler": "it is a pointer to a C++ object; pass the Graph itself to samplers and loaders",
    "data.Dataset.load_vineyard": _VINEYARD,
    "channel.RemoteReceivingChannel": "use a loader with RemoteDistSamplingWorkerOptions, which receives batches from servers",
    "utils.append_tensor_to_file": _PIECES,
    "utils.load_and_concatenate_tensors": _PIECES,
    "utils.format_hetero_sampler_output": _MERGED,
    "utils.merge_hetero_sampler_output": _MERGED,
    "partition.save_edge_pb": _SAVES,
    "partition.save_feature_partition": _SAVES,
    "partition.save_feature_partition_cache": _SAVES,
    "partition.save_feature_partition_chunk": _SAVES,
    "partition.save_graph_cache": _SAVES,
    "partition.save_graph_partition": _SAVES,
    "partition.save_meta": _SAVES,
    "partition.save_node_pb": _SAVES,
    "distributed.ConcurrentEventLoop": _SAMPLING,
    "distributed.DistCollocatedSamplingProducer": _SAMPLING,
    "distributed.DistMpSamplingProducer": _SAMPLING,
    "distributed.DistNeighborSampler": _SAMPLING,
    "distributed.DistTableDataset": _TABLES,
    "distributed.DistTableRandomPartitioner": _TABLES,
    "distributed.RpcCalleeBase": _RPC,
    "distributed.rpc_global_request": _RPC,
    "distributed.rpc_global_request_async": _RPC,
    "distributed.rpc_register": _RPC,
    "distributed.rpc_request": _RPC,
    "distributed.rpc_request_async": _RPC,
}
"""Names that raise an error when they are used, and what to do instead."""

ACCEPTED: dict[str, str] = {
    "graph_mode": "there is no GPU here, so the CPU samples; batches stay the same",
    "directed": "neighbors are sampled along the given edges, in the direction of edge_dir",
    "sort_func": "rows keep their order, and a GPU caches those of hot nodes; batches stay the same",
    "strategy": "neighbors are sampled uniformly, or by weight if with_weight is set",
    "split_ratio": "there is no GPU here that caches rows; batches stay the same",
    "device_group_list": "there is no GPU here that caches rows, or rows are on several hosts; batches stay the same",
    "trials_num": "sampling repeats until no pair is an edge, so you get as many pairs as you request",
    "num_rpc_threads": "halohop's transport sizes its threads itself",
    "use_all2all": "rows of all types are always requested together",
    "chunk_size": "rows are written in pieces that fit into memory",
    "graph_caching": "hosts request remote neighbors from their owners; halohop.add_replicas copies hot nodes",
    "master_port": "all loaders of a process share one graph, and meet other processes at the port of the first loader",
    "device": "graphs are divided on the CPU",
}
"""Arguments without effect, and what happens instead. Each warns once per process."""
