"""Questions about the neighbours and edges of a `DistGraph`."""

from typing import Any

from torch import Tensor

from halohop.dgl.distributed.dist_graph import DistGraph
from halohop.typing import Relation


def find_edges(g: DistGraph, edge_ids: Any, etype: str | Relation | None = None) -> tuple[Tensor, Tensor]:
    """Sources and destinations of edges; see `DistGraph.find_edges`."""
    return g.find_edges(edge_ids, etype)
