"""Questions about the neighbours and edges of a `DistGraph`, wherever they lie."""

from typing import Any

from torch import Tensor

from halohop.dgl import sampling
from halohop.dgl.distributed.dist_graph import DistGraph
from halohop.dgl.graph import DGLGraph
from halohop.dgl.notes import note
from halohop.typing import EdgeDir, Relation


def sample_neighbors(
    g: DistGraph,
    nodes: Any,
    fanout: Any,
    edge_dir: EdgeDir = "in",
    prob: str | None = None,
    exclude_edges: Any = None,
    replace: bool = False,
    use_graphbolt: bool = False,
) -> DGLGraph:
    """Some edges of each of the given nodes, as `halohop.dgl.sampling.sample_neighbors` returns them.

    Args:
        nodes: ids ``[n]``, or by type.
        fanout: edges of each node, -1 for all; or by relation.
        exclude_edges: ids of edges ``[n]``, or by relation, in whose place others are drawn.
    """
    if use_graphbolt:
        note("use_graphbolt")
    return sampling.sample_neighbors(g, nodes, fanout, edge_dir, prob, replace, exclude_edges=exclude_edges)


def sample_etype_neighbors(
    g: DistGraph,
    nodes: Any,
    fanout: Any,
    edge_dir: EdgeDir = "in",
    prob: str | None = None,
    exclude_edges: Any = None,
    replace: bool = False,
    etype_sorted: bool = True,
    use_graphbolt: bool = False,
) -> DGLGraph:
    """The same, with a fanout for each relation; `etype_sorted` changes nothing."""
    return sample_neighbors(g, nodes, fanout, edge_dir, prob, exclude_edges, replace, use_graphbolt)


def in_subgraph(g: DistGraph, nodes: Any) -> DGLGraph:
    """All edges to the given nodes, ids ``[n]`` or by type."""
    return sampling.in_subgraph(g, nodes)


def find_edges(g: DistGraph, edge_ids: Any, etype: str | Relation | None = None) -> tuple[Tensor, Tensor]:
    """Sources and destinations of edges; see `DistGraph.find_edges`."""
    return g.find_edges(edge_ids, etype)
