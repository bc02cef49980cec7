"""Every way in which users divide the nodes of a graph into clusters, turned into one."""

import copy
import logging
import operator
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.loader import ClusterData

from halohop import ops
from halohop.cluster.graph import Graph
from halohop.errors import InputError, SchemaError
from halohop.loading.examples import Examples
from halohop.loading.seeds import Share
from halohop.partitioning.assigners.assign import assign
from halohop.pyg.inputs import as_tensor
from halohop.sampling.batch import NodeSet
from halohop.store.requests import FetchRequest, RowQuery
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.typing import NodeType

Clusters = int | str | Tensor | np.ndarray[Any, Any] | Mapping[NodeType, Any]


_LOG = logging.getLogger(__name__)
_TOLERANCE = 0.1  # of the sizes of clusters


class ClusterDataset(Examples):
    """Groups of nodes; a batch has all nodes of the groups that are dealt to it, group by group.

    Args:
        gid: per type, the nodes of all groups end to end, int64.
        starts: per type, where the groups begin among them, and the end: int64 ``[num_groups + 1]``.
        group_id: what the user calls the groups, int64 ``[num_groups]``.
    """

    def __init__(self, *, gid: dict[NodeType, Tensor], starts: dict[NodeType, Tensor], group_id: Tensor) -> None:
        super().__init__(group_id)
        self.gid = gid
        self.starts = starts

    def seeds(self, epoch: int, share: Share) -> NodeSet:
        groups = share.positions.tolist()
        return NodeSet(gid={name: self._nodes(name, groups) for name in self.gid}, epoch=epoch, index=share.index)

    def _nodes(self, name: NodeType, groups: list[int]) -> Tensor:
        gid, starts = self.gid[name], self.starts[name]
        return ops.join_rows([gid[:0], *(gid[starts[group] : starts[group + 1]] for group in groups)])


def cluster_dataset(graph: Graph, clusters: Clusters, seed: int) -> ClusterDataset:
    """The clusters that the user means, in ascending order of their numbers; nodes of a cluster ascend by raw id.

    Args:
        graph: whose nodes they are.
        clusters: the name of a column of integers; the cluster of every node in ascending raw order (of several types: a dict);
            or how many clusters METIS shall make.
        seed: of METIS.

    Raises:
        SchemaError: a column or a node type that the graph does not have.
        InputError: anything else that divides no nodes.
    """
    listed = {name: graph.select(None, name)[0] for name in graph.schema.nodes}
    numbers = _numbers(graph, clusters, listed, seed)
    ids, rank = torch.unique(torch.cat(list(numbers.values())), return_inverse=True)
    gid, starts = {}, {}
    for (name, nodes), own in zip(listed.items(), rank.split([len(nodes) for nodes in listed.values()]), strict=True):
        gid[name] = nodes[torch.argsort(own, stable=True)]
        starts[name] = torch.cat([own.new_zeros(1), torch.bincount(own, minlength=len(ids)).cumsum(0)])
    return ClusterDataset(gid=gid, starts=starts, group_id=ids)


def read_cluster_data(clustered: ClusterData) -> tuple[Data, Tensor]:
    """PyG's divided graph as a graph and the cluster of each of its nodes; both in the order of `clustered.data`."""
    made = clustered.partition
    major = torch.repeat_interleave(made.indptr.diff())
    data = copy.copy(clustered.data)
    data.edge_index = torch.stack([major, made.index] if made.sparse_format == "csr" else [made.index, major])
    data.num_nodes = len(made.node_perm)
    return data, torch.repeat_interleave(made.partptr.diff())


def clusters_of(graph: Graph, dataset: ClusterDataset) -> dict[NodeType, Tensor]:
    """The number of every node's cluster in ascending raw order, int64 by type: what `cluster_dataset` understands."""
    numbers = {}
    for name, gid in dataset.gid.items():
        by_gid = torch.empty_like(gid)
        by_gid[gid] = dataset.input_id.repeat_interleave(dataset.starts[name].diff())
        numbers[name] = by_gid[graph.select(None, name)[0]]
    return numbers


def _numbers(graph: Graph, clusters: Clusters, listed: dict[NodeType, Tensor], seed: int) -> dict[NodeType, Tensor]:
    """The cluster of every node, in ascending raw order, int64 by type."""
    if isinstance(clusters, str):
        return {name: _checked(name, _column(graph, name, clusters, gid), len(gid)) for name, gid in listed.items()}
    if isinstance(clusters, Tensor | np.ndarray | list | tuple):
        if len(listed) > 1:
            raise InputError(f"one tensor divides one node type, this graph has {list(listed)}; give a dict of tensors")
        clusters = dict.fromkeys(listed, clusters)
    if isinstance(clusters, Mapping):
        if clusters.keys() != listed.keys():
            raise InputError(f"clusters are given for {list(clusters)}, but the graph has nodes of {list(listed)}; divide all")
        return {name: _checked(name, clusters[name], len(gid)) for name, gid in listed.items()}
    try:
        count = operator.index(clusters)
    except TypeError:
        raise InputError(
            f"clusters={clusters!r} is no column, no tensor and no number; give one of them, such as clusters=100"
        ) from None
    return _metis(graph, count, listed, seed)


def _column(graph: Graph, name: NodeType, column: str, gid: Tensor) -> Tensor:
    if column not in graph.schema.nodes[name].columns:
        raise SchemaError(f"nodes of {name!r} have no {column!r}; columns: {list(graph.schema.nodes[name].columns)}")
    return graph.fetch(FetchRequest(queries=(RowQuery(table=name, columns=(column,), gid=gid),)))[0][0]


def _checked(name: NodeType, given: Any, num_nodes: int) -> Tensor:
    numbers = as_tensor(given, f"clusters of {name!r}")
    if numbers.dtype.is_floating_point or numbers.dtype.is_complex or numbers.dtype == torch.bool:
        raise InputError(f"clusters of {name!r} must be integers, got {numbers.dtype}")
    if numbers.shape != (num_nodes,):
        raise InputError(
            f"clusters of {name!r} have shape {tuple(numbers.shape)}, expected one number for each of {num_nodes} nodes"
        )
    if len(numbers) and int(numbers.min()) < 0:
        raise InputError(f"clusters of {name!r} hold {int(numbers.min())}; give every node a cluster, 0 or higher")
    return numbers.long()


def _metis(graph: Graph, count: int, listed: dict[NodeType, Tensor], seed: int) -> dict[NodeType, Tensor]:
    """METIS's division of the whole graph, which it needs in memory here; a function of the graph, not of its partitions."""
    if count < 1:
        raise InputError(f"clusters={count}; there is at least one cluster")
    num_nodes = sum(map(len, listed.values()))
    _LOG.warning("dividing %d nodes into %d clusters with METIS", num_nodes, count)
    row = {}
    for name, gid in listed.items():
        row[name] = torch.empty_like(gid)
        row[name][gid] = torch.arange(len(gid))
    nodes = {name: NodeTable(num_nodes=len(gid)) for name, gid in listed.items()}
    edges = {}
    for relation in graph.schema.edges:
        listing = graph.edges(relation)
        edges[relation] = EdgeTable(src=row[relation[0]][listing.src_gid], dst=row[relation[2]][listing.dst_gid])
    tables = GraphTables(nodes=nodes, edges=edges)
    parts = assign(tables, count, "metis", seed=seed, tolerance=_TOLERANCE, num_blocks=0).part
    return {name: part.long() for name, part in parts.items()}
