"""Which attributes of a PyG graph are rows, of its nodes or of its edges, and which dimension the rows are in."""

import copy
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.data.storage import BaseStorage
from torch_geometric.typing import TensorFrame

from halohop import ops
from halohop.errors import InputError
from halohop.typing import EDGE, NODE, TableKey

_LAYOUTS = (torch.strided, torch.sparse_coo, torch.sparse_csr)

STRUCTURE = ("edge_index", "num_nodes", "adj_t")
"""Attributes that say which nodes and edges there are."""

_OF_NODES, _OF_EDGES = ("x", "pos"), ("edge_attr", "edge_weight")
"""Attributes that must be rows. (PyG takes any tensor whose length is neither of nodes nor of edges for a graph-level one.)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """An attribute with a row for every node of a type, or for every edge of a relation.

    Args:
        table: the node type or relation.
        key: the attribute's name.
        value: a tensor (of a NumPy array, one over its memory) or a TensorFrame.
        dim: the dimension that the rows are in, at least 0.
        pieces: the value as the kernels read it, where that was prepared for many batches.
    """

    table: TableKey
    key: str
    value: Any
    dim: int
    pieces: ops.Pieces | None = None

    def prepared(self) -> "Rows":
        """The same with `pieces`, where the kernels can copy the rows as they lie."""
        value = self.value
        if not plain(self) or not value.is_contiguous() or value.is_conj() or value.is_neg():
            return self
        return replace(self, pieces=ops.Pieces([value.as_subclass(Tensor)], [0, len(value)]))


def stores_of(data: Data | HeteroData) -> list[tuple[TableKey, BaseStorage]]:
    """The storage of every node type, then of every relation. A `Data` has one storage for both."""
    if isinstance(data, Data):
        return [(NODE, data._store), (EDGE, data._store)]
    return [*data.node_items(), *data.edge_items()]


def copied(data: Data | HeteroData) -> Data | HeteroData:
    """A shallow copy with storages of its own, as `copy.copy` makes it, in a quarter of the time."""
    if type(data).__copy__ not in (Data.__copy__, HeteroData.__copy__):
        return copy.copy(data)
    out = object.__new__(type(data))
    parent = weakref.ref(out)

    def of_store(store: BaseStorage) -> BaseStorage:
        own = object.__new__(type(store))
        own.__dict__.update(store.__dict__, _mapping=store._mapping.copy(), _parent=parent)
        own.__dict__.pop("_cached_attr", None)
        return own

    for name, value in data.__dict__.items():
        if isinstance(value, BaseStorage):
            value = of_store(value)
        elif name in ("_node_store_dict", "_edge_store_dict"):
            value = {key: of_store(store) for key, store in value.items()}
        out.__dict__[name] = value
    return out


def put(store: BaseStorage, attributes: dict[str, Any]) -> None:
    """Sets attributes of a storage that was not read yet. (One by one, PyG takes as long for them as the kernels for the rows
    of a small batch.)"""
    store._mapping.update(attributes)


def rows_of(data: Data | HeteroData, counts: dict[TableKey, int]) -> Iterator[Rows]:
    """The attributes that have rows: those that PyG's `filter_data` takes the rows of, because it counts them as node-level or
    edge-level.

    Args:
        data: the graph.
        counts: how many rows each table has.

    Raises:
        InputError: an attribute of another length that must have rows, such as `x`, or one with entries that cannot be selected.
    """
    for table, store in stores_of(data):
        is_node = isinstance(table, str)
        others = counts[EDGE if is_node else NODE] if isinstance(data, Data) else -1
        for key, value in store.items():
            if key in STRUCTURE:
                continue
            if key in (_OF_NODES if is_node else _OF_EDGES):
                _check_length(table, key, value, counts[table])
            dim = data.__cat_dim__(key, value, store)
            if not _has_rows(key, value, dim, counts[table], others, is_node=is_node):
                continue
            if isinstance(value, list | tuple) or (isinstance(value, Tensor) and value.layout not in _LAYOUTS):
                raise InputError(f"attribute {key!r} of type {type(value).__name__} has no rows; store a tensor, or remove it")
            if is_sparse(value) and not (is_node and value.dim() == 2 and value.dense_dim() == 0 and dim in (0, -2)):
                where = f"of shape {tuple(value.shape)}" if is_node else "of edges"
                what = "only matrices with a row per node, sparse in both dimensions, may be"
                raise InputError(f"column {key!r} {where} is {value.layout}; {what}: use .to_dense()")
            if isinstance(value, np.ndarray):
                value = torch.from_numpy(value)
            yield Rows(table=table, key=key, value=value, dim=dim % value.ndim if isinstance(value, Tensor) else 0)


def is_sparse(value: Any) -> bool:
    """Whether only entries that are not zero are stored."""
    return isinstance(value, Tensor) and value.layout != torch.strided


def plain(rows: Rows) -> bool:
    """Whether the kernels can copy the rows: a tensor on the CPU, its rows first, without a gradient."""
    value = rows.value
    dense = isinstance(value, Tensor) and not is_sparse(value)
    return dense and value.device.type == "cpu" and rows.dim == 0 and not value.requires_grad


def _has_rows(key: str, value: Any, dim: Any, count: int, others: int, *, is_node: bool) -> bool:
    """As PyG's `is_node_attr` and `is_edge_attr`: by length, and by name where there are as many nodes as edges.

    (There PyG takes `e_id` for the nodes', which its own batches have of edges.)
    """
    if isinstance(value, list | tuple | TensorFrame):
        same = len(value) == count
    else:
        shaped = isinstance(value, Tensor | np.ndarray) and value.ndim > 0 and isinstance(dim, int)
        same = shaped and value.shape[dim] == count
    return same and (count != others or ("edge" in key or key == "e_id") != is_node)


def _check_length(table: TableKey, key: str, value: Any, count: int) -> None:
    if hasattr(value, "__len__") and len(value) != count:
        what = f"nodes of {table!r}" if isinstance(table, str) else "edges"
        raise InputError(f"{key!r} has {len(value)} rows, but there are {count} {what}")
