"""What scripts import from `dgl.nn.pytorch.hetero`."""

from halohop.dgl.nn.hetero import HeteroEmbedding, HeteroGraphConv, HeteroLinear, get_aggregate_fn

__all__ = ["HeteroEmbedding", "HeteroGraphConv", "HeteroLinear", "get_aggregate_fn"]
