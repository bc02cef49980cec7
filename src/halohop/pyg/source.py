"""What a loader of PyG's batches reads: a graph to sample from, and the rows of a batch, wherever they lie."""

from collections.abc import Iterable
from typing import Any, Protocol

import torch
from torch_geometric.data import Data, HeteroData

from halohop.cluster.graph import Graph
from halohop.errors import InputError
from halohop.partitioning.book import check_edge_dir
from halohop.pyg.columns import check_places
from halohop.pyg.graph import LiveGraph
from halohop.pyg.live import Fill
from halohop.pyg.pair import PairSource
from halohop.sampling.batch import Batch
from halohop.sampling.collect import collect, columns_of_batches
from halohop.sampling.columns import Columns
from halohop.typing import EdgeDir, TableKey


class Source(Protocol):
    """A graph to sample from, and where the rows of a batch come from.

    Attributes:
        graph: to sample from.
    """

    graph: Graph

    def needs_edge_ids(self, columns: Columns) -> bool:
        """Whether rows of these columns are found by the user's ids of edges."""

    @property
    def columns(self) -> dict[TableKey, list[str]]:
        """The attributes that have rows, by node type and relation."""

    def check(self, columns: Columns) -> None:
        """
        Raises:
            SchemaError: columns that batches have no places for.
        """

    def check_processes(self) -> None:
        """
        Raises:
            InputError: rows that a forked process cannot give back.
        """

    def number(self) -> int:
        """Of the state of what the user may change between batches."""

    def collected(self, batch: Batch, columns: Columns) -> Batch:
        """The batch with the user's ids, and with those of the columns that the graph holds."""

    def begun(self, batch: Batch, columns: Columns, fill: Fill, layout: torch.layout) -> tuple[Data | HeteroData, int]:
        """What the batch inherits, with the rows of those columns that the graph does not hold; and what these weigh in bytes."""


class StoredSource:
    """A graph from `halohop.open` or `halohop.connect`, which holds all columns itself."""

    def __init__(self, graph: Graph, blank: type | None = None) -> None:
        self.graph = graph
        self._blank = blank or (Data if graph.schema.is_homogeneous else HeteroData)

    def needs_edge_ids(self, columns: Columns) -> bool:
        return False

    @property
    def columns(self) -> dict[TableKey, list[str]]:
        return {table: columns_of_batches(self.graph.schema, table) for table in self.graph.schema.tables}

    def check(self, columns: Columns) -> None:
        check_places(self.columns, columns, homogeneous=self.graph.schema.is_homogeneous)

    def check_processes(self) -> None:
        """They map the same files."""

    def number(self) -> int:
        return 0

    def collected(self, batch: Batch, columns: Columns) -> Batch:
        return collect(self.graph.on_device or self.graph, batch, columns)

    def begun(self, batch: Batch, columns: Columns, fill: Fill, layout: torch.layout) -> tuple[Data | HeteroData, int]:
        return self._blank(), 0


class MemorySource:
    """A PyG graph: its edges, splits, times and weights as they were at first, and its rows as they are."""

    def __init__(self, graph: LiveGraph) -> None:
        self.graph: Graph = graph
        self._rows = graph.live

    def needs_edge_ids(self, columns: Columns) -> bool:
        return columns.edges is None or any(columns.edges.values())

    @property
    def columns(self) -> dict[TableKey, list[str]]:
        return self._rows.columns

    def check(self, columns: Columns) -> None:
        """PyG's graph has a place for each already."""

    def check_processes(self) -> None:
        self._rows.check_processes()

    def number(self) -> int:
        return self._rows.view().number

    def collected(self, batch: Batch, columns: Columns) -> Batch:
        return collect(self.graph.on_device or self.graph, batch, columns.only_ids)

    def begun(self, batch: Batch, columns: Columns, fill: Fill, layout: torch.layout) -> tuple[Data | HeteroData, int]:
        return self._rows.filled(batch, columns, fill, layout, there=self.graph.on_device)


def source_of(
    data: Any, names: Iterable[str | None] = (), custom_cls: type | None = None, edge_dir: EdgeDir | None = None
) -> Source:
    """Where a loader gets its batches from.

    Args:
        data: a PyG graph, a pair of PyG's stores, or a graph of halohop's.
        names: of times and weights, and whatever else is read before there are batches.
        custom_cls: the class of the batches.
        edge_dir: which neighbours are drawn; None takes what the graph was made for.

    Raises:
        InputError: nothing of this, or a graph that was made for the other direction.
    """
    if edge_dir is not None:
        check_edge_dir(edge_dir)
    if isinstance(data, tuple):
        return PairSource(data, names, custom_cls, edge_dir=edge_dir or "in")
    if isinstance(data, Graph):
        data.check_edge_dir(edge_dir)
    if isinstance(data, Graph) and not isinstance(data, LiveGraph):
        return StoredSource(data, custom_cls)
    if custom_cls is not None:
        raise InputError(f"custom_cls={custom_cls!r}: batches of a {type(data).__name__} are of its class; leave it out")
    if not isinstance(data, LiveGraph):
        return MemorySource(LiveGraph(data, names, edge_dir=edge_dir or "in"))
    data.check_readable(names)
    return MemorySource(data)
