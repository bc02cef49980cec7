"""halohop's graph as PyG's FeatureStore and GraphStore, for whatever of PyG takes such a pair."""

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import EdgeAttr, FeatureStore, GraphStore, TensorAttr
from torch_geometric.data.graph_store import EdgeLayout

from halohop.cluster.graph import Graph
from halohop.errors import InputError
from halohop.store.draw import TAKE_ALL
from halohop.store.requests import FetchRequest, HopQuery, RowQuery, SampleRequest
from halohop.typing import RAW_ID

_CHUNK = 1 << 16


class HalohopFeatureStore(FeatureStore):  # type: ignore[misc]
    """Node columns of a graph, read by raw id.

    Example:
        >>> from halohop.cluster.graph import in_memory
        >>> from halohop.store.tables import GraphTables, NodeTable
        >>> graph = in_memory(GraphTables(nodes={"node": NodeTable(num_nodes=2, columns={"x": torch.eye(2)})}, edges={}))
        >>> HalohopFeatureStore(graph).get_tensor("node", "x", torch.tensor([1])).tolist()
        [[0.0, 1.0]]
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self._graph = graph

    def _get_tensor(self, attr: TensorAttr) -> Tensor | None:
        name = self._graph.schema.node_type(attr.group_name)
        if attr.attr_name not in self._graph.schema.nodes[name].columns:
            return None
        gid = self._gids(name, attr.index)
        query = RowQuery(table=name, columns=(attr.attr_name,), gid=gid)
        return self._graph.fetch(FetchRequest(queries=(query,)))[0][0]

    def _gids(self, name: str, index: Any) -> Tensor:
        if index is None or isinstance(index, slice):
            gid, _ = self._graph.select(None, name)
            return gid if index is None else gid[index]
        index = torch.as_tensor(index).view(-1)
        if index.dtype == torch.bool:
            gid, _ = self._graph.select(None, name)
            return gid[index]
        return self._graph.locate(index, name)

    def _get_tensor_size(self, attr: TensorAttr) -> tuple[int, ...] | None:
        table = self._graph.schema.nodes[self._graph.schema.node_type(attr.group_name)]
        spec = table.columns.get(attr.attr_name)
        return None if spec is None else (table.count, *spec.shape)

    def get_all_tensor_attrs(self) -> list[TensorAttr]:
        """One for every node column."""
        return [TensorAttr(name, column) for name, table in self._graph.schema.nodes.items() for column in table.columns]

    def _put_tensor(self, tensor: Any, attr: TensorAttr) -> bool:
        raise InputError("this feature store only reads; write the column with halohop.partition")

    def _remove_tensor(self, attr: TensorAttr) -> bool:
        raise InputError("this feature store only reads")


class HalohopGraphStore(GraphStore):  # type: ignore[misc]
    """Edges of a graph in raw ids. Reading a relation brings all of it here; samplers should ask `HalohopSampler` instead."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self._graph = graph

    def get_all_edge_attrs(self) -> list[EdgeAttr]:
        """One for every relation."""
        counts = {name: table.count for name, table in self._graph.schema.nodes.items()}
        return [
            EdgeAttr(relation, EdgeLayout.COO, size=(counts[relation[0]], counts[relation[2]]))
            for relation in self._graph.schema.edges
        ]

    def _get_edge_index(self, edge_attr: EdgeAttr) -> tuple[Tensor, Tensor] | None:
        if edge_attr.layout != EdgeLayout.COO or tuple(edge_attr.edge_type) not in self._graph.schema.edges:
            return None
        relation = self._graph.schema.relation(edge_attr.edge_type)
        book = self._graph.book
        gid, raw = self._graph.select(None, book.list_type(relation))
        neighbors, nodes = [], []
        for some_gid, some_raw in zip(gid.split(_CHUNK), raw.split(_CHUNK), strict=True):
            query = HopQuery(relation=relation, fanout=-1, dst_gid=some_gid)
            (answer,) = self._graph.sample(SampleRequest(draw=TAKE_ALL, queries=(query,))).answers
            rows = RowQuery(table=book.neighbor_type(relation), columns=(RAW_ID,), gid=answer.src_gid)
            neighbors.append(self._graph.fetch(FetchRequest(queries=(rows,)))[0][0])
            nodes.append(some_raw.repeat_interleave(answer.counts))
        src, dst = (neighbors, nodes) if book.list_end else (nodes, neighbors)
        return torch.cat(src), torch.cat(dst)

    def _put_edge_index(self, edge_index: Any, edge_attr: EdgeAttr) -> bool:
        raise InputError("this graph store only reads; write the edges with halohop.partition")

    def _remove_edge_index(self, edge_attr: EdgeAttr) -> bool:
        raise InputError("this graph store only reads")
