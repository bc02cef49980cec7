"""DGL's graph: a description. What it is made of never changes; the columns of its nodes and edges do."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import count
from typing import Any, Self, TypeVar

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

import halohop
from halohop.dgl.adjacency import Adjacency
from halohop.dgl.inherited import changed
from halohop.dgl.structure import Structure, counted
from halohop.dgl.views import Columns, Frame, Frames, Scheme, View
from halohop.errors import InputError
from halohop.nn import Hop
from halohop.typing import EdgeDir, Relation

DEFAULT_NTYPE = "_N"
DEFAULT_ETYPE: Relation = (DEFAULT_NTYPE, "_E", DEFAULT_NTYPE)
NID = "_ID"
EID = "_ID"
NTYPE = "_TYPE"
ETYPE = "_TYPE"

Counts = dict[str, int]
Kind = TypeVar("Kind", str, Relation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The columns of a graph: of sources, of destinations (the same, unless the graph is a block), and of edges."""

    src: dict[str, Columns]
    dst: dict[str, Columns]
    edges: dict[Relation, Columns]

    def each(self, change: Any) -> "Kept":
        """With what a function makes of each tensor; the dicts are new."""
        src, edges = _changed(self.src, change), _changed(self.edges, change)
        return Kept(src=src, dst=src if self.src is self.dst else _changed(self.dst, change), edges=edges)


_LOCAL: ContextVar[Mapping[int, Kept]] = ContextVar("local columns of graphs, by id", default={})  # noqa: B039  # never changed


class DGLGraph(Structure):
    """Nodes and edges by type, and columns of both. `graph` and `heterograph` make one.

    Columns are set and read as in DGL, at any time. They and the edges go to other processes by fork and by pickle. Within
    `local_scope`, what a thread sets is seen by this thread only.

    Args:
        sources, destinations, edges: as of `Structure`.

    Attributes:
        calls: numbers the draws outside of batches.

    Example:
        >>> import halohop.dgl as dgl
        >>> g = dgl.graph(([0, 1, 2], [1, 2, 0]))
        >>> g.ndata["x"] = torch.eye(3)
        >>> g.num_nodes(), g.in_degrees(1), g.edges()[0].tolist(), g.hop().src.tolist()
        (3, 1, [0, 1, 2], [2, 0, 1])
    """

    def __init__(self, sources: dict[str, int], destinations: dict[str, int], edges: dict[Relation, Adjacency]) -> None:
        super().__init__(sources, destinations, edges)
        src: dict[str, Columns] = {kind: {} for kind in sources}
        dst: dict[str, Columns] = src if sources is destinations else {kind: {} for kind in destinations}
        self._own = Kept(src=src, dst=dst, edges={relation: {} for relation in edges})
        self._engines: dict[tuple[str | None, EdgeDir], tuple[Any, halohop.Graph]] = {}
        self.calls = count()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_own": self._kept, "_engines": {}, "calls": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state | {"calls": count()}

    @property
    def _kept(self) -> Kept:
        return _LOCAL.get().get(id(self), self._own)

    def hop(self, etype: str | Relation | None = None) -> Hop:
        """The edges of a relation as lists of in-edges; `Hop.edges` says the id of each."""
        return self.adjacency(etype).hop

    @property
    def engine(self) -> "halohop.Graph":
        """The same edges as a graph of halohop, without columns; made when this process first asks for it."""
        return self.engine_for()

    def engine_for(self, weight: str | None = None, edge_dir: EdgeDir = "in") -> "halohop.Graph":
        """As `engine`, for draws by weights, or along the edges.

        Args:
            weight: a column of the edges of some relations, with a number for each edge, which is at least 0.
            edge_dir: "in", to draw nodes with an edge to a given one, or "out", to draw those with an edge from it.

        Raises:
            InputError: no relation has this column.
        """
        edges = self._kept.edges
        weights = {relation: edges[relation][weight] for relation in edges if weight is not None and weight in edges[relation]}
        if weight is not None and not weights:
            raise InputError(f"no edges have {weight!r} to draw by; set it first: g.edata[{weight!r}] = ...")
        state = os.getpid(), [(relation, rows.data_ptr(), rows._version) for relation, rows in weights.items()]
        known = self._engines.get((weight, edge_dir))
        if known is None or known[0] != state:
            data = self._drawn_from(weights, weight or "")
            known = self._engines[weight, edge_dir] = state, halohop.graph(data, edge_dir=edge_dir)
        return known[1]

    def _drawn_from(self, weights: dict[Relation, Tensor], name: str) -> Data | HeteroData:
        data = self._described(columns=False)
        if weights and isinstance(data, Data) and data.num_nodes == data.num_edges:
            data = data.to_heterogeneous(node_type_names=self.ntypes, edge_type_names=self.canonical_etypes)  # names say whose
        for relation, rows in weights.items():
            store = data if isinstance(data, Data) else data[relation]
            store[name] = rows if rows.is_floating_point() else rows.float()
        return data

    def to_pyg(self) -> Data | HeteroData:
        """The edges and columns as PyG's graph; nothing is copied but the ends of edges."""
        return self._described(columns=True)

    def _described(self, columns: bool) -> Data | HeteroData:
        data: Any = Data() if self.is_homogeneous else HeteroData()
        for kind, number in self._sources.items():
            store = data if self.is_homogeneous else data[kind]
            store.num_nodes = number
            for name, rows in self._kept.src[kind].items() if columns else ():
                store["n_id" if name == NID else name] = rows
        for relation, edges in self._edges.items():
            store = data if self.is_homogeneous else data[relation]
            store.edge_index = torch.stack([ends.long() for ends in edges.ends])
            for name, rows in self._kept.edges[relation].items() if columns else ():
                store["e_id" if name == EID else name] = rows
        found: Data | HeteroData = data
        return found

    # columns

    def node_frame(self, ntype: str | None = None) -> Frame:
        """The columns of a type of nodes."""
        self._check_one_sided("ndata and nodes")
        return self.src_frame(ntype)

    def src_frame(self, ntype: str | None = None) -> Frame:
        """The columns of a type of sources."""
        kind = _only(self._sources, ntype)
        return Frame(self._kept.src[kind], self._sources[kind], f"nodes of type {kind!r}", self.device)

    def dst_frame(self, ntype: str | None = None) -> Frame:
        """The columns of a type of destinations."""
        kind = _only(self._destinations, ntype)
        return Frame(self._kept.dst[kind], self._destinations[kind], f"nodes of type {kind!r}", self.device)

    def edge_frame(self, etype: str | Relation | None = None) -> Frame:
        """The columns of a relation's edges."""
        relation = self.to_canonical_etype(etype)
        return Frame(self._kept.edges[relation], self._edges[relation].num_edges, f"edges {relation}", self.device)

    @property
    def ndata(self) -> Any:
        """Columns of the nodes; where there are several types, each a dict of the types that have it."""
        self._check_one_sided("ndata and nodes")
        return self.srcdata

    @property
    def srcdata(self) -> Any:
        """Columns of the sources, as `ndata`."""
        return _of_types(self._sources, self.src_frame)

    @property
    def dstdata(self) -> Any:
        """Columns of the destinations, as `ndata`."""
        return _of_types(self._destinations, self.dst_frame)

    @property
    def edata(self) -> Any:
        """Columns of the edges; where there are several relations, each a dict of the relations that have it."""
        return _of_types(self._edges, self.edge_frame)

    @property
    def nodes(self) -> View:
        """Ids of the nodes of a type when called, and its columns: ``g.nodes["user"].data``."""
        return View(ids=lambda ntype=None: self._numbers(self._sources, ntype), frame=self.node_frame)

    @property
    def srcnodes(self) -> View:
        """As `nodes`, of the sources."""
        return View(ids=lambda ntype=None: self._numbers(self._sources, ntype), frame=self.src_frame)

    @property
    def dstnodes(self) -> View:
        """As `nodes`, of the destinations."""
        return View(ids=lambda ntype=None: self._numbers(self._destinations, ntype), frame=self.dst_frame)

    @property
    def edges(self) -> View:
        """The edges when called, as `all_edges` gives them, and the columns of a relation: ``g.edges["follows"].data``."""
        return View(ids=self.all_edges, frame=self.edge_frame)

    def node_attr_schemes(self, ntype: str | None = None) -> dict[str, Scheme]:
        """What a row of each column of a type of nodes is."""
        return self.node_frame(ntype).schemes

    def edge_attr_schemes(self, etype: str | Relation | None = None) -> dict[str, Scheme]:
        """What a row of each column of a relation's edges is."""
        return self.edge_frame(etype).schemes

    @contextmanager
    def local_scope(self) -> Iterator[None]:
        """What is set, replaced or removed of columns within it is undone at its end."""
        token = _LOCAL.set({**_LOCAL.get(), id(self): self._kept.each(lambda rows: rows)})
        try:
            yield
        finally:
            _LOCAL.reset(token)

    def local_var(self) -> Self:
        """The same graph with columns of its own, which at first are those of this one."""
        return self._with(self._edges, self._kept.each(lambda rows: rows))

    # the same graph elsewhere

    def to(self, device: Any, non_blocking: bool = False) -> Self:
        """On another device, with its columns."""
        edges = {relation: edges.to(device, non_blocking) for relation, edges in self._edges.items()}
        return self._with(edges, self._kept.each(lambda rows: rows.to(device, non_blocking=non_blocking)))

    def pin_memory(self) -> Self:
        """With edges and columns in pinned memory, from where they go to a GPU faster.

        Raises:
            InputError: there is no GPU.
        """
        if not torch.cuda.is_available():
            raise InputError("pin_memory is for graphs that go to a GPU, and there is none here; leave it out")
        edges = {relation: edges.each(Tensor.pin_memory) for relation, edges in self._edges.items()}
        return self._with(edges, self._kept.each(Tensor.pin_memory))

    def int(self) -> Self:
        """With ids of nodes in int32."""
        return self._with({name: edges.of_dtype(torch.int32) for name, edges in self._edges.items()}, self._kept)

    def long(self) -> Self:
        """With ids of nodes in int64."""
        return self._with({name: edges.of_dtype(torch.int64) for name, edges in self._edges.items()}, self._kept)

    def __getitem__(self, etype: str | Relation) -> "DGLGraph":
        """One relation, with the columns of this graph: what is set in one is there in the other."""
        relation = self.to_canonical_etype(etype)
        source, _, destination = relation
        part = DGLGraph.__new__(type(self))
        edges = {relation: self._edges[relation]}
        if self._sources is self._destinations:
            kinds = dict.fromkeys((source, destination))
            sources = destinations = {kind: self._sources[kind] for kind in kinds}
            src = dst = {kind: self._kept.src[kind] for kind in kinds}
        else:
            sources, destinations = {source: self._sources[source]}, {destination: self._destinations[destination]}
            src, dst = {source: self._kept.src[source]}, {destination: self._kept.dst[destination]}
        DGLGraph.__init__(part, sources, destinations, edges)
        part._own = Kept(src=src, dst=dst, edges={relation: self._kept.edges[relation]})
        return part

    def __repr__(self) -> str:
        edges = {relation: edges.num_edges for relation, edges in self._edges.items()}
        if self._sources is self._destinations:
            return f"Graph(num_nodes={self._sources}, num_edges={edges})"
        return f"Block(num_src_nodes={self._sources}, num_dst_nodes={self._destinations}, num_edges={edges})"

    def _with(self, edges: dict[Relation, Adjacency], kept: Kept) -> Self:
        made = type(self).__new__(type(self))
        DGLGraph.__init__(made, self._sources, self._destinations, edges)
        made._own = kept
        return made

    def _numbers(self, counts: Counts, ntype: str | None) -> Tensor:
        return torch.arange(counts[_only(counts, ntype)], dtype=self.idtype, device=self.device)

    def _check_one_sided(self, what: str) -> None:
        if self._sources is not self._destinations:
            raise InputError(f"{what} are of graphs; a block has srcdata and dstdata, srcnodes and dstnodes")


def _changed(kept: Mapping[Kind, Columns], change: Any) -> dict[Kind, Columns]:
    return {kind: changed(columns, change) for kind, columns in kept.items()}


def _only(counts: Counts, ntype: str | None) -> str:
    if ntype is None and len(counts) != 1:
        raise InputError(f"no type of nodes is given, and there are {list(counts)}; name one")
    kind = next(iter(counts)) if ntype is None else ntype
    counted(counts, kind)
    return kind


def _of_types(kinds: Any, frame: Any) -> Any:
    return frame(next(iter(kinds))) if len(kinds) == 1 else Frames({kind: frame(kind) for kind in kinds})
