"""Small graphs by DGL's names, and batches of their loaders compared."""

from typing import Any

import torch

import halohop.dgl as dgl
from halohop.dgl import DGLBlock, DGLGraph

NODES, EDGES = 60, 500


def plain(seed: int = 0, dtype: torch.dtype = torch.int64) -> DGLGraph:
    """One type of nodes, of which the last ten have no edge."""
    generator = torch.Generator().manual_seed(seed)
    src, dst = torch.randint(NODES - 10, (2, EDGES), generator=generator).to(dtype)
    g = dgl.graph((src, dst), num_nodes=NODES)
    g.ndata["feat"] = torch.rand(NODES, 3, generator=generator)
    g.ndata["label"] = torch.arange(NODES) % 4
    g.edata["weight"] = torch.rand(EDGES, generator=generator)
    return g


def typed(seed: int = 0, dtype: torch.dtype = torch.int64) -> DGLGraph:
    """Three relations among two types of nodes, and one that has no edge."""
    generator = torch.Generator().manual_seed(seed)
    counts = {"user": 40, "item": 30}
    relations = [("user", "follows", "user"), ("user", "likes", "item"), ("item", "liked", "user")]
    edges = {
        (src, name, dst): tuple(torch.randint(counts[end], (200,), generator=generator).to(dtype) for end in (src, dst))
        for src, name, dst in relations
    }
    none = torch.empty(0, dtype=dtype)
    g = dgl.heterograph({**edges, ("item", "near", "item"): (none, none)}, counts)
    for kind, count in counts.items():
        g.nodes[kind].data["feat"] = torch.rand(count, 3, generator=generator)
    g.edges["likes"].data["stars"] = torch.arange(200)
    return g


def described(value: Any) -> Any:
    """Everything of a batch that can be compared: ids, edges with their order and ids, and columns that were set. Relations
    without edges are left out: blocks of a DistGraph do not have them."""
    if isinstance(value, torch.Tensor):
        return str(value.dtype), value.tolist()
    if isinstance(value, dict):
        return {key: described(part) for key, part in value.items() if not isinstance(part, torch.Tensor) or len(part)}
    if isinstance(value, tuple | list):
        return [described(part) for part in value]
    etypes = [name for name in value.canonical_etypes if value.num_edges(name)] if isinstance(value, DGLGraph) else []
    if isinstance(value, DGLBlock):
        return {
            "src": {kind: described(value.srcnodes[kind].data[dgl.NID]) for kind in value.srctypes},
            "dst": {kind: described(value.dstnodes[kind].data[dgl.NID]) for kind in value.dsttypes},
            "edges": {name: described(value.edges(form="uv", etype=name)) for name in etypes},
            "ids": {name: described(value.edges[name].data[dgl.EID]) for name in etypes},
        }
    if isinstance(value, DGLGraph):
        return {
            "nodes": {kind: described(value.nodes[kind].data[dgl.NID]) for kind in value.ntypes},
            "edges": {name: described(value.edges(form="uv", etype=name)) for name in etypes},
            "ids": {name: described(value.edges[name].data[dgl.EID]) for name in etypes if dgl.EID in value.edges[name].data},
        }
    raise TypeError(f"a {type(value).__name__} is in the batch")


def epochs(loader: Any, number: int = 2) -> list[Any]:
    """The batches of some epochs, as `described`."""
    return [[described(batch) for batch in loader] for _ in range(number)]
