"""DGL's `DistGraph`: a partitioned graph, wherever its partitions lie."""

import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import halohop
from halohop.datasets import PartConfig, read_part_config
from halohop.dgl.asked import Asked
from halohop.dgl.convert import heterograph
from halohop.dgl.distributed.data_view import DataView
from halohop.dgl.distributed.dist_context import barrier, process, world
from halohop.dgl.distributed.dist_tensor import DistTensor, ids_of
from halohop.dgl.distributed.partition_book import EdgePartitionPolicy, GraphPartitionBook, NodePartitionPolicy, bounds_of
from halohop.dgl.distributed.types import Types
from halohop.dgl.graph import EID, NID, DGLGraph
from halohop.dgl.kinds import Kinds
from halohop.dgl.notes import Lacking, refused
from halohop.dgl.subgraphs import between
from halohop.dgl.views import Scheme, View
from halohop.errors import InputError
from halohop.nn import numbered
from halohop.typing import RAW_ID, NodeType, Relation, TableKey

ALL = "__ALL__"


class DistGraph(Kinds, Asked, Lacking):
    """A partitioned graph that all ranks open together. Ids are the user's, 0 to n - 1 in each type.

    The partitions of this host are mapped; the others are asked of the hosts that have them, or all of the servers that
    HALOHOP_SERVERS names (`python -m halohop.dgl.launch`). Without a launcher all partitions are in one process.

    Args:
        graph_name: what the graph is called in messages; partitions are found by their folder.
        gpb: its partition book, from `load_partition_book`; or, as in older scripts, what `part_config` is.
        part_config: the ``NAME.json`` that `partition_graph` wrote, or a folder that `halohop.partition` wrote; None: the book's,
            or what DGL_CONF_PATH names.

    Attributes:
        engine: the graph of halohop, for `halohop.NeighborLoader` and everything else.
        types: of nodes and edges.
        tensors: the tables in `ndata` and `edata`, by what halohop calls their type, and by their name.

    Raises:
        InputError: no partitions are named, they are DGL's own, or the book is of another graph.
        DatasetError: the folder is no complete, healthy data set.
        ClusterError, TransportError: a host or server does not come in time, or has another data set.

    Example:
        >>> import tempfile
        >>> import halohop.dgl as dgl
        >>> g = dgl.graph(([0, 1, 2], [1, 2, 0]))
        >>> g.ndata["feat"] = torch.eye(3)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     dgl.distributed.partition_graph(g, "ring", 2, folder, part_method="random")
        ...     ring = DistGraph("ring", part_config=f"{folder}/ring.json")
        ...     ring.num_nodes(), ring.ndata["feat"][torch.tensor([2, 0])].tolist(), ring.find_edges(torch.tensor([1]))
        ...     dgl.distributed.exit_client()
        (3, [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], (tensor([1]), tensor([2])))
    """

    of_dgl = "distributed.DistGraph"

    def __init__(self, graph_name: str, gpb: Any = None, part_config: Any = None) -> None:
        if isinstance(gpb, str | Path):
            gpb, part_config = None, part_config or gpb
        self.graph_name = graph_name
        config = gpb.config if part_config is None and getattr(gpb, "config", None) is not None else read_part_config(part_config)
        if gpb is not None and not gpb.matches(config):
            raise InputError(
                f"gpb is the partition book of another graph or division than {config.description.path}; load it by "
                "load_partition_book from there, or leave it out"
            )
        self.config: PartConfig = config
        self.world = world()
        self.engine: halohop.Graph = _opened(config, self.world)
        self.types = Types.of(self.engine.schema)
        self.tensors: dict[tuple[TableKey, str], DistTensor] = {}
        self._out_degrees: dict[Relation, Tensor] = {}
        process.graphs.append(self)

    ndata = property(lambda self: self.node_view(None))
    edata = property(lambda self: self.edge_view(None))
    nodes = property(lambda self: View(ids=lambda ntype=None: torch.arange(self.num_nodes(ntype)), frame=self.node_view))
    edges = property(lambda self: View(ids=lambda *_, **__: refused("distributed.DistGraph.edges()"), frame=self.edge_view))
    idtype = property(lambda self: torch.int64)
    device = property(lambda self: torch.device("cpu"))
    ntypes = property(lambda self: self.types.ntypes)
    canonical_etypes = property(lambda self: self.types.canonical_etypes)

    def node_view(self, ntype: str | None) -> DataView:
        """The columns of a node type; None: of the only one."""
        return DataView(self, self.types.node_type(ntype))

    def edge_view(self, etype: str | Relation | None) -> DataView:
        """The columns of a relation; None: of the only one."""
        return DataView(self, self.types.relation(etype))

    def is_pinned(self) -> bool:
        """Partitions are mapped files, which are not."""
        return False

    def num_nodes(self, ntype: str | None = None) -> int:
        """How many nodes a type has, or all types."""
        names = self.types.nodes.values() if ntype is None else [self.types.node_type(ntype)]
        return sum(self.engine.schema.nodes[name].count for name in names)

    def num_edges(self, etype: str | Relation | None = None) -> int:
        """How many edges a relation has, or all relations."""
        names = self.types.edges.values() if etype is None else [self.types.relation(etype)]
        return sum(self.engine.schema.edges[name].count for name in names)

    number_of_nodes, number_of_edges = num_nodes, num_edges

    def node_attr_schemes(self, ntype: str | None = None) -> dict[str, Scheme]:
        """What a row of each column of a node type is."""
        return _schemes(self.node_view(ntype))

    def edge_attr_schemes(self, etype: str | Relation | None = None) -> dict[str, Scheme]:
        """What a row of each column of a relation is."""
        return _schemes(self.edge_view(etype))

    def in_degrees(self, v: Any = ALL, etype: str | Relation | None = None) -> Any:
        """How many edges of a relation lead to nodes: int64 ``[n]``, or a number for one node.

        Raises:
            IdError: a node that there is not.
        """
        relation = self.types.relation(etype)
        if self.engine.book.edge_dir != "in":
            return self._counted(relation, 2, v)
        return _one_or_all(v, self.engine.degrees(relation, self._located(relation[2], v)))

    def out_degrees(self, u: Any = ALL, etype: str | Relation | None = None) -> Any:
        """How many edges of a relation begin at nodes, as `in_degrees`. Partitions that have in-edges, as those of
        `partition_graph`, are all read for it, one at a time, and the counts of all nodes kept.
        """
        relation = self.types.relation(etype)
        if self.engine.book.edge_dir == "in":
            return self._counted(relation, 0, u)
        return _one_or_all(u, self.engine.degrees(relation, self._located(relation[0], u)))

    def _counted(self, relation: Relation, end: int, nodes: Any) -> Any:
        if relation not in self._out_degrees:
            count = self.engine.schema.nodes[relation[end]].count
            counts = torch.zeros(count, dtype=torch.int64)
            for part in range(self.engine.book.num_parts):
                found = self.engine.edges(relation, part=part)
                counts += torch.bincount(found.src_gid if end == 0 else found.dst_gid, minlength=count)
            self._out_degrees[relation] = counts
        return _one_or_all(nodes, self._out_degrees[relation][self._located(relation[end], nodes)])

    def _located(self, node_type: NodeType, nodes: Any) -> Tensor:
        every = isinstance(nodes, str) and nodes == ALL
        ids = torch.arange(self.engine.schema.nodes[node_type].count) if every else ids_of(nodes, 0)
        return self.engine.locate(ids, node_type)

    def find_edges(self, edges: Any, etype: str | Relation | None = None) -> tuple[Tensor, Tensor]:
        """Sources and destinations of edges, int64 ``[n]`` each.

        Raises:
            IdError: an edge that there is not.
        """
        source, _, destination = self.to_canonical_etype(etype)
        found = self.engine.edges(self.types.relation(etype), ids_of(edges, 0))
        return self._raw(source, found.src_gid), self._raw(destination, found.dst_gid)

    def edge_subgraph(self, edges: Any, relabel_nodes: bool = True, store_ids: bool = True) -> DGLGraph:
        """Some edges, int64 ``[n]`` or by relation, as a graph.

        Args:
            relabel_nodes: whether it has the nodes of these edges only, with their ids as the column `NID`; else all nodes.
            store_ids: whether it has these ids, and those of the edges, as columns.
        """
        wanted = edges if isinstance(edges, dict) else {self.to_canonical_etype(None): edges}
        ids = {self.to_canonical_etype(etype): ids_of(some, 0) for etype, some in wanted.items()}
        ends = {etype: self.find_edges(some, etype) for etype, some in ids.items()}
        nodes: dict[str, Tensor] = {}
        if relabel_nodes:
            nodes, (near,) = numbered(ends)
            found = between(nodes, near)
        else:
            found = heterograph(ends, {name: self.num_nodes(name) for name in self.ntypes})
        return _with_ids(found, nodes, ids) if store_ids else found

    @property
    def local_partition(self) -> DGLGraph:
        """The partition that is near this process: its nodes, in the order of their ids, then the others that edges to them
        come from; `NID` and `EID` are the ids, ``inner_node`` is 1 for its own nodes. Its edges are read for this."""
        book = self.get_partition_book()
        own = {name: book.partid2nids(book.partid, name) for name in self.ntypes}
        found = {etype: self.engine.edges(name, part=book.partid) for etype, name in self.types.edges.items()}
        ends = {etype: (self._raw(etype[0], edges.src_gid), self._raw(etype[2], edges.dst_gid)) for etype, edges in found.items()}
        return partition_of(own, ends, {etype: edges.edge_id for etype, edges in found.items()})

    def _raw(self, ntype: str, gid: Tensor) -> Tensor:
        (ids,) = self.engine.fetch_rows(self.types.nodes[ntype], [RAW_ID], gid)
        return ids

    def rank(self) -> int:
        """The number of this trainer among all."""
        return self.world.rank

    def barrier(self) -> None:
        """Waits until every rank has come to this point."""
        barrier()

    def get_partition_book(self) -> GraphPartitionBook:
        """Who owns what."""
        return GraphPartitionBook(self.types, bounds_of(self.engine), self._near_part(), lambda: self.engine, self)

    def _near_part(self) -> int:
        """The partition that this rank is near: one of its host's, or of all where servers hold them."""
        here, ranks = self.engine.parts_here, self.world
        if here:
            return here[ranks.local_rank * len(here) // ranks.local_size]
        return ranks.rank * self.engine.book.num_parts // ranks.size

    def get_node_partition_policy(self, ntype: str) -> NodePartitionPolicy:
        """Says that a table has a row for each node of a type."""
        return NodePartitionPolicy(self.get_partition_book(), ntype)

    def get_edge_partition_policy(self, etype: str | Relation) -> EdgePartitionPolicy:
        """Says that a table has a row for each edge of a relation."""
        return EdgePartitionPolicy(self.get_partition_book(), etype)

    def __repr__(self) -> str:
        nodes = {name: self.num_nodes(name) for name in self.ntypes}
        edges = {etype: self.num_edges(etype) for etype in self.canonical_etypes}
        return f"DistGraph({self.graph_name!r}, num_nodes={nodes}, num_edges={edges}, parts={self.engine.book.num_parts})"


def partition_of(
    own: dict[str, Tensor], ends: dict[Relation, tuple[Tensor, Tensor]], edge_id: dict[Relation, Tensor]
) -> DGLGraph:
    """A partition as a graph.

    Args:
        own: the ids of its nodes, ascending, by type.
        ends: sources and destinations of its edges, by their ids.
        edge_id: the ids of these edges.
    """
    nodes, (near,) = numbered(ends, nodes=own)
    found = _with_ids(between(nodes, near), nodes, edge_id)
    for name, ids in nodes.items():
        found.nodes[name].data["inner_node"] = (torch.arange(len(ids)) < len(own[name])).to(torch.uint8)
    return found


def _with_ids(graph: DGLGraph, nodes: dict[str, Tensor], edges: dict[Relation, Tensor]) -> DGLGraph:
    for name, ids in nodes.items():
        graph.nodes[name].data[NID] = ids
    for etype, ids in edges.items():
        graph.edges[etype].data[EID] = ids
    return graph


def _opened(config: PartConfig, ranks: halohop.World) -> halohop.Graph:
    servers = os.environ.get("HALOHOP_SERVERS")
    if not servers:
        return halohop.open(config.description.path, world=ranks)
    addresses = servers.split(",")
    first = addresses[ranks.host] if ranks.host < len(addresses) else None
    return halohop.connect(addresses, sampling="client", first=first, folder=config.description.path)


def _schemes(view: DataView) -> dict[str, Scheme]:
    return {name: Scheme(tuple(tensor.shape[1:]), tensor.dtype) for name, tensor in view.items()}


def _one_or_all(asked: Any, found: Tensor) -> Any:
    return int(found) if isinstance(asked, int) else found
