"""What scripts import from `dgl.nn.pytorch.hetero`."""

from halohop.dgl.nn.hetero import HeteroGraphConv, get_aggregate_fn

__all__ = ["HeteroGraphConv", "get_aggregate_fn"]
