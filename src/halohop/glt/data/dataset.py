"""GLT's `Dataset`: a graph, features, labels and splits, which all loaders of a process share as one graph of halohop's."""

import weakref
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any, NoReturn, TypeVar

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

import halohop
from halohop.errors import InputError
from halohop.glt.data.feature import Feature
from halohop.glt.data.graph import Graph, Topology
from halohop.glt.modes import on_device
from halohop.glt.notes import NotByHandle, note, refused
from halohop.glt.typing import EdgeType, NodeType

Value = TypeVar("Value")


class Dataset(NotByHandle):
    """What loaders and samplers of one machine read.

    Args:
        graph: a `Graph`, or a dict with one per relation.
        node_features, edge_features: a `Feature`, or a dict of them.
        node_labels: a tensor with a row per node, or a dict of them.
        edge_dir: "out" draws the nodes that edges lead to, "in" those that they come from.
        node_split: ids of train, validation and test nodes, each a tensor, or a dict of them.
    """

    def __init__(
        self,
        graph: Graph | dict[EdgeType, Graph] | None = None,
        node_features: Feature | dict[NodeType, Feature] | None = None,
        edge_features: Feature | dict[EdgeType, Feature] | None = None,
        node_labels: Any = None,
        edge_dir: str = "out",
        node_split: tuple[Any, Any, Any] | None = None,
    ) -> None:
        if edge_dir not in ("in", "out"):
            raise InputError(f"edge_dir={edge_dir!r} is neither 'in' nor 'out'")
        self.graph, self.edge_dir = graph, edge_dir
        self.node_features, self.edge_features = node_features, edge_features
        self.node_labels = _each(_label, node_labels)
        self.train_idx, self.val_idx, self.test_idx = _split(node_split or (None, None, None))

    def init_graph(
        self,
        edge_index: Any = None,
        edge_ids: Any = None,
        edge_weights: Any = None,
        layout: str | dict[EdgeType, str] = "COO",
        graph_mode: str = "ZERO_COPY",
        directed: bool = False,
        device: Any = None,
    ) -> None:
        """Takes edges, as `Topology` does, or dicts of them per relation.

        Raises:
            InputError: as of `Topology` and `Graph`.
        """
        if directed:
            note("directed")
        stored = "CSR" if self.edge_dir == "out" else "CSC"

        def made(edges: Any, ids: Any, weights: Any, given: str) -> Graph:
            return Graph(Topology(edges, ids, weights, given, stored), graph_mode, device)

        if edge_index is not None:
            self.graph = _each(made, edge_index, edge_ids, edge_weights, layout)

    def init_node_features(
        self,
        node_feature_data: Any = None,
        id2idx: Any = None,
        sort_func: Callable[..., Any] | None = None,
        split_ratio: Any = 0.0,
        device_group_list: Any = None,
        device: Any = None,
        with_gpu: bool = True,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Takes the rows of nodes, as `Feature` does, or dicts of them per type."""
        if sort_func is not None:
            note("sort_func")
        if node_feature_data is not None:
            make = partial(_feature, device_group_list, device, with_gpu, dtype)
            self.node_features = _each(make, node_feature_data, id2idx, split_ratio)

    def init_edge_features(
        self,
        edge_feature_data: Any = None,
        id2idx: Any = None,
        split_ratio: Any = 0.0,
        device_group_list: Any = None,
        device: Any = None,
        with_gpu: bool = True,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Takes the rows of edges, by their ids, or dicts of them per relation."""
        if edge_feature_data is not None:
            make = partial(_feature, device_group_list, device, with_gpu, dtype)
            self.edge_features = _each(make, edge_feature_data, id2idx, split_ratio)

    def init_node_labels(self, node_label_data: Any = None, id2idx: Any = None) -> None:
        """Takes the labels of nodes, one or several each, or dicts of them per type."""
        if node_label_data is not None:
            self.node_labels = _each(lambda rows, index: Feature(_label(rows), index, dtype=None).by_id, node_label_data, id2idx)

    def init_node_split(self, node_split: tuple[Any, Any, Any] | None = None) -> None:
        """Takes ids of train, validation and test nodes."""
        if node_split is not None:
            self.train_idx, self.val_idx, self.test_idx = _split(node_split)

    def random_node_split(self, num_val: float, num_test: float) -> None:
        """Splits the nodes that have labels; numbers, or shares of them as floats."""
        if self.node_labels is None:
            raise InputError("random_node_split splits the nodes that have labels; call init_node_labels first")
        splits = _each(lambda labels: random_split(len(labels), num_val, num_test), self.node_labels)
        if isinstance(splits, dict):
            splits = tuple({name: split[place] for name, split in splits.items()} for place in range(3))
        self.init_node_split(splits)

    def build(
        self,
        edge_index: Any = None,
        edge_ids: Any = None,
        feature_data: Any = None,
        sort_func: Callable[..., Any] | None = None,
        split_ratio: Any = 0.0,
        label: Any = None,
        graph_mode: str = "ZERO_COPY",
        device_group_list: Any = None,
        device: Any = None,
    ) -> None:
        """All `init_` methods in one, as GLT's README has it."""
        self.init_graph(edge_index, edge_ids, graph_mode=graph_mode, device=device)
        self.init_node_features(feature_data, None, sort_func, split_ratio, device_group_list, device)
        self.init_node_labels(label)

    def load_vineyard(self, *args: Any, **kwargs: Any) -> NoReturn:
        refused("data.Dataset.load_vineyard")

    def get_graph(self, etype: EdgeType | None = None) -> Graph | None:
        return _of(self.graph, etype)

    def get_node_feature(self, ntype: NodeType | None = None) -> Feature | None:
        return _of(self.node_features, ntype)

    def get_edge_feature(self, etype: EdgeType | None = None) -> Feature | None:
        return _of(self.edge_features, etype)

    def get_node_label(self, ntype: NodeType | None = None) -> Any:
        return _of(self.node_labels, ntype)

    def get_edge_types(self) -> list[EdgeType] | None:
        """The relations; None where nodes are of one type."""
        return list(self.graph) if isinstance(self.graph, dict) else None

    def get_node_types(self) -> list[NodeType] | None:
        """The types of nodes; None where there is one."""
        return list(dict.fromkeys(end for etype in self.graph for end in etype[::2])) if isinstance(self.graph, dict) else None

    @cached_property
    def halohop_graph(self) -> halohop.Graph:
        """The one graph of all loaders and samplers, made at first use and again after a change.

        Raises:
            InputError: there is no graph yet, or features or labels do not have a row for every node.
        """
        if self.graph is None:
            raise InputError("the Dataset has no graph yet; call init_graph first")
        etypes, typed = _names(self.graph), [*_names(self.node_features), *_names(self.node_labels)]
        wrong = [name for name in [*_names(self.edge_features), *(() if etypes else typed)] if name not in etypes]
        if wrong:
            known = etypes or "one type of nodes and edges"
            raise InputError(f"there are rows of {wrong[0]!r}, but the graph has {known}; name what it has in init_graph")
        data = HeteroData() if etypes else Data()
        counts: dict[Any, int] = {}
        for etype, graph in self.graph.items() if isinstance(self.graph, dict) else [(None, self.graph)]:
            store = data if etype is None else data[etype]
            for key, rows in graph.topo.columns(self.get_edge_feature(etype)).items():
                store[key] = rows
            for name, size in ((etype and etype[0], graph.row_count), (etype and etype[2], graph.col_count)):
                counts[name] = max(counts.get(name, 0), size)
        for name in dict.fromkeys([*counts, *typed]):
            feature, store = self.get_node_feature(name), data if name is None else data[name]
            columns = {"x": None if feature is None else feature.by_id, "y": self.get_node_label(name)}
            given = {key: rows for key, rows in columns.items() if rows is not None}
            size = max([counts.get(name, 0), *map(len, given.values())])
            for key, rows in given.items():
                if len(rows) != size:
                    what = f"{'features' if key == 'x' else 'labels'} of {name or 'nodes'}"
                    raise InputError(f"there are {size} nodes, but {len(rows)} {what}; give one row for each")
                store[key] = rows
            if feature is None:
                store.num_nodes = size
        return halohop.graph(data, edge_dir="out" if self.edge_dir == "out" else "in", **self._on_device())

    def _on_device(self) -> dict[str, Any]:
        first = _graphs(self.graph)[0]
        features = self.node_features.values() if isinstance(self.node_features, Mapping) else [self.node_features]
        labels = self.node_labels.values() if isinstance(self.node_labels, Mapping) else [self.node_labels]
        return on_device(first.mode, first.device, filter(None, features), [one for one in labels if one is not None])

    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__.pop("halohop_graph", None)
        super().__setattr__(name, value)
        for graph in _graphs(value) if name == "graph" else []:
            if graph.dataset is None or graph.dataset() is None:
                graph.dataset = weakref.ref(self)

    def __getitem__(self, key: str) -> Any:
        return getattr(self, key, None)

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, key, value)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "halohop_graph"}


def dataset_of(graph: Graph | dict[EdgeType, Graph], edge_dir: str) -> Dataset:
    """The Dataset whose graph it is, which knows nodes without edges, too; or one that has this graph alone."""
    for one in _graphs(graph):
        found: Dataset | None = one.dataset and one.dataset()
        if found is not None and found.graph is graph and found.edge_dir == edge_dir:
            return found
    return Dataset(graph, edge_dir=edge_dir)


def random_split(num_total: int, num_val: float, num_test: float) -> tuple[Tensor, Tensor, Tensor]:
    """Train, validation and test positions among `num_total`, shuffled by torch's generator; floats are shares."""
    sizes = [round(num_total * size) if isinstance(size, float) else size for size in (num_val, num_test)]
    if min(sizes) < 0 or sum(sizes) > num_total:
        raise InputError(f"num_val={num_val} and num_test={num_test} of {num_total}; give numbers or shares that fit into them")
    val, test, train = torch.randperm(num_total).split([*sizes, num_total - sum(sizes)])
    return train, val, test


def _graphs(value: Any) -> list[Graph]:
    return [graph for graph in (value.values() if isinstance(value, dict) else [value]) if isinstance(graph, Graph)]


def _label(values: Any) -> Tensor:
    """Labels as losses read them: whole numbers as int64, others as they are; without columns of width 1, as OGB's are."""
    labels = _squeezed(values)
    return labels if labels.is_floating_point() or labels.dtype == torch.bool else labels.long()


def _squeezed(values: Any) -> Tensor:
    """A tensor ``[n, 1]`` as ``[n]``, as GLT takes labels and splits; other shapes stay."""
    rows = torch.as_tensor(values)
    return rows.reshape(len(rows), *(size for size in rows.shape[1:] if size != 1)) if rows.dim() > 1 else rows


def _feature(groups: Any, device: Any, with_gpu: bool, dtype: Any, rows: Any, id2idx: Any, split_ratio: float) -> Feature:
    return Feature(rows, id2idx, split_ratio, groups, device, with_gpu, dtype)


def _each(make: Callable[..., Any], values: Any, *others: Any) -> Any:
    """What `make` makes of values, or of each of a dict of them, with what the others have for it."""
    if values is None:
        return None
    if not isinstance(values, Mapping):
        return make(values, *others)
    return {key: make(value, *(_of(other, key) for other in others)) for key, value in values.items()}


def _split(ids: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    train, val, test = (_each(_squeezed, some) for some in ids)
    return train, val, test


def _of(values: Mapping[Any, Value] | Value | None, key: Any) -> Value | None:
    return values.get(key) if isinstance(values, Mapping) else values


def _names(values: Any) -> list[Any]:
    return list(values) if isinstance(values, Mapping) else []
