"""A pair of PyG's stores as a graph: edges are read once from the GraphStore, rows of nodes per batch from the FeatureStore."""

import copy
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, FeatureStore, GraphStore, HeteroData, TensorAttr, remote_backend_utils

from halohop.cluster.graph import in_memory
from halohop.errors import InputError
from halohop.pyg.columns import check_places
from halohop.pyg.live import Fill
from halohop.pyg.stores import HalohopFeatureStore, HalohopGraphStore
from halohop.sampling.batch import Batch, NodeBlock
from halohop.sampling.collect import collect
from halohop.sampling.columns import Columns
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.typing import EDGE, NODE, EdgeDir, NodeType, Relation, TableKey


class PairSource:
    """What a loader reads of ``(FeatureStore, GraphStore)``. Stores have no rows of edges for loaders, as with PyG.

    Args:
        pair: the two stores.
        names: of node attributes that sampling reads, such as times.
        custom_cls: the class of the batches.
        edge_dir: which neighbours are drawn.

    Raises:
        InputError: no such pair; a name that the FeatureStore does not have; halohop's own stores.
    """

    def __init__(
        self, pair: tuple[Any, ...], names: Iterable[str | None], custom_cls: type | None, *, edge_dir: EdgeDir = "in"
    ) -> None:
        self._features, edges = _checked(pair)
        edge_index, counts = _edges(self._features, edges)
        self._is_plain = list(edge_index) == [EDGE] and _is_homogeneous(edges)
        self._attrs: dict[NodeType, list[TensorAttr]] = {}
        for attr in self._features.get_all_tensor_attrs():
            self._attrs.setdefault(NODE if self._is_plain else attr.group_name, []).append(attr)
        wanted = {name for name in names if name is not None}
        stored: set[str] = {attr.attr_name for attrs in self._attrs.values() for attr in attrs}
        if unknown := sorted(wanted - stored):
            raise InputError(f"the FeatureStore has no attribute {unknown[0]!r} of nodes; it has {sorted(stored)}")
        nodes = {name: NodeTable(num_nodes=count, columns=self._whole(name, wanted)) for name, count in counts.items()}
        tables = {relation: EdgeTable(src=row, dst=col) for relation, (row, col) in edge_index.items()}
        self.graph = in_memory(GraphTables(nodes=nodes, edges=tables), edge_dir=edge_dir)
        self._blank = custom_cls or (Data if self._is_plain else HeteroData)

    def needs_edge_ids(self, columns: Columns) -> bool:
        return False

    @property
    def columns(self) -> dict[TableKey, list[str]]:
        schema = self.graph.schema
        columns: dict[TableKey, list[str]] = {relation: [] for relation in schema.edges}
        return columns | {name: [attr.attr_name for attr in self._attrs.get(name, ())] for name in schema.nodes}

    def check(self, columns: Columns) -> None:
        check_places(self.columns, columns, homogeneous=self._is_plain)

    def check_processes(self) -> None:
        """A store must survive a fork, as with PyG's workers."""

    def number(self) -> int:
        return 0

    def collected(self, batch: Batch, columns: Columns) -> Batch:
        return collect(self.graph, batch, columns.only_ids)

    def begun(self, batch: Batch, columns: Columns, fill: Fill, layout: torch.layout) -> tuple[Data | HeteroData, int]:
        out = self._blank()
        asked = []
        for name, block in batch.nodes.items():
            store = out if self._is_plain else out[name]
            store.num_nodes = len(block.gid)
            asked += [
                (store, block, _indexed(attr, block.gid.clamp(min=0) if block.padded else block.gid))
                for attr in self._attrs.get(name, ())
                if columns.has(name, attr.attr_name)
            ]
        num_bytes = 0
        rows = self._features.multi_get_tensor([attr for *_, attr in asked], convert_type=True) if asked else []
        for (store, block, attr), values in zip(asked, rows, strict=True):
            store[attr.attr_name] = _emptied(values, block, fill(attr.attr_name, values.dtype))
            num_bytes += values.nbytes
        return out, num_bytes

    def _whole(self, name: NodeType, wanted: set[str]) -> dict[str, Tensor]:
        attrs = [attr for attr in self._attrs.get(name, ()) if attr.attr_name in wanted]
        return {attr.attr_name: torch.as_tensor(self._features.get_tensor(_indexed(attr, None))) for attr in attrs}


def _checked(pair: tuple[Any, ...]) -> tuple[FeatureStore, GraphStore]:
    if len(pair) != 2 or not isinstance(pair[0], FeatureStore) or not isinstance(pair[1], GraphStore):
        raise InputError(f"expected (FeatureStore, GraphStore), got ({', '.join(type(part).__name__ for part in pair)})")
    if isinstance(pair[0], HalohopFeatureStore) or isinstance(pair[1], HalohopGraphStore):
        raise InputError("these stores are views of a graph of halohop's; give the loader the graph itself")
    return pair


def _is_homogeneous(edges: GraphStore) -> bool:
    return [attr.edge_type for attr in edges.get_all_edge_attrs()] == [None]


def _edges(features: FeatureStore, edges: GraphStore) -> tuple[dict[Relation, tuple[Tensor, Tensor]], dict[NodeType, int]]:
    """Sources and destinations by relation, and the number of nodes by type."""
    attrs = edges.get_all_edge_attrs()
    if not attrs:
        raise InputError("the GraphStore has no edges; put some there first")
    if _is_homogeneous(edges):
        (attr,) = attrs
        if attr.size is None:
            raise InputError("the GraphStore does not say how many nodes there are; put the edges there with their size")
        row, col, _ = edges.coo()
        return {EDGE: (_ids(row), _ids(col))}, {NODE: max(attr.size)}
    relations = list(dict.fromkeys(tuple(attr.edge_type) for attr in attrs))
    rows, cols, _ = edges.coo(relations)
    names = list(dict.fromkeys(end for relation in relations for end in relation[::2]))
    counts = {name: remote_backend_utils.num_nodes(features, edges, name) for name in names}
    return {relation: (_ids(rows[relation]), _ids(cols[relation])) for relation in relations}, counts


def _ids(values: Tensor | np.ndarray[Any, Any]) -> Tensor:
    return torch.as_tensor(values).cpu().long()


def _indexed(attr: TensorAttr, index: Tensor | None) -> TensorAttr:
    attr = copy.copy(attr)
    attr.index = index
    return attr


def _emptied(values: Tensor, block: NodeBlock, value: float) -> Tensor:
    """With `value` in the empty places of a padded batch."""
    return values.index_fill(0, (block.gid < 0).nonzero().view(-1), value) if block.padded else values
