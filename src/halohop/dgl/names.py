"""Which names of DGL there are here, and what takes the place of the others: the one table that code, tests and docs read."""

WORKS: dict[str, tuple[str, ...]] = {
    "distributed": (
        *("initialize", "exit_client", "DistGraph", "DistTensor", "DistEmbedding", "GraphPartitionBook", "PartitionPolicy"),
        *("NodePartitionPolicy", "EdgePartitionPolicy", "RangePartitionBook", "partition_graph", "load_partition"),
        *("load_partition_book", "load_partition_feats", "find_edges", "get_rank", "in_subgraph", "sample_neighbors"),
        *("sample_etype_neighbors", "node_split", "edge_split", "DistDataLoader", "DistNodeDataLoader", "DistEdgeDataLoader"),
        *("NodeCollator", "EdgeCollator"),
    ),
    "distributed.optim": ("SparseAdam", "SparseAdagrad"),
    "nn": (
        *("EdgeGATConv", "EdgeWeightNorm", "GATConv", "GATv2Conv", "GINConv", "GINEConv", "GraphConv", "HeteroEmbedding"),
        *("HeteroGraphConv", "HeteroLinear", "RelGraphConv", "SAGEConv", "TypedLinear", "WeightBasis"),
    ),
    "nn.functional": ("edge_softmax",),
}
"""By package of DGL, what works with DGL's arguments, defaults and results."""

_RPC = "hosts and servers of halohop answer about graphs only; for calls of your own use torch.distributed.rpc"
_SERVERS = "`halohop launch --num_servers N` or `halohop serve` starts servers"
_SAVED = "tables and their state are saved together: g.engine.tables.save(folder, step=...), and load"

_OF_PYG = "torch_geometric.nn has this layer, or one like it; graph.to_pyg() is what it reads"

REFUSED: dict[str, str] = {
    **{
        f"nn.{name}": _OF_PYG
        for name in (
            *("AGNNConv", "APPNPConv", "AvgPooling", "CFConv", "ChebConv", "DotGatConv", "EGATConv", "EdgeConv", "GCN2Conv"),
            *("GMMConv", "GatedGraphConv", "GlobalAttentionPooling", "HGTConv", "JumpingKnowledge", "MaxPooling", "NNConv"),
            *("PNAConv", "SGConv", "Set2Set", "SortPooling", "SumPooling", "TAGConv", "TransE", "TransR"),
        )
    },
    "nn.NodeEmbedding": "halohop.DistEmbedding and halohop.optim learn vectors, on one host and on several",
    "distributed.DistGraphServer": _SERVERS,
    "distributed.start_server": _SERVERS,
    "distributed.ServerState": _SERVERS,
    "distributed.connect_to_server": "DistGraph connects to the servers that HALOHOP_SERVERS names, or to the other hosts",
    "distributed.KVClient": "rows of any column or table are read by `g.ndata[name][ids]`, and written into a DistTensor",
    "distributed.KVServer": _SERVERS,
    **{
        f"distributed.{name}": _RPC
        for name in (
            *("Request", "Response", "register_service", "send_request", "recv_request", "send_response", "recv_response"),
            *("remote_call", "send_request_to_machine", "remote_call_to_machine", "fast_pull", "rpc"),
        )
    },
    "distributed.dgl_partition_to_graphbolt": "partitions have one format, which is mapped and read in place",
    "distributed.gb_convert_single_dgl_partition": "partitions have one format, which is mapped and read in place",
    "distributed.DistGraph.add_edge_attribute": "weights are stored columns: g.edata[name] before partition_graph",
    "distributed.DistGraph.edges()": "the edges lie on several hosts; find_edges has those of some ids, g.engine.edges all",
    "distributed.DistGraph.to": "partitions stay on their hosts; move blocks and rows: block.to(device)",
    "distributed.DistGraph.subgraph": "halohop.SubGraphLoader(g.engine, ...) makes induced subgraphs",
    "distributed.DistGraph.add_edges": "a partitioned graph does not change; add them before partition_graph",
    "distributed.DistGraph.add_nodes": "a partitioned graph does not change; add them before partition_graph",
    **{
        f"distributed.optim.{rule}.{name}": _SAVED
        for rule in ("SparseAdam", "SparseAdagrad")
        for name in ("save", "load", "local_state_dict", "load_local_state_dict")
    },
}
"""What is refused when it is used, and what to do instead."""

_LAUNCHER = "the transport of halohop has the threads and queues that it needs"

ACCEPTED: dict[str, str] = {
    "max_queue_size": _LAUNCHER,
    "net_type": _LAUNCHER,
    "num_worker_threads": _LAUNCHER,
    "num_servers": "`halohop launch --num_servers` says how many there are",
    "num_workers": "`halohop launch --num_samplers`, or num_workers of the loaders, says how many threads make batches",
    "use_graphbolt": "partitions have one format, which is mapped and read in place",
    "attach": "names of tables are those of one job",
    "num_hops": "what lies on other hosts is asked for; halohop.add_replicas copies what is needed most",
    "num_trainers_per_machine": "node_split deals the nodes of a host's partitions to its trainers",
    "node_trainer_ids": "nodes of a host's partitions are dealt to its trainers",
    "edge_trainer_ids": "edges of a host's partitions are dealt to its trainers",
    "objtype": "METIS minimises the edges that it cuts",
    "graph_formats": "partitions have lists of in-edges, which need no other format",
    "n_jobs": "partitions are written as memory and disk allow; halohop.partition(worker=True) shares the work among hosts",
    "store_eids": "partitions have the user's ids of edges",
    "store_inner_node": "partitions know their own nodes",
    "store_inner_edge": "partitions know their own edges",
}
"""Arguments that change nothing here, and what happens instead. Each is said once a process."""
