"""Graphs with columns, of one type and of several, for tests of `halohop.dgl`."""

import torch
from torch import Tensor

import halohop.dgl as dgl


def pairs(num_src: int, num_dst: int, count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Random edges; a tenth of the nodes has none."""
    chance = torch.Generator().manual_seed(seed)
    return (
        torch.randint(max(num_src * 9 // 10, 1), (count,), generator=chance),
        torch.randint(max(num_dst * 9 // 10, 1), (count,), generator=chance),
    )


def plain_graph(nodes: int = 60, edges: int = 240) -> dgl.DGLGraph:
    """One type of nodes; ``feat``, ``label``, ``train_mask`` of nodes, ``w`` and ``kind`` of edges."""
    chance = torch.Generator().manual_seed(7)
    g = dgl.graph(pairs(nodes, nodes, edges, 1), num_nodes=nodes)
    g.ndata["feat"] = torch.rand(nodes, 5, generator=chance)
    g.ndata["label"] = torch.arange(nodes) % 3
    g.ndata["train_mask"] = torch.rand(nodes, generator=chance) < 0.4
    g.edata["w"] = torch.rand(edges, generator=chance)
    g.edata["kind"] = (torch.arange(edges) % 4).to(torch.int16)
    return g


def typed_graph() -> dgl.DGLGraph:
    """Authors, papers and one venue without edges to it; two relations of one name."""
    ends = {
        ("author", "writes", "paper"): pairs(30, 40, 150, 2),
        ("paper", "cites", "paper"): pairs(40, 40, 120, 3),
        ("author", "likes", "author"): pairs(30, 30, 50, 4),
        ("paper", "likes", "venue"): (torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64)),
    }
    g = dgl.heterograph(ends, {"author": 30, "paper": 40, "venue": 1})
    g.nodes["paper"].data["feat"] = torch.arange(160.0).view(40, 4)
    g.nodes["paper"].data["train_mask"] = torch.arange(40) % 3 == 0
    g.nodes["author"].data["age"] = torch.arange(30, dtype=torch.int32)
    g.edges["cites"].data["w"] = torch.arange(120.0)
    return g
