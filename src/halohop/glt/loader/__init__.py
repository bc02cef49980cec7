"""`graphlearn_torch.loader`, by its names."""

from typing import Any

from halohop.glt.loader.link_loader import LinkLoader, get_edge_label_index
from halohop.glt.loader.link_neighbor_loader import LinkNeighborLoader
from halohop.glt.loader.neighbor_loader import NeighborLoader
from halohop.glt.loader.node_loader import NodeLoader
from halohop.glt.loader.subgraph_loader import SubGraphLoader
from halohop.glt.loader.transform import to_data, to_hetero_data
from halohop.glt.notes import missing

__all__ = [
    "LinkLoader",
    "LinkNeighborLoader",
    "NeighborLoader",
    "NodeLoader",
    "SubGraphLoader",
    "get_edge_label_index",
    "to_data",
    "to_hetero_data",
]


def __getattr__(name: str) -> Any:
    return missing("loader", name)
