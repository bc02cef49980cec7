"""`halohop.graph`: one graph of a PyG object in memory, for several loaders."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from torch import Tensor
from torch_geometric.data import Data, HeteroData

from halohop import ops
from halohop.cluster.device import DeviceOptions, Mode
from halohop.cluster.graph import Graph, GraphReference
from halohop.cluster.router import PartitionOwner, Router
from halohop.cluster.shard import LocalShard
from halohop.cluster.tables.owners import owners_here
from halohop.errors import InputError
from halohop.partitioning.book import check_edge_dir
from halohop.pyg.live import LiveRows
from halohop.pyg.structure import structure_of
from halohop.store.requests import FetchReply, FetchRequest, RowQuery
from halohop.telemetry import Counters
from halohop.typing import EDGE_ID, EdgeDir, TableKey


class LiveGraph(Graph):
    """A graph of one partition: edges, splits, times and weights of a PyG object as they were at first, its rows as they are.

    Args:
        data: the PyG object.
        names: of times and weights that sampling reads; None takes every column of one number per row.
        edge_dir: which edges the lists of nodes hold.
        weight_sums: as of `graph`.

    Attributes:
        live: the rows.
    """

    def __init__(
        self,
        data: Data | HeteroData,
        names: Iterable[str | None] | None = None,
        *,
        edge_dir: EdgeDir = "in",
        weight_sums: Sequence[str] = (),
    ) -> None:
        check_edge_dir(edge_dir)
        ops.warm_up_near()
        build = structure_of(data, names, edge_dir=edge_dir)
        pool, counters = ops.Pool(), Counters()
        parts = {0: build.part}
        weights = {name for spec in build.schema.edges.values() for name in spec.columns}
        if isinstance(weight_sums, str) or not weights.issuperset(weight_sums):
            raise InputError(
                f"weight_sums={weight_sums!r}: give a list of attributes of edges with one number each, of {sorted(weights)}"
            )
        shard = LocalShard(parts, book=build.book, pool=pool, counters=counters, weight_sums=weight_sums)
        owner = PartitionOwner(shard=shard, parts=tuple(parts), identities=shard.identities)
        router = Router(build.book, [owner], pool, counters)
        owners = partial(owners_here, build.book, {shard.owner: tuple(parts)})
        self.live = LiveRows(data, build.schema, pool)
        schema = self.live.described(build.schema)  # of batches
        super().__init__(schema=schema, book=build.book, router=router, pool=pool, counters=counters, table_owners=owners)
        self._drawn_by = {name for spec in (*build.schema.nodes.values(), *build.schema.edges.values()) for name in spec.columns}

    def check_readable(self, names: Iterable[str | None]) -> None:
        known = {name for columns in self.live.columns.values() for name in columns}
        for name in names:
            if name is not None and name not in self._drawn_by and name in known:
                raise InputError(
                    f"{name!r} is not one number per row, or came after halohop.graph was called; times and weights have one "
                    "number per node or edge: set such a column, and call halohop.graph again"
                )

    def stores(self, table: TableKey, column: str) -> bool:
        """Whether a column was taken from the PyG object when this was made; others are read there each time."""
        return not self.live.has(table, column)

    def use_device(self, options: DeviceOptions | None) -> None:
        """
        Raises:
            InputError: see `DeviceGraph`; or a column lies on another device.
        """
        super().use_device(options)
        if (there := self.on_device) is not None:
            try:
                self.live.check_device(there.pool)
            except BaseException:
                self.on_device = None
                there.close()
                raise

    def columns_beside(self) -> Mapping[TableKey, Mapping[str, ops.Pieces]]:
        """Those of the PyG object, as it is now."""
        return self.live.lend()

    def fetch_stored(self, request: FetchRequest) -> FetchReply:
        """Rows, those of the PyG object as they are now."""
        live = [tuple(name for name in query.columns if self.live.has(query.table, name)) for query in request.queries]
        if not any(live):
            return super().fetch_stored(request)
        rest = [_without(query, names) for query, names in zip(request.queries, live, strict=True)]
        reply = super().fetch_stored(FetchRequest(queries=tuple(rest)))
        rows, sparse = [], []
        for number, (query, names) in enumerate(zip(request.queries, live, strict=True)):
            found = reply.columns(number, rest[number].columns)
            ids = query.gid if isinstance(query.table, str) else found[EDGE_ID]
            assert isinstance(ids, Tensor)
            found |= {name: self.live.taken(query.table, name, ids, padded=query.padded) for name in names}
            rows.append(tuple(column for name in query.columns if isinstance(column := found[name], Tensor)))
            sparse.append({name: column for name, column in found.items() if not isinstance(column, Tensor)})
        return FetchReply(rows=tuple(rows), sparse=tuple(sparse))


def graph(
    data: Data | HeteroData,
    *,
    edge_dir: EdgeDir = "in",
    weight_sums: Sequence[str] = (),
    device: str | None = None,
    mode: Mode | None = None,
    feature_cache: str | float | None = None,
    cache_devices: Sequence[str] | None = None,
) -> Graph:
    """One graph of a PyG object in memory, which any number of loaders, samplers and walks share.

    Loaders that are given the object itself share its sorted edges, too, and their batches are the same; they have edges, times
    and weights as they were when each of them was made. Edges, splits, and the times and weights that are drawn by (attributes of
    one number per node or edge) are those that the object has now. Everything else is read from the object when a batch asks for
    it.

    Args:
        data: the PyG object. Its nodes and edges stay as they are.
        edge_dir: which neighbours of a node can be drawn: "in", those with an edge to it, or "out", those with an edge from it.
        weight_sums: attributes of edges, weights, whose running sums are kept, so that draws by them (`weight_attr`) are quicker
            and the same. They take a byte for each edge and 8 for each node.
        device, mode, feature_cache, cache_devices: as of `halohop.open`: batches are made on a GPU. With a cache it reads all
            dense columns by itself, as long as they are what they were when this was called. Do not write into one while the GPU
            makes a batch (`torch.cuda.synchronize`): set another one instead, which the host then reads.

    Raises:
        InputError: another `edge_dir`; no such GPU, a mode or cache without one, or a cache that is too large; weights that are
            negative, not finite or not there; or the object stores `adj_t`, does not know its number of nodes, or holds an
            attribute that cannot be divided into rows.

    Example:
        >>> import halohop, torch
        >>> ring = Data(x=torch.eye(4), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
        >>> shared = halohop.graph(ring)
        >>> train = halohop.NeighborLoader(shared, [1], torch.tensor([0, 1]), batch_size=2)
        >>> test = halohop.NeighborLoader(shared, [-1], torch.tensor([3]))
        >>> next(iter(train)).n_id.tolist(), next(iter(test)).n_id.tolist()
        ([0, 1, 3], [3, 2])
    """
    on_device: dict[str, Any] = {"device": device, "mode": mode, "feature_cache": feature_cache, "cache_devices": cache_devices}
    options = DeviceOptions.of(**on_device)
    made = LiveGraph(data, edge_dir=edge_dir, weight_sums=weight_sums)
    made.opened_by = GraphReference(opens=partial(graph, data, edge_dir=edge_dir, weight_sums=weight_sums, **on_device))
    made.use_device(options)
    return made


def _without(query: RowQuery, live: tuple[str, ...]) -> RowQuery:
    """What the graph itself has of the query's columns, and the ids of edges where rows of theirs are asked for."""
    stored = [name for name in query.columns if name not in live]
    if live and not isinstance(query.table, str) and EDGE_ID not in stored:
        stored.append(EDGE_ID)
    return replace(query, columns=tuple(stored))
