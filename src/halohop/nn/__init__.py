"""PyG's layers over lists of in-edges: the same parameters and results, without a message for each edge.

model = halohop.nn.fuse(model, rows="seeds")          # layers of PyG in any model, in place
for conv, hop in zip(convs, halohop.nn.hops(batch)):  # or by hand: what each layer needs of a batch
    x = conv(x, hop)
"""

from halohop.nn.adjacency import Adjacency
from halohop.nn.aggregation import aggregate
from halohop.nn.attention import GATConv, GATv2Conv
from halohop.nn.convs import GINConv, GraphConv, SAGEConv
from halohop.nn.fusing import fuse, unfused
from halohop.nn.gcn import GCNConv
from halohop.nn.hops import Hop, hops
from halohop.nn.layer import module_key
from halohop.nn.messages import messages, reduce_messages
from halohop.nn.relabeling import hop_of, numbered
from halohop.nn.relational import RGCNConv, aggregate_relations
from halohop.nn.typed import HGTConv

__all__ = [
    "Adjacency",
    "GATConv",
    "GATv2Conv",
    "GCNConv",
    "GINConv",
    "GraphConv",
    "HGTConv",
    "Hop",
    "RGCNConv",
    "SAGEConv",
    "aggregate",
    "aggregate_relations",
    "fuse",
    "hop_of",
    "hops",
    "messages",
    "module_key",
    "numbered",
    "reduce_messages",
    "unfused",
]
