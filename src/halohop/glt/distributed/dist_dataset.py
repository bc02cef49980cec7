"""GLT's `DistDataset`: one partition of a graph, on disk or in memory, and the labels of all nodes."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import halohop
from halohop.datasets import load_tensor
from halohop.errors import InputError
from halohop.glt.batches import WEIGHT
from halohop.glt.data.dataset import Dataset, random_split
from halohop.glt.distributed.dist_context import process, required_context
from halohop.glt.distributed.dist_feature import StoredFeature
from halohop.glt.distributed.dist_graph import StoredBook
from halohop.glt.distributed.dist_options import WorkerOptions, address_of
from halohop.glt.modes import check_mode
from halohop.glt.notes import note
from halohop.glt.partition.base import by_type
from halohop.glt.typing import EdgeType, NodeType
from halohop.typing import EDGE, NODE, EdgeDir

_OF_FOLDER = ("node_features", "edge_features", "node_labels", "node_pb", "edge_pb", "node_feat_pb", "edge_feat_pb")
"""What a loaded dataset knows by its folder and files of labels."""


class DistDataset(Dataset):
    """A partition, which loaders open together with those of other processes.

    Args:
        num_partitions, partition_idx: how many there are, and which this is.
        graph_partition, node_feature_partition, edge_feature_partition: in memory, with the ids of the whole graph.
        whole_node_labels: a row for every node of the whole graph.
        node_pb, edge_pb: the partition of every node and edge: a tensor, a book of ranges, or a dict of these.
        node_feat_pb, edge_feat_pb: who has which rows, cached ones too; here the owners are asked.
        edge_dir: "out", where partitions have the edges from their nodes, or "in".
        node_split: ids of train, validation and test nodes.
        id_filter, id_select: how GLT reads books of further kinds.
    """

    def __init__(
        self,
        num_partitions: int = 1,
        partition_idx: int = 0,
        graph_partition: Any = None,
        node_feature_partition: Any = None,
        edge_feature_partition: Any = None,
        whole_node_labels: Any = None,
        node_pb: Any = None,
        edge_pb: Any = None,
        node_feat_pb: Any = None,
        edge_feat_pb: Any = None,
        edge_dir: str = "out",
        graph_caching: bool = False,
        node_split: tuple[Any, Any, Any] | None = None,
        id_filter: Callable[..., Any] | None = None,
        id_select: Callable[..., Any] | None = None,
    ) -> None:
        features = node_feature_partition, edge_feature_partition
        super().__init__(graph_partition, *features, whole_node_labels, edge_dir, node_split)
        if graph_caching:
            note("graph_caching")
        self.num_partitions, self.partition_idx = num_partitions, partition_idx
        self.node_pb, self.edge_pb = node_pb, edge_pb
        self.node_feat_pb = node_pb if node_feat_pb is None else node_feat_pb
        self.edge_feat_pb = edge_pb if edge_feat_pb is None else edge_feat_pb
        self.stored: halohop.records.Description | None = None
        self._label_files: Any = None
        self._opened: tuple[str | None, halohop.Graph] | None = None

    def load(
        self,
        root_dir: str | Path | None = None,
        partition_idx: int = 0,
        graph_mode: str = "ZERO_COPY",
        input_layout: str = "COO",
        feature_with_gpu: bool = True,
        graph_caching: bool = False,
        device_group_list: Any = None,
        whole_node_label_file: Any = None,
        device: Any = None,
        *,
        graph_dir: str | Path | None = None,
    ) -> None:
        """Takes one partition of a folder that `halohop.partition` or a partitioner wrote; its files are mapped, not read.

        Args:
            root_dir, graph_dir: the folder; GLT's documents have both names.
            whole_node_label_file: a tensor as `torch.save` writes it, with a row for every node, or a dict of them by type.

        Raises:
            InputError: GLT's own folder, a partition that is not there, another direction than the partitions have, or labels
                that are no tensor, or too few.
            DatasetError: the folder is no complete, healthy data set.
        """
        check_mode(graph_mode, device)
        for name, given in (("graph_caching", graph_caching), ("device_group_list", device_group_list)):
            if given:
                note(name)
        folder = Path(root_dir if root_dir is not None else graph_dir or "")
        if (folder / "META").is_file():
            raise InputError(
                f"{folder} is GLT's; convert it: halohop partition 'glt:{folder}' OUT --edge-dir {self.edge_dir}, and load OUT"
            )
        found = halohop.describe(folder)
        if partition_idx not in found.parts:
            raise InputError(
                f"partition_idx={partition_idx} is not in {folder}, which holds {list(found.parts)} of {found.num_parts} "
                "partitions; name one of these, or copy its folder here"
            )
        if found.edge_dir != self.edge_dir:
            raise InputError(
                f"edge_dir={self.edge_dir!r}, but {folder} was divided for {found.edge_dir!r}; make "
                f"DistDataset(edge_dir={found.edge_dir!r}), or divide the graph again"
            )
        self.num_partitions, self.partition_idx, self._label_files = found.num_parts, partition_idx, whole_node_label_file
        self._take(found)

    def _take(self, found: halohop.records.Description) -> None:
        self.stored, homogeneous = found, found.schema.is_homogeneous
        rows: dict[Any, Any] = {
            key: StoredFeature(self, key) for key in found.schema.tables if StoredFeature.is_in(found.schema, key)
        }
        books: dict[Any, Any] = {key: StoredBook(self, key) for key in found.schema.tables}

        def of(values: dict[Any, Any], kind: type, only: Any) -> Any:
            return values.get(only) if homogeneous else {key: one for key, one in values.items() if isinstance(key, kind)}

        self.node_features, self.edge_features = of(rows, str, NODE), of(rows, tuple, EDGE)
        self.node_pb = self.node_feat_pb = of(books, str, NODE)
        self.edge_pb = self.edge_feat_pb = of(books, tuple, EDGE)
        if self._label_files is not None:
            files = self._label_files if isinstance(self._label_files, Mapping) else {NODE: self._label_files}
            labels = {name: _labels(found, name, file) for name, file in files.items()}
            self.init_node_labels(labels if isinstance(self._label_files, Mapping) else labels[NODE])

    def random_node_split(self, num_val: float, num_test: float) -> None:
        """Splits the nodes of this partition, of types that have labels where these are named; numbers, or shares as floats."""
        splits, own = {}, self.own_nodes()
        for name in self.node_labels if isinstance(self.node_labels, Mapping) else own:
            ids = own[name]
            splits[name] = [ids[places] for places in random_split(len(ids), num_val, num_test)]
        train, val, test = ({name: ids[place] for name, ids in splits.items()} for place in range(3))
        self.init_node_split((train[NODE], val[NODE], test[NODE]) if set(splits) == {NODE} else (train, val, test))

    def own_nodes(self) -> dict[NodeType, Tensor]:
        """The ids of the nodes that this partition owns, int64 ``[n]``, by type."""
        if self.stored is not None:
            return {name: self.stored.nodes(self.partition_idx, name) for name in self.stored.schema.nodes}
        return {name: _owned(book, self.partition_idx) for name, book in by_type(self.node_pb, NODE).items()}

    def get_node_types(self) -> list[NodeType] | None:
        return super().get_node_types() if self.stored is None else _several(self.stored, self.stored.schema.nodes)

    def get_edge_types(self) -> list[EdgeType] | None:
        return super().get_edge_types() if self.stored is None else _several(self.stored, self.stored.schema.edges)

    @property
    def halohop_graph(self) -> halohop.Graph:
        """The graph of all partitions, once a loader has opened it.

        Raises:
            InputError: none has.
        """
        if self._opened is None:
            raise InputError("the partitions of other processes are not open yet; make a loader first")
        return self._opened[1]

    def opened(self, options: WorkerOptions) -> halohop.Graph:
        """The graph of all processes' partitions, which a process opens once.

        Args:
            options: where the processes meet, and how long they wait; of the first loader.

        Raises:
            ClusterError: a process does not come in time, has another data set, world size, or this one's rank.
            InputError: the process has no context, or partitions in memory do not fit together.
        """
        world = required_context("a distributed loader").world
        master = None if world.size == 1 else address_of(options.master_addr, options.master_port)
        if self._opened is not None:
            if master != self._opened[0]:
                note("master_port")
            return self._opened[1]
        limits, seconds = halohop.hosts.Limits(call_seconds=options.rpc_timeout), options.rpc_timeout
        graph = halohop.open(**self.held(), world=world, master=master, deadline=seconds, limits=limits)
        self._opened, process.graph = (master, graph), process.graph or graph
        return graph

    def held(self) -> dict[str, Any]:
        """What is here, as `halohop.open` and `halohop.serve` take it."""
        labels = self.node_labels if isinstance(self.node_labels, Mapping) else {NODE: self.node_labels}
        columns = {name: {"y": rows} for name, rows in labels.items() if rows is not None} or None
        if self.stored is None:
            return {"path": self._in_memory(), "columns": columns}
        return {"path": self.stored.path, "partitions": [self.partition_idx], "columns": columns}

    def _in_memory(self) -> halohop.slices.MemoryPartition:
        if self.graph is None or self.node_pb is None:
            raise InputError("the DistDataset has no partition yet; call load(...), or give graph_partition and node_pb")
        own, edge_books = self.own_nodes(), by_type(self.edge_pb, EDGE)
        nodes = {}
        for name, book in by_type(self.node_pb, NODE).items():
            feature = by_type(self.node_features, NODE).get(name)
            columns = {} if feature is None else {"x": feature[own[name]]}
            nodes[name] = halohop.slices.NodeSlice(id=own[name], owner=_owner(book), columns=columns)
        edges = {}
        for relation, graph in by_type(self.graph, EDGE).items():
            topo, feature = graph.topo, by_type(self.edge_features, EDGE).get(relation)
            ids, book = topo.to_coo()[2] if self.num_partitions == 1 else topo.given_ids, edge_books.get(relation)
            columns = {} if topo.given_weights is None else {WEIGHT: topo.given_weights}
            columns |= {} if feature is None else {"edge_attr": feature[topo.to_coo()[2]]}
            owner = None if book is None or ids is None else _owner(book)
            edges[relation] = halohop.slices.EdgeSlice(
                edge_index=torch.stack(topo.edge_index), edge_id=ids, columns=columns, owner=owner
            )
        part, count = self.partition_idx, self.num_partitions
        edge_dir: EdgeDir = "out" if self.edge_dir == "out" else "in"
        return halohop.slices.MemoryPartition(part=part, num_parts=count, nodes=nodes, edges=edges, edge_dir=edge_dir)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in (*_OF_FOLDER, "graph", "stored") and self.__dict__.get("_opened") is not None:
            raise InputError(f"{name} changes nothing: loaders have opened the graph; set it before, or make a new DistDataset")
        super().__setattr__(name, value)

    def __getstate__(self) -> dict[str, Any]:
        """What another process needs: the folder's name rather than what it holds."""
        left = dict.fromkeys(_OF_FOLDER) if self.stored is not None else {}
        return self.__dict__ | left | {"_opened": None, "stored": None if self.stored is None else str(self.stored.path)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if state["stored"] is not None:
            self._take(halohop.describe(state["stored"]))


def _several(found: halohop.records.Description, types: Mapping[Any, Any]) -> list[Any] | None:
    """The types of a graph; None where there is one, as GLT has it."""
    return None if found.schema.is_homogeneous else list(types)


def _labels(found: halohop.records.Description, name: NodeType, file: Any) -> Tensor:
    labels, count = load_tensor(file), found.schema.nodes[found.schema.node_type(name)].count
    if len(labels) != count:
        raise InputError(f"{file} has {len(labels)} labels, but there are {count} nodes of {name!r}; give one for every node")
    return labels


def _owner(book: Any) -> Tensor | list[int]:
    """A partition book as halohop takes it: the partition of every id, or where ranges of ids begin."""
    ends = getattr(book, "partition_bounds", None)
    return torch.as_tensor(book).as_subclass(Tensor) if ends is None else [0, *map(int, ends)]


def _owned(book: Any, part: int) -> Tensor:
    owner = _owner(book)
    return torch.arange(*owner[part : part + 2]) if isinstance(owner, list) else (owner == part).nonzero().view(-1)
