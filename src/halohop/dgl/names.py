"""Which names of DGL there are here, and what takes the place of the others: the one table that code, tests and docs read."""

WORKS: dict[str, tuple[str, ...]] = {
    "": (
        *("graph", "heterograph", "create_block", "DGLGraph", "DGLError", "NID", "EID", "NTYPE", "ETYPE", "ALL"),
        *("edge_subgraph", "in_subgraph", "merge", "out_subgraph", "remove_edges", "to_block"),
        *("add_self_loop", "remove_self_loop", "reverse", "to_bidirected", "add_reverse_edges", "to_homogeneous", "seed"),
    ),
    "function": (
        *("copy_u", "copy_e", "sum", "mean", "max", "min"),
        *(f"{a}_{op}_{b}" for a in "uve" for b in "uve" if a != b for op in ("add", "sub", "mul", "div", "dot")),
    ),
    "dataloading": (
        *("BlockSampler", "DataLoader", "EdgeDataLoader", "EdgePredictionSampler", "LaborSampler", "NodeDataLoader", "Sampler"),
        *("MultiLayerFullNeighborSampler", "MultiLayerNeighborSampler", "NeighborSampler", "as_edge_prediction_sampler"),
        *("find_exclude_eids", "negative_sampler", "set_dst_lazy_features", "set_edge_lazy_features"),
        *("set_node_lazy_features", "set_src_lazy_features"),
        *("DistDataLoader", "DistEdgeDataLoader", "DistNodeDataLoader", "EdgeCollator", "NodeCollator"),
    ),
    "dataloading.negative_sampler": ("GlobalUniform", "PerSourceUniform", "Uniform"),
    "sampling": ("sample_neighbors",),
    "distributed": (
        *("initialize", "exit_client", "DistGraph", "DistTensor", "DistEmbedding", "GraphPartitionBook", "PartitionPolicy"),
        *("NodePartitionPolicy", "EdgePartitionPolicy", "RangePartitionBook", "partition_graph", "load_partition"),
        *("load_partition_book", "load_partition_feats", "find_edges", "get_rank", "in_subgraph", "sample_neighbors"),
        *("sample_etype_neighbors", "node_split", "edge_split", "DistDataLoader", "DistNodeDataLoader", "DistEdgeDataLoader"),
        *("NodeCollator", "EdgeCollator", "nn", "optim"),
    ),
    "distributed.nn": ("DistEmbedding", "NodeEmbedding"),
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

_UNCHANGED = "a graph does not change; make another: dgl.graph, dgl.add_self_loop, dgl.remove_edges, dgl.edge_subgraph, dgl.merge"
_FUNCTION = "call the function of halohop.dgl, which returns another graph"
_SENDING = "update_all on a graph that has the edges in question: dgl.in_subgraph, dgl.edge_subgraph"
_WALKS = "halohop.random_walk, or a sampler of your own: dataloading.BlockSampler.sample_frontier"
_MANY = "a graph of many small ones is one graph here; read them out by torch.segment_reduce or PyG's pooling"
_SOURCES = "halohop.load_source reads OGB's, PyG's and your own files (docs/data.md); give its edges to dgl.graph"
_FILES = "dgl.distributed.partition_graph or halohop.partition writes a graph; torch.save keeps one as it is"
_PYG = "make it by a transform of PyG, of g.to_pyg()"

_OF_GRAPHS: dict[str, tuple[str, ...]] = {
    _UNCHANGED: ("add_edges", "add_nodes", "remove_edges", "remove_nodes"),
    _FUNCTION: (*("add_self_loop", "remove_self_loop", "reverse", "edge_subgraph", "sample_etype_neighbors", "subgraph"),),
    _SENDING: ("pull", "push", "send_and_recv", "prop_nodes", "prop_edges", "group_apply_edges"),
    _WALKS: ("khop_in_subgraph", "khop_out_subgraph", "sample_labors", "sample_neighbors_biased", "select_topk"),
    _MANY: ("batch_size", "batch_num_nodes", "batch_num_edges", "set_batch_num_nodes", "set_batch_num_edges"),
    _PYG: ("line_graph", "reorder_graph", "to_simple", "to_networkx", "to_cugraph", "inc", "incidence_matrix", "metagraph"),
    "a sparse matrix is made of adj_tensors('csr'), by torch.sparse_csr_tensor": ("adj", "adj_external", "adjacency_matrix"),
    "ids whose rows meet a condition: condition(g.ndata).nonzero()": ("filter_nodes", "filter_edges"),
    "a column is set as a whole before it is read": ("set_n_initializer", "set_e_initializer"),
    "a graph goes to other processes by fork or pickle, its tensors in shared memory": ("shared_memory",),
    "pin_memory() returns a graph in pinned memory": ("pin_memory_", "unpin_memory_", "record_stream"),
    "halohop.LinkNeighborLoader, or dataloading.negative_sampler": ("global_uniform_negative_sampling",),
}

_OF_DGL: dict[str, tuple[str, ...]] = {
    _UNCHANGED: ("add_edges", "add_nodes", "remove_nodes"),
    _WALKS: ("khop_in_subgraph", "khop_out_subgraph", "khop_graph", "khop_adj", "metapath_reachable_graph"),
    _MANY: (
        *("batch", "unbatch", "slice_batch", "sum_nodes", "mean_nodes", "max_nodes", "softmax_nodes", "topk_nodes"),
        *("sum_edges", "mean_edges", "max_edges", "softmax_edges", "topk_edges", "readout_nodes", "readout_edges"),
        *("broadcast_nodes", "broadcast_edges"),
    ),
    _SOURCES: (
        "data",
        "from_networkx",
        "from_scipy",
        "bipartite_from_networkx",
        "bipartite_from_scipy",
        "rand_graph",
        "rand_bipartite",
    ),
    _FILES: ("load_graphs", "save_graphs"),
    _PYG: (
        *("line_graph", "to_networkx", "to_simple", "to_simple_graph", "reorder_graph", "knn_graph", "lap_pe"),
        *("laplacian_pe", "radius_graph", "random_walk_pe", "shortest_dist", "norm_by_dst"),
    ),
    "update_all and apply_edges with halohop.dgl.function, or halohop.nn.functional": ("ops", "sparse", "copy_u", "u_dot_v"),
    "nodes are numbered anew by dgl.to_block; PyG's induced subgraphs are halohop.SubGraphLoader's": (
        "node_subgraph",
        "compact_graphs",
    ),
    "g[relation] is the graph of one relation": (
        "edge_type_subgraph",
        "node_type_subgraph",
        "to_heterogeneous",
        "block_to_graph",
    ),
    "partition_graph and halohop.partition assign nodes by METIS": ("metis_partition", "metis_partition_assignment"),
    "loaders read a graph's columns when a batch asks for them": (
        "set_node_lazy_features",
        "set_edge_lazy_features",
        "LazyFeature",
    ),
    "DataLoader and distributed.DistGraph take the place of it": ("graphbolt",),
}

_OF_LOADERS: dict[str, str] = {
    "CappedNeighborSampler": "halohop.NeighborLoader(pad=...) makes room for a number of nodes",
    "ClusterGCNSampler": "halohop.ClusterLoader makes batches of clusters",
    "GraphCollator": _MANY,
    "GraphDataLoader": _MANY,
    "SAINTSampler": "halohop.GraphSAINTNodeSampler and its kin draw such subgraphs",
    "ShaDowKHopSampler": "halohop.SubGraphLoader makes induced subgraphs around seeds",
    "SpotTarget": "give as_edge_prediction_sampler(exclude=...) a function of the ids of a batch's edges",
}

_OF_SAMPLING: dict[str, str] = {
    **dict.fromkeys(("PinSAGESampler", "RandomWalkNeighborSampler"), _WALKS),
    **dict.fromkeys(("node2vec_random_walk", "pack_traces", "random_walk"), "halohop.random_walk, with p and q for node2vec"),
    "global_uniform_negative_sampling": "dataloading.negative_sampler.GlobalUniform",
    "sample_etype_neighbors": "sample_neighbors takes a dict of relations and fanouts",
    "sample_labors": "dataloading.LaborSampler",
    "sample_neighbors_biased": "sample_neighbors(prob=...) draws by a column of weights",
    "sample_neighbors_fused": "sample_neighbors, and to_block",
    "select_topk": "sample_neighbors(g, nodes, -1), and torch.topk of a column of its edges",
}

_OF_DISTRIBUTED: dict[str, str] = {
    _SERVERS: "DistGraphServer KVServer ServerState start_server",
    "DistGraph connects to the servers that HALOHOP_SERVERS names, or to the other hosts": "connect_to_server",
    "rows of any column or table are read by g.ndata[name][ids], and written into a DistTensor": "KVClient fast_pull",
    "halohop.errors has what is raised when a host is lost": "DistConnectError",
    "g.barrier() waits for all ranks": "client_barrier",
    "halohop.World.detect() knows ranks and hosts": """read_ip_config get_machine_id set_machine_id get_num_machines
        set_num_machines get_num_client set_num_client get_group_id set_rank""",
    "partitions have one format, which is mapped and read in place": """dgl_partition_to_graphbolt
        gb_convert_single_dgl_partition copy_data_to_shared_memory""",
    _RPC: """Request Response register_service send_request recv_request send_response recv_response remote_call
        send_request_to_machine remote_call_to_machine rpc create_sender create_receiver finalize_sender finalize_receiver
        wait_for_senders connect_receiver""",
}

REFUSED: dict[str, str] = {
    **{f"DGLGraph.{name}": text for text, names in _OF_GRAPHS.items() for name in names},
    **{name: text for text, names in _OF_DGL.items() for name in names},
    **{
        f"nn.{name}": _OF_PYG
        for name in (
            *("AGNNConv", "APPNPConv", "AvgPooling", "CFConv", "ChebConv", "DotGatConv", "EGATConv", "EdgeConv", "GCN2Conv"),
            *("GMMConv", "GatedGraphConv", "GlobalAttentionPooling", "HGTConv", "JumpingKnowledge", "MaxPooling", "NNConv"),
            *("PNAConv", "SGConv", "Set2Set", "SortPooling", "SumPooling", "TAGConv", "TransE", "TransR"),
            *("AtomicConv", "BiasedMHA", "DGNConv", "DeepWalk", "DenseChebConv", "DenseGraphConv", "DenseSAGEConv", "EGNNConv"),
            *("EdgePredictor", "GNNExplainer", "GatedGCNConv", "GraphormerLayer", "GroupRevRes", "KNNGraph", "LabelPropagation"),
            *("MetaPath2Vec", "PGExplainer", "RadiusGraph", "Sequential", "SubgraphX", "TWIRLSConv", "WeightAndSum"),
        )
    },
    **{f"dataloading.{name}": text for name, text in _OF_LOADERS.items()},
    **{f"sampling.{name}": text for name, text in _OF_SAMPLING.items()},
    "nn.NodeEmbedding": "halohop.DistEmbedding and halohop.optim learn vectors, on one host and on several",
    **{f"distributed.{name}": text for text, names in _OF_DISTRIBUTED.items() for name in names.split()},
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
    "use_prefetch_thread": "num_workers says how many threads make batches ahead; batches are the same",
    "use_alternate_streams": "batches are moved when they are given out",
    "pin_prefetcher": "pin_memory=True has batches in pinned memory",
    "use_cpu_worker_affinity": "workers are threads of this process; bind the process (taskset, numactl)",
    "seed": "draws are functions of a loader's own seed, DataLoader(..., seed=0), and of its epoch and batch",
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
