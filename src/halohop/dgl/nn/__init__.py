"""DGL's layers: the same names, parameters and initial values, over halohop's lists of in-edges.

`state_dict` goes both ways, and the same seed of torch gives the same weights. Layers take a graph of one relation or a block,
and rows of all nodes or a pair of those of both ends.
"""

from typing import Any

from halohop.dgl.nn import functional
from halohop.dgl.nn.attention import GATConv, GATv2Conv
from halohop.dgl.nn.functional import edge_softmax
from halohop.dgl.nn.gin import GINConv, GINEConv
from halohop.dgl.nn.graphconv import GraphConv
from halohop.dgl.nn.hetero import HeteroGraphConv
from halohop.dgl.nn.relational import RelGraphConv, TypedLinear, WeightBasis
from halohop.dgl.nn.sage import SAGEConv
from halohop.dgl.notes import missing

__all__ = [
    "GATConv",
    "GATv2Conv",
    "GINConv",
    "GINEConv",
    "GraphConv",
    "HeteroGraphConv",
    "RelGraphConv",
    "SAGEConv",
    "TypedLinear",
    "WeightBasis",
    "edge_softmax",
    "functional",
]


def __getattr__(name: str) -> Any:
    return missing("nn", name)
