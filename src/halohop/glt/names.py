"""Which names of GLT there are here, and what takes the place of the others: the one table that code, tests and docs read."""

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
"""By package of GLT, what works with GLT's arguments, defaults and results."""

_TABLES = "halohop reads tables of Parquet and CSV files; halohop.load_source, docs/guide/data.md"
_VINEYARD = "write the graph as files, and divide it by halohop.partition (docs/guide/data.md)"
_SAVES = "partitions are written whole: PartitionerBase.partition, halohop.partition, halohop.SliceWriter"
_RPC = "hosts and servers of halohop answer about graphs only; for calls of your own use torch.distributed.rpc"
_SAMPLING = "the loaders sample, in threads of their own; give them worker options"
_PIECES = "GLT's file is a row of pickles; write each piece by torch.save, or all of them as rows of halohop.SliceWriter"
_MERGED = "NeighborSampler.sample_from_edges samples around both ends at once, and its output needs no merging"

_IPC = "a Dataset goes to other processes as it is, its tensors in shared memory; give it to torch.multiprocessing"

REFUSED: dict[str, str] = {
    "data.TableDataset": _TABLES,
    "data.UnifiedTensor": "rows are gathered by the loaders wherever they lie; give them the whole tensor as node features",
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
    "data.Graph.graph_handler": "it is a pointer to a C++ object; samplers and loaders take the Graph itself",
    "data.Dataset.load_vineyard": _VINEYARD,
    "channel.RemoteReceivingChannel": "loaders with RemoteDistSamplingWorkerOptions receive batches from servers",
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
"""What is refused when it is used, and what to do instead."""

ACCEPTED: dict[str, str] = {
    "graph_mode": "there is no GPU here, so neighbours are drawn on the CPU; batches are the same",
    "directed": "neighbours are drawn along the edges that are given, by edge_dir",
    "sort_func": "rows stay in the order in which they lie; a GPU keeps those of the hottest nodes; batches are the same",
    "strategy": "neighbours are drawn at random, by their weights with with_weight",
    "split_ratio": "there is no GPU here that keeps rows; batches are the same",
    "device_group_list": "there is no GPU here that keeps rows, or they are on several hosts; batches are the same",
    "trials_num": "pairs are drawn until none of them is an edge, and there are as many as were asked for",
    "num_rpc_threads": "the transport of halohop has the threads that it needs",
    "use_all2all": "rows of all types are asked for together as it is",
    "chunk_size": "rows are divided in pieces that fit the memory",
    "graph_caching": "hosts ask each other for what they lack; halohop.add_replicas copies what is needed most",
    "master_port": "all loaders of a process share one graph and one meeting, at the port of the first",
    "device": "graphs are divided on the CPU",
}
"""Arguments that change nothing here, and what happens instead. Each is said once a process."""
