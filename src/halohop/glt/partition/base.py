"""GLT's partitioners' base, which writes halohop's partitions, and what reads them back as GLT's tuples."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import HeteroData

import halohop
from halohop.errors import InputError
from halohop.glt.batches import WEIGHT
from halohop.glt.data.graph import Topology
from halohop.glt.notes import note
from halohop.glt.partition.partition_book import GLTPartitionBook, PartitionBook
from halohop.glt.typing import EdgeType, FeaturePartitionData, GraphPartitionData, NodeType, as_str
from halohop.glt.utils.tensor import id2idx
from halohop.typing import EDGE, NODE, EdgeDir

Owned = tuple[list[Tensor], PartitionBook]
_PLACE = re.compile(r"(.+)/part(\d+)/(graph|node_feat|edge_feat)(?:/([^/]+))?")
_PLACES = {"graph": 2, "node_feat": 3, "edge_feat": 4}  # among what `load_partition` returns


class PartitionerBase:
    """Writes a graph as partitions. Subclasses override `_partition_node`, and may override `_cache_node`.

    Args:
        output_dir: a new folder.
        num_parts: how many partitions.
        num_nodes: of the graph, or by type, as all that follows where there are several types.
        edge_index: sources and destinations, ``[2, num_edges]`` or a pair.
        node_feat, edge_feat: ``[num_nodes, ...]`` and ``[num_edges, ...]``, stored as the dtypes that follow them.
        edge_weights: ``[num_edges]``.
        edge_assign_strategy: "by_src", for loaders with ``edge_dir="out"``, or "by_dst", for "in": with which end an edge lies.

    Raises:
        InputError: another strategy, no partition, or edges that have not one source, destination and weight each.
    """

    def __init__(
        self,
        output_dir: Any,
        num_parts: int,
        num_nodes: int | dict[NodeType, int],
        edge_index: Any,
        node_feat: Any = None,
        node_feat_dtype: torch.dtype = torch.float32,
        edge_feat: Any = None,
        edge_feat_dtype: torch.dtype = torch.float32,
        edge_weights: Any = None,
        edge_assign_strategy: str = "by_src",
        chunk_size: int = 10000,
        device: Any = None,
    ) -> None:
        if num_parts < 1:
            raise InputError(f"num_parts={num_parts}; there is at least one partition")
        for name, given in (("chunk_size", chunk_size != 10000), ("device", device is not None)):
            if given:
                note(name)
        self.output_dir, self.num_parts, self.num_nodes, self.edge_index = output_dir, num_parts, num_nodes, edge_index
        self.node_feat, self.edge_feat, self.edge_weights = node_feat, edge_feat, edge_weights
        self.node_feat_dtype, self.edge_feat_dtype, self.chunk_size = node_feat_dtype, edge_feat_dtype, chunk_size
        self.data_cls = "hetero" if isinstance(num_nodes, Mapping) else "homo"
        self.node_types = [*num_nodes] if isinstance(num_nodes, Mapping) else None
        self.edge_types = [*edge_index] if isinstance(num_nodes, Mapping) else None
        self.edge_assign_strategy, self._edge_dir = edge_assign_strategy, direction(edge_assign_strategy)
        self.owner: dict[NodeType, Tensor] = {}
        weights = by_type(edge_weights, EDGE)
        self._topologies = {name: Topology(ends, None, weights.get(name)) for name, ends in by_type(edge_index, EDGE).items()}

    def count(self, ntype: NodeType | None) -> int:
        """How many nodes of a type there are."""
        return int(by_type(self.num_nodes, NODE)[ntype or NODE])

    def get_edge_index(self, etype: EdgeType | None = None) -> Any:
        return by_type(self.edge_index, EDGE).get(etype or EDGE)

    def get_node_feat(self, ntype: NodeType | None = None) -> Any:
        return by_type(self.node_feat, NODE).get(ntype or NODE)

    def get_edge_feat(self, etype: EdgeType | None = None) -> Any:
        return by_type(self.edge_feat, EDGE).get(etype or EDGE)

    def _partition_node(self, ntype: NodeType | None = None) -> Owned:
        """The ids that each partition owns, and the book of all, which counts; None is the only type."""
        raise NotImplementedError("a subclass of PartitionerBase says in _partition_node which partition owns which node")

    def _cache_node(self, ntype: NodeType | None = None) -> list[Tensor | None]:
        """The ids of the nodes whose features each partition copies."""
        return [None] * self.num_parts

    def partition(self, with_feature: bool = True, graph_caching: bool = False) -> None:
        """Writes the partitions.

        Raises:
            InputError: `output_dir` holds something, a node has no partition, or rows that are not one for each node or edge.
            WriteError: it cannot be written.
        """
        if graph_caching:
            note("graph_caching")
        folder = Path(self.output_dir)
        if folder.is_dir() and any(folder.iterdir()):
            raise InputError(
                f"{folder} is not empty, and partitions are not added to others; delete it, or name a new output_dir"
            )
        types: list[Any] = self.node_types or [None]
        for ntype in types:
            book = self._partition_node(ntype)[1]
            self.owner[ntype or NODE] = torch.as_tensor(book[torch.arange(self.count(ntype))])
        copies: list[dict[NodeType, Tensor]] = [{} for _ in range(self.num_parts)]
        for ntype in types if with_feature else []:
            for copied, ids in zip(copies, self._cache_node(ntype), strict=True):
                copied |= {} if ids is None else {ntype or NODE: ids}
        halohop.partition(self._data(with_feature), folder, num_parts=self.num_parts, method=self.owner, edge_dir=self._edge_dir)
        if any(copies):
            halohop.add_replicas(folder, copies)

    def _data(self, with_feature: bool) -> HeteroData:
        """The graph; where there is one type, under the names that make it homogeneous."""
        data = HeteroData()
        for name, count in by_type(self.num_nodes, NODE).items():
            data[name].num_nodes = count
        for etype, topology in self._topologies.items():
            data[etype].update(topology.columns())
        for table, columns in _columns(self.node_feat, self.node_feat_dtype, self.edge_feat, self.edge_feat_dtype).items():
            data[table].update(columns if with_feature else {})
        return data


def load_partition(root_dir: Any, partition_idx: int, graph_caching: bool = False, device: Any = "cpu") -> tuple[Any, ...]:
    """(num_parts, partition_idx, graph, node_feat, edge_feat, node_pb, edge_pb), the last five by type where there are several.

    Raises:
        InputError: the folder lacks this partition, or those that own its neighbours.
        DatasetError: the folder is no complete, healthy data set; where GLT wrote it, names the command that converts it.
    """
    if graph_caching:
        note("graph_caching")
    own, copies = halohop.slices.read_partition(root_dir, partition_idx), halohop.placement.read_replicas(root_dir, partition_idx)

    def moved(*tensors: Tensor | None) -> list[Any]:
        return [None if tensor is None else tensor.to(device) for tensor in tensors]

    graph, node_feat, edge_feat = {}, {}, {}
    for name, nodes in own.nodes.items():
        cache_ids, cached = copies.get(name, (None, {}))
        if "x" in nodes.columns:
            node_feat[name] = FeaturePartitionData(*moved(nodes.columns["x"], nodes.id, cached.get("x"), cache_ids))
    for etype, edges in own.edges.items():
        row, col, eids, weights, rows = moved(
            *edges.edge_index, edges.edge_id, *(edges.columns.get(column) for column in (WEIGHT, "edge_attr"))
        )
        graph[etype] = GraphPartitionData((row, col), eids, weights)
        if rows is not None:
            edge_feat[etype] = FeaturePartitionData(rows, eids)
    node_pb = {name: _book(nodes.owner).to(device) for name, nodes in own.nodes.items()}
    edge_pb = {etype: _book(edges.owner).to(device) for etype, edges in own.edges.items()}
    found: list[dict[Any, Any]] = [graph, node_feat, edge_feat, node_pb, edge_pb]
    if list(node_pb) == [NODE] and list(edge_pb) == [EDGE]:
        return own.num_parts, partition_idx, *(next(iter(table.values()), None) for table in found)
    return own.num_parts, partition_idx, *(table or None for table in found)


def load_graph_partition_data(graph_data_dir: Any, device: Any = "cpu") -> GraphPartitionData | None:
    """The edges in ``ROOT/partN/graph[/RELATION]``, as GLT calls the place; raises as `load_partition`."""
    found: GraphPartitionData | None = _at(graph_data_dir, device)
    return found


def load_feature_partition_data(feature_data_dir: Any, device: Any = "cpu") -> FeaturePartitionData | None:
    """The rows in ``ROOT/partN/node_feat[/TYPE]`` or ``edge_feat[/RELATION]``, None where there are none; raises as above."""
    found: FeaturePartitionData | None = _at(feature_data_dir, device)
    return found


def cat_feature_cache(
    partition_idx: int, raw_feat_data: FeaturePartitionData, raw_feat_pb: Tensor
) -> tuple[float, Tensor, Tensor, Tensor]:
    """Copied rows before a partition's own: (their share, all rows, where each id has its row, a book that finds them here)."""
    feats, ids, cache_feats, cache_ids = raw_feat_data
    assert feats is not None
    assert ids is not None
    if cache_feats is None or cache_ids is None:
        return 0.0, feats, id2idx(ids), raw_feat_pb
    book = torch.as_tensor(raw_feat_pb).clone()
    book[cache_ids] = partition_idx
    rows = torch.cat([cache_feats, feats])
    return len(cache_feats) / max(len(rows), 1), rows, id2idx(torch.cat([cache_ids, ids])), GLTPartitionBook(book)


def build_partition_feature(
    root_dir: Any,
    partition_idx: int,
    chunk_size: int = 10000,
    node_feat: Any = None,
    node_feat_dtype: torch.dtype = torch.float32,
    edge_feat: Any = None,
    edge_feat_dtype: torch.dtype = torch.float32,
) -> None:
    """Adds the features of all nodes or edges to partitions without: the first call to all, later ones compare theirs.

    Raises:
        InputError: there is no such partition, a partition is not in the folder, or it has other features.
    """
    if chunk_size != 10000:
        note("chunk_size")
    if partition_idx not in (parts := halohop.describe(root_dir).parts):
        raise InputError(f"partition_idx={partition_idx} is not in {root_dir}, which holds {list(parts)}")
    halohop.add_columns(root_dir, _columns(node_feat, node_feat_dtype, edge_feat, edge_feat_dtype))


def owned(owner: Tensor, num_parts: int) -> Owned:
    """What `_partition_node` returns, from the partition of every node."""
    return [(owner == part).nonzero().view(-1) for part in range(num_parts)], GLTPartitionBook(owner.long())


def by_type(values: Any, only: Any) -> dict[Any, Any]:
    """A dict of values by type; `only` is the type of values that are no dict."""
    return dict(values) if isinstance(values, Mapping) else {} if values is None else {only: values}


def direction(edge_assign_strategy: str) -> EdgeDir:
    """Which neighbours are drawn from partitions in which edges lie with one of their ends.

    Raises:
        InputError: neither "by_src" nor "by_dst".
    """
    if edge_assign_strategy not in ("by_src", "by_dst"):
        raise InputError(f"edge_assign_strategy={edge_assign_strategy!r} is neither 'by_src' nor 'by_dst'")
    return "out" if edge_assign_strategy == "by_src" else "in"


def _columns(node_feat: Any, node_dtype: torch.dtype, edge_feat: Any, edge_dtype: torch.dtype) -> dict[Any, dict[str, Tensor]]:
    """The features of each type and relation, as halohop names them."""
    found = {name: {"x": torch.as_tensor(rows).to(node_dtype)} for name, rows in by_type(node_feat, NODE).items()}
    return found | {name: {"edge_attr": torch.as_tensor(rows).to(edge_dtype)} for name, rows in by_type(edge_feat, EDGE).items()}


def _at(path: Any, device: Any) -> Any:
    """What lies at a place, as GLT calls it."""
    match = _PLACE.fullmatch(str(path).rstrip("/"))
    if match is None:
        raise InputError(
            f"{path} is no place in a partition; give ROOT/partN/graph, node_feat or edge_feat, and /TYPE where there are several"
        )
    found = load_partition(match[1], int(match[2]), device=device)[_PLACES[match[3]]]
    if not isinstance(found, dict):
        return found
    return {as_str(key): value for key, value in found.items()}.get(match[4])


def _book(owner: Any) -> GLTPartitionBook:
    """A book of owners, by a number for each or by ranges."""
    dense = owner if isinstance(owner, Tensor) else torch.repeat_interleave(torch.tensor(owner).diff())
    return GLTPartitionBook(dense.long())
