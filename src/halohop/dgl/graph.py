"""DGL's graph: a description. What it is made of never changes; the columns of its nodes and edges do."""

import os
from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any, Self

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

import halohop
from halohop.dgl.asked import Asked, Remade
from halohop.dgl.cross import CrossPasses
from halohop.dgl.frames import EID as EID
from halohop.dgl.frames import NID as NID
from halohop.dgl.frames import Kept
from halohop.dgl.interop import to_dgl, to_pyg
from halohop.dgl.notes import Lacking
from halohop.dgl.views import Columns
from halohop.errors import InputError
from halohop.nn import Adjacency, Hop
from halohop.typing import EdgeDir, Relation

DEFAULT_NTYPE = "_N"
DEFAULT_ETYPE: Relation = (DEFAULT_NTYPE, "_E", DEFAULT_NTYPE)
NTYPE = "_TYPE"
ETYPE = "_TYPE"


Wanted = Mapping[Any, Iterable[str]]
"""Names of columns, by type or relation."""

Given = dict[Any, dict[str, str]]
"""The same, and what they are called elsewhere."""


class DGLGraph(Asked, Remade, CrossPasses, Lacking):
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

    of_dgl = "DGLGraph"

    def __init__(self, sources: dict[str, int], destinations: dict[str, int], edges: dict[Relation, Adjacency]) -> None:
        super().__init__(sources, destinations, edges)
        self._engines: dict[tuple[str | None, EdgeDir], tuple[Any, halohop.Graph, Data | HeteroData]] = {}
        self.calls = count()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_own": self._kept, "_engines": {}, "calls": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state | {"calls": count()}

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
            known = self._engines[weight, edge_dir] = state, halohop.graph(data, edge_dir=edge_dir), data
        return known[1]

    def give_columns(self, weight: str | None, nodes: Wanted, edges: Wanted) -> tuple[Given, Given]:
        """Gives columns, as they are now, to the graph that `engine_for(weight)` returns, whose loaders gather their rows.

        Args:
            nodes, edges: names by type and by relation.

        Returns:
            By type and by relation, the names of these columns there.
        """
        self.engine_for(weight)
        data, kept = self._engines[weight, "in"][2], self._kept
        return _given(data, "node", nodes, kept.src), _given(data, "edge", edges, kept.edges)

    def _drawn_from(self, weights: dict[Relation, Tensor], name: str) -> Data | HeteroData:
        data = to_pyg(self, columns=False).cpu()  # where the host draws
        if weights and isinstance(data, Data) and data.num_nodes == data.num_edges:
            data = data.to_heterogeneous(node_type_names=self.ntypes, edge_type_names=self.canonical_etypes)  # names say whose
        for relation, rows in weights.items():
            store = data if isinstance(data, Data) else data[relation]
            store[name] = (rows if rows.is_floating_point() else rows.float()).cpu()
        return data

    def to_pyg(self) -> Data | HeteroData:
        """The edges and columns in PyG's form, a block as a batch of one hop: destinations are the first nodes.

        Rows are not copied, ends of edges are. `NID` and `EID` are called ``n_id`` and ``e_id``.
        """
        return to_pyg(self)

    def to_dgl(self) -> Any:
        """The same as a graph or block of real DGL, if that is installed.

        Raises:
            InputError: DGL cannot be imported.
        """
        return to_dgl(self)

    def clone(self) -> Self:
        """The same graph with copies of its columns."""
        return self._with(self._edges, self._kept.each(Tensor.clone))

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

    def cpu(self) -> Self:
        """On the CPU."""
        return self.to("cpu")

    def is_pinned(self) -> bool:
        """Whether the edges lie in pinned memory."""
        return any(edges.some.is_pinned() for edges in self._edges.values())

    def formats(self, formats: Any = None) -> Any:
        """The graph itself: lists of in-edges and of out-edges are made when they are first read; or their names."""
        return {"created": ["coo"], "not created": ["csr", "csc"]} if formats is None else self

    def create_formats_(self) -> None:
        """Makes the lists of in-edges now, for all processes that are forked later."""
        for relation in self._edges:
            self.hop(relation)

    def int(self) -> Self:
        """With ids of nodes in int32."""
        return self._with({name: edges.of_dtype(torch.int32) for name, edges in self._edges.items()}, self._kept)

    def long(self) -> Self:
        """With ids of nodes in int64."""
        return self._with({name: edges.of_dtype(torch.int64) for name, edges in self._edges.items()}, self._kept)

    def __getitem__(self, etype: Any) -> "DGLGraph":
        """One relation, with the columns of this graph: what is set in one is there in the other."""
        return self.of_relations([etype])

    def of_relations(self, etypes: Iterable[str | Relation]) -> "DGLGraph":
        """Some relations and the types of their ends, as one of them in brackets."""
        asked = {self.to_canonical_etype(etype) for etype in etypes}
        edges = {relation: some for relation, some in self._edges.items() if relation in asked}
        part = DGLGraph.__new__(type(self))
        if self._sources is self._destinations:
            sources = destinations = {kind: self._sources[kind] for relation in edges for kind in relation[::2]}
        else:
            sources = {relation[0]: self._sources[relation[0]] for relation in edges}
            destinations = {relation[2]: self._destinations[relation[2]] for relation in edges}
        src = {kind: self._kept.src[kind] for kind in sources}
        dst = src if sources is destinations else {kind: self._kept.dst[kind] for kind in destinations}
        DGLGraph.__init__(part, sources, destinations, edges)
        part._own = Kept(src=src, dst=dst, edges={relation: self._kept.edges[relation] for relation in edges})
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


def _given(data: Data | HeteroData, of: str, wanted: Wanted, columns: Mapping[Any, Columns]) -> Given:
    """Sets columns of PyG's graph, and says their names there, in which PyG finds no other meaning."""
    found = {}
    for kind, names in wanted.items():
        store = data if isinstance(data, Data) else data[kind]
        found[kind] = {name: f"{of}:{name.encode().hex()}" for name in names}
        for name, there in found[kind].items():
            store[there] = columns[kind][name]
    return found
