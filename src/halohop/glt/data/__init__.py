"""`graphlearn_torch.data`, by its names."""

from typing import Any

from halohop.glt.data.dataset import Dataset, random_split
from halohop.glt.data.feature import DeviceGroup, Feature
from halohop.glt.data.graph import Graph, Topology
from halohop.glt.data.reorder import sort_by_in_degree
from halohop.glt.notes import missing

__all__ = ["Dataset", "DeviceGroup", "Feature", "Graph", "Topology", "random_split", "sort_by_in_degree"]


def __getattr__(name: str) -> Any:
    return missing("data", name)
