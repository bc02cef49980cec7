"""GLT's `DistFeature`: rows wherever they lie; and the features of partitions on disk."""

from typing import Any

import torch
from torch import Tensor

import halohop
from halohop.errors import InputError
from halohop.glt.distributed.dist_context import process
from halohop.typing import TableKey

PartialFeature = tuple[Tensor, Tensor]


class StoredFeature:
    """The features of one type in a loaded partition.

    Args:
        dataset: the `DistDataset`.
        table: the node type or relation.
    """

    def __init__(self, dataset: Any, table: TableKey) -> None:
        self._dataset, self._table = dataset, table

    @staticmethod
    def is_in(schema: halohop.records.Schema, table: TableKey) -> bool:
        """Whether a type has features."""
        return ("x" if isinstance(table, str) else "edge_attr") in schema.table(table).columns

    @property
    def shape(self) -> torch.Size:
        """Of the rows of the whole graph."""
        spec = self._dataset.stored.schema.table(self._table)
        return torch.Size([spec.count, *spec.columns["x" if isinstance(self._table, str) else "edge_attr"].shape])

    def size(self, dim: int) -> int:
        return self.shape[dim]

    def __getitem__(self, ids: Tensor) -> Tensor:
        """The rows of nodes, wherever they lie, once a loader has opened the graph.

        Raises:
            InputError: none has; or these are features of edges.
        """
        return _rows(self._dataset.halohop_graph, self._table, ids)


class DistFeature:
    """Rows by the ids of the whole graph, of this process's partition and of others.

    Args:
        num_partitions, partition_idx: how many there are, and which is here.
        local_feature: what is here, or a dict by type.
        feature_pb: the partition of every id, or a dict by type.
        local_only: whether only rows are read that are here.
        rpc_router: not needed.
        device: where rows are wanted.
    """

    def __init__(
        self,
        num_partitions: int,
        partition_idx: int,
        local_feature: Any,
        feature_pb: Any,
        local_only: bool = False,
        rpc_router: Any = None,
        device: Any = None,
    ) -> None:
        self.num_partitions, self.partition_idx = num_partitions, partition_idx
        self.local_feature, self.feature_pb = local_feature, feature_pb
        self.local_only, self.rpc_router, self.device = local_only, rpc_router, device

    def local_get(self, ids: Tensor, input_type: Any = None) -> Tensor:
        """Rows that are here."""
        feature = self.local_feature[input_type] if isinstance(self.local_feature, dict) else self.local_feature
        rows: Tensor = feature[ids]
        return rows if self.device is None else rows.to(self.device)

    def __getitem__(self, input: Any) -> Tensor:
        """Rows of ids, or of a pair of a type and ids.

        Raises:
            InputError: some lie elsewhere, and no loader of this process has opened the graph.
        """
        name, ids = input if isinstance(input, tuple) else (None, input)
        here = self.feature_pb
        book = here[name] if isinstance(here, dict) else here
        if self.local_only or book is None or bool((book[ids] == self.partition_idx).all()):
            return self.local_get(ids, name)
        if process.graph is None:
            raise InputError("rows of other partitions are asked for before the graph is open; make a loader first")
        rows = _rows(process.graph, name, ids)
        return rows if self.device is None else rows.to(self.device)

    def async_get(self, ids: Tensor, input_type: Any = None) -> "torch.futures.Future[Tensor]":
        """The same as a future, which is done when this returns."""
        done: torch.futures.Future[Tensor] = torch.futures.Future()
        done.set_result(self[ids if input_type is None else (input_type, ids)])
        return done


def _rows(graph: halohop.Graph, table: TableKey | None, ids: Tensor) -> Tensor:
    if isinstance(table, tuple):
        raise InputError(f"features of edges ({table}) of other partitions come with batches; give loaders with_edge=True")
    return graph.rows("x", ids.cpu(), node_type=table)
