"""Who owns which nodes and edges, by the user's ids; and the policies that say whose rows a table has."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

import halohop
from halohop.datasets import PartConfig
from halohop.dgl.distributed.types import Types
from halohop.dgl.graph import DEFAULT_ETYPE, DEFAULT_NTYPE
from halohop.dgl.kinds import Kinds
from halohop.errors import IdError, InputError
from halohop.typing import RAW_ID, Relation, TableKey

if TYPE_CHECKING:
    from halohop.dgl.distributed.dist_graph import DistGraph


class GraphPartitionBook(Kinds):
    """The partitions of a graph. Ids are the user's, 0 to n - 1 in each type, so that nothing is to be mapped back.

    Counts come from the manifest. Who owns some ids, the owners are asked.

    Args:
        types: of the graph.
        bounds: by table of halohop's, how many rows lie before each partition, and how many there are in all.
        part: the partition that is near this process.
        engine: opens the graph when it is first needed.
        graph: the open one, if there is one.
        config: where it is on disk, if that was read.
    """

    def __init__(
        self,
        types: Types,
        bounds: dict[TableKey, tuple[int, ...]],
        part: int,
        engine: Callable[[], halohop.Graph],
        graph: "DistGraph | None" = None,
        config: PartConfig | None = None,
    ) -> None:
        self.types, self._bounds, self.partid, self._engine, self.graph, self.config = types, bounds, part, engine, graph, config

    def matches(self, config: PartConfig) -> bool:
        """Whether it is the book of these partitions."""
        return self._bounds == bounds_in(config)

    ntypes = property(lambda self: self.types.ntypes)
    canonical_etypes = property(lambda self: self.types.canonical_etypes)
    global_nid_dtype = global_eid_dtype = property(lambda self: torch.int64)

    def num_partitions(self) -> int:
        """How many partitions there are."""
        return len(next(iter(self._bounds.values()))) - 1

    def metadata(self) -> list[dict[str, int]]:
        """Of each partition its number, and how many nodes and edges it owns."""

        def owned(tables: Any, part: int) -> int:
            return sum(self._bounds[table][part + 1] - self._bounds[table][part] for table in tables)

        nodes, edges = self.types.nodes.values(), self.types.edges.values()
        return [
            {"machine_id": part, "num_nodes": owned(nodes, part), "num_edges": owned(edges, part)}
            for part in range(self.num_partitions())
        ]

    def num_rows(self, table: TableKey, part: int | None = None) -> int:
        """How many rows a table of halohop's has, or those of one partition."""
        bounds = self._bounds[table]
        return bounds[-1] if part is None else bounds[self._checked(part) + 1] - bounds[part]

    def owners(self, table: TableKey, ids: Any) -> Tensor:
        """The partition of each row of a table of halohop's, as `nid2partid` and `eid2partid`."""
        engine, rows = self._engine(), torch.as_tensor(ids)
        return engine.owners(rows, table) if isinstance(table, str) else engine.edge_owners(table, rows)

    def owned(self, table: TableKey, part: int) -> Tensor:
        """The ids of a partition's rows, as `partid2nids` and `partid2eids`."""
        first, engine = self._bounds[table][self._checked(part)], self._engine()
        if not isinstance(table, str):
            return engine.edges(table, part=part).edge_id
        (ids,) = engine.fetch_rows(table, [RAW_ID], torch.arange(first, self._bounds[table][part + 1]))
        return ids

    def places(self, table: TableKey, ids: Any, part: int) -> Tensor:
        """Where rows stand among those of a partition, as `nid2localnid` and `eid2localeid`."""
        wanted, owned = torch.as_tensor(ids), self.owned(table, part)
        places = torch.searchsorted(owned, wanted)
        known = places < len(owned)
        known[known.clone()] = owned[places[known]] == wanted[known]
        if not bool(known.all()):
            raise IdError(f"id {int(wanted[~known][0])} is not in partition {part}; nid2partid says where it is")
        return places

    def nid2partid(self, nids: Any, ntype: str = DEFAULT_NTYPE) -> Tensor:
        """The partition of each node, int64 ``[n]``.

        Raises:
            IdError: a node that there is not.
        """
        return self.owners(self.types.node_type(ntype), nids)

    def eid2partid(self, eids: Any, etype: str | Relation = DEFAULT_ETYPE) -> Tensor:
        """The partition of each edge, int64 ``[n]``: that of its destination.

        Raises:
            IdError: an edge that there is not.
        """
        return self.owners(self.types.relation(etype), eids)

    def partid2nids(self, partid: int, ntype: str = DEFAULT_NTYPE) -> Tensor:
        """The nodes of a partition, int64 ``[n]``, ascending.

        Raises:
            InputError: there is no such partition.
        """
        return self.owned(self.types.node_type(ntype), partid)

    def partid2eids(self, partid: int, etype: str | Relation = DEFAULT_ETYPE) -> Tensor:
        """The edges of a partition, int64 ``[n]``, ascending.

        Raises:
            InputError: there is no such partition.
        """
        return self.owned(self.types.relation(etype), partid)

    def nid2localnid(self, nids: Any, partid: int, ntype: str = DEFAULT_NTYPE) -> Tensor:
        """Where nodes of a partition stand among its nodes, int64 ``[n]``.

        Raises:
            IdError: a node that it does not own.
        """
        return self.places(self.types.node_type(ntype), nids, partid)

    def eid2localeid(self, eids: Any, partid: int, etype: str | Relation = DEFAULT_ETYPE) -> Tensor:
        """Where edges of a partition stand among its edges, int64 ``[n]``.

        Raises:
            IdError: an edge that it does not own.
        """
        return self.places(self.types.relation(etype), eids, partid)

    def map_to_homo_nid(self, ids: Any, ntype: str) -> Tensor:
        """Ids of a type as ids over all types: those of the first type come first."""
        return torch.as_tensor(ids) + self._first(self.types.nodes)[self.get_ntype_id(ntype)]

    def map_to_homo_eid(self, ids: Any, etype: str | Relation) -> Tensor:
        """The same of edges."""
        return torch.as_tensor(ids) + self._first(self.types.edges)[self.get_etype_id(etype)]

    def map_to_per_ntype(self, ids: Any) -> tuple[Tensor, Tensor]:
        """Numbers of types, and ids within them, of ids over all types."""
        return _per_type(torch.as_tensor(ids), self._first(self.types.nodes))

    def map_to_per_etype(self, ids: Any) -> tuple[Tensor, Tensor]:
        """The same of edges."""
        return _per_type(torch.as_tensor(ids), self._first(self.types.edges))

    def shared_memory(self, graph_name: str) -> None:
        """Nothing: partitions are files that processes share already."""

    def _first(self, tables: Any) -> Tensor:
        counts = [0, *(self._bounds[table][-1] for table in tables.values())]
        return torch.tensor(counts).cumsum(0)

    def _checked(self, part: int) -> int:
        if not 0 <= part < self.num_partitions():
            raise InputError(f"partition {part} is none of 0 to {self.num_partitions() - 1}")
        return part


RangePartitionBook = GraphPartitionBook


def bounds_of(engine: halohop.Graph) -> dict[TableKey, tuple[int, ...]]:
    """By table, where the rows of each partition of an open graph begin, and how many there are in all."""
    return {table: engine.book.bounds(table) for table in engine.schema.tables}


def _per_type(ids: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
    kind = torch.searchsorted(first[1:].contiguous(), ids, right=True)
    if len(ids) and not (int(ids.min()) >= 0 and int(ids.max()) < int(first[-1])):
        raise IdError(f"ids from {int(ids.min())} to {int(ids.max())} are not all among the {int(first[-1])} of all types")
    return kind, ids - first[kind]


def bounds_in(config: PartConfig) -> dict[TableKey, tuple[int, ...]]:
    """The same of partitions on disk."""
    nodes, edges = config.description.manifest.node_bounds, config.description.manifest.edge_bounds
    return {table: nodes[table] if isinstance(table, str) else edges[table] for table in config.description.schema.tables}


class PartitionPolicy:
    """Whose rows a table has: those of a node type, or of a relation.

    Args:
        policy_str: ``node~TYPE`` or ``edge~SOURCE:NAME:DESTINATION``.
        partition_book: of the graph.

    Raises:
        InputError: another text.
        SchemaError: there is no such type.
    """

    def __init__(self, policy_str: str, partition_book: GraphPartitionBook) -> None:
        kind, _, name = policy_str.partition("~")
        if kind not in ("node", "edge") or not name:
            raise InputError(f"policy {policy_str!r} is neither 'node~TYPE' nor 'edge~SOURCE:NAME:DESTINATION'")
        self.partition_book, self.is_node = partition_book, kind == "node"
        types = partition_book.types
        self.type_name: Any = types.ntype(name) if self.is_node else types.to_canonical_etype(_relation(name))
        self.table: TableKey = types.node_type(name) if self.is_node else types.relation(_relation(name))
        self.policy_str = policy_str

    part_id = property(lambda self: self.partition_book.partid)

    def get_data_name(self, name: str) -> str:
        """What a table of some name is called, among those of all types."""
        return f"{self.policy_str}~{name}"

    def get_size(self) -> int:
        """How many rows there are."""
        return self.partition_book.num_rows(self.table)

    def get_part_size(self) -> int:
        """How many of them are near this process."""
        return self.partition_book.num_rows(self.table, self.partition_book.partid)

    def local_ids(self) -> Tensor:
        """Their ids, int64 ``[n]``, ascending."""
        return self.partition_book.owned(self.table, self.partition_book.partid)

    def to_partid(self, id_tensor: Any) -> Tensor:
        """The partition of each row."""
        return self.partition_book.owners(self.table, id_tensor)

    def to_local(self, id_tensor: Any) -> Tensor:
        """Where rows stand in the partition that is near."""
        return self.partition_book.places(self.table, id_tensor, self.partition_book.partid)


class NodePartitionPolicy(PartitionPolicy):
    """Rows of the nodes of a type."""

    def __init__(self, partition_book: GraphPartitionBook, ntype: str = DEFAULT_NTYPE) -> None:
        super().__init__(f"node~{ntype}", partition_book)


class EdgePartitionPolicy(PartitionPolicy):
    """Rows of the edges of a relation."""

    def __init__(self, partition_book: GraphPartitionBook, etype: str | Relation = DEFAULT_ETYPE) -> None:
        super().__init__(f"edge~{':'.join(partition_book.to_canonical_etype(etype))}", partition_book)


def _relation(name: str) -> str | Relation:
    parts = name.split(":")
    return (parts[0], parts[1], parts[2]) if len(parts) == 3 else name
