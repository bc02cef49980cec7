"""DGL's names over halohop: scripts written for it run by changing one import.

    import halohop.dgl as dgl        instead of        import dgl

A thin layer: graphs, batches, hosts and tables are halohop's. Ids are always the user's.
"""

from typing import Any

from halohop.dgl import dataloading, distributed, function, nn, random, sampling
from halohop.dgl.batches import EdgeBatch, NodeBatch
from halohop.dgl.block import DGLBlock, create_block
from halohop.dgl.convert import graph, heterograph
from halohop.dgl.graph import EID, ETYPE, NID, NTYPE, DGLGraph
from halohop.dgl.message import ALL
from halohop.dgl.notes import missing
from halohop.dgl.random import seed
from halohop.dgl.sampling import in_subgraph, out_subgraph, to_block
from halohop.dgl.subgraphs import edge_subgraph, edge_type_subgraph, merge, node_subgraph, remove_edges
from halohop.dgl.transforms import (
    add_reverse_edges,
    add_self_loop,
    remove_self_loop,
    reverse,
    to_bidirected,
    to_homogeneous,
)
from halohop.errors import HalohopError as DGLError

__all__ = [
    "ALL",
    "EID",
    "ETYPE",
    "NID",
    "NTYPE",
    "DGLBlock",
    "DGLError",
    "DGLGraph",
    "EdgeBatch",
    "NodeBatch",
    "add_reverse_edges",
    "add_self_loop",
    "create_block",
    "dataloading",
    "distributed",
    "edge_subgraph",
    "edge_type_subgraph",
    "function",
    "graph",
    "heterograph",
    "in_subgraph",
    "merge",
    "nn",
    "node_subgraph",
    "out_subgraph",
    "random",
    "remove_edges",
    "remove_self_loop",
    "reverse",
    "sampling",
    "seed",
    "to_bidirected",
    "to_block",
    "to_homogeneous",
]


def __getattr__(name: str) -> Any:
    return missing("", name)
