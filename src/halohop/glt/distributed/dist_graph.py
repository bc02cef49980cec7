"""GLT's `DistGraph`: the edges of a partition, and who owns which node and edge."""

from typing import Any

import torch
from torch import Tensor

import halohop
from halohop.glt.partition.partition_book import PartitionBook
from halohop.glt.typing import EdgeType, NodeType
from halohop.typing import TableKey


class StoredBook(PartitionBook):
    """Who owns the nodes or edges of a loaded graph; owners are asked, once a loader has opened it."""

    def __init__(self, dataset: Any, table: TableKey) -> None:
        self._dataset, self._table = dataset, table

    def __getitem__(self, indices: Any) -> Tensor:
        graph: halohop.Graph = self._dataset.halohop_graph
        ids = torch.as_tensor(indices)
        if isinstance(self._table, str):
            return graph.owners(ids, self._table)
        return graph.edge_owners(self._table, ids)


class DistGraph:
    """A partition's edges and the partition books.

    Args:
        num_partitions, partition_idx: how many there are, and which is here.
        local_graph: a `Graph`, or a dict by relation.
        node_pb, edge_pb: the partition of every node and edge, or dicts by type.
    """

    def __init__(self, num_partitions: int, partition_idx: int, local_graph: Any, node_pb: Any, edge_pb: Any = None) -> None:
        self.num_partitions, self.partition_idx = num_partitions, partition_idx
        self.local_graph, self.node_pb, self.edge_pb = local_graph, node_pb, edge_pb

    def get_local_graph(self, etype: EdgeType | None = None) -> Any:
        return self.local_graph[etype] if isinstance(self.local_graph, dict) else self.local_graph

    def get_node_partitions(self, ids: Tensor, ntype: NodeType | None = None) -> Tensor:
        """The partition of each node."""
        book: Tensor = self.node_pb[ntype] if isinstance(self.node_pb, dict) else self.node_pb
        return book[ids]

    def get_edge_partitions(self, eids: Tensor, etype: EdgeType | None = None) -> Tensor:
        """The partition of each edge."""
        book: Tensor = self.edge_pb[etype] if isinstance(self.edge_pb, dict) else self.edge_pb
        return book[eids]
