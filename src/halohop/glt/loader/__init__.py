"""`graphlearn_torch.loader`, by its names."""

from typing import Any

from halohop.glt.loader.neighbor_loader import NeighborLoader
from halohop.glt.loader.node_loader import NodeLoader
from halohop.glt.notes import missing

__all__ = ["NeighborLoader", "NodeLoader"]


def __getattr__(name: str) -> Any:
    return missing("loader", name)
