"""The columns of a graph's nodes and edges, and scopes in which they change for a while."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from halohop.dgl.inherited import changed
from halohop.dgl.kinds import only
from halohop.dgl.structure import Structure
from halohop.dgl.views import Columns, Frame, Frames, Scheme, View
from halohop.errors import InputError
from halohop.nn import Adjacency
from halohop.typing import Relation

NID = "_ID"
EID = "_ID"
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


class Framed(Structure):
    """A `Structure` with columns.

    Args:
        sources, destinations, edges: as of `Structure`.
    """

    def __init__(self, sources: Counts, destinations: Counts, edges: dict[Relation, Adjacency]) -> None:
        super().__init__(sources, destinations, edges)
        src: dict[str, Columns] = {kind: {} for kind in sources}
        dst: dict[str, Columns] = src if sources is destinations else {kind: {} for kind in destinations}
        self._own = Kept(src=src, dst=dst, edges={relation: {} for relation in edges})

    @property
    def _kept(self) -> Kept:
        return _LOCAL.get().get(id(self), self._own)

    def node_frame(self, ntype: str | None = None) -> Frame:
        """The columns of a type of nodes."""
        self.check_one_sided("ndata and nodes")
        return self.src_frame(ntype)

    def src_frame(self, ntype: str | None = None) -> Frame:
        """The columns of a type of sources."""
        kind = only(self._sources, ntype)
        return Frame(self._kept.src[kind], self._sources[kind], f"nodes of type {kind!r}", self.device)

    def dst_frame(self, ntype: str | None = None) -> Frame:
        """The columns of a type of destinations."""
        kind = only(self._destinations, ntype)
        return Frame(self._kept.dst[kind], self._destinations[kind], f"nodes of type {kind!r}", self.device)

    def edge_frame(self, etype: str | Relation | None = None) -> Frame:
        """The columns of a relation's edges."""
        relation = self.to_canonical_etype(etype)
        return Frame(self._kept.edges[relation], self._edges[relation].num_edges, f"edges {relation}", self.device)

    @property
    def ndata(self) -> Any:
        """Columns of the nodes; where there are several types, each a dict of the types that have it."""
        self.check_one_sided("ndata and nodes")
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

    def _numbers(self, counts: Counts, ntype: str | None) -> Tensor:
        return torch.arange(counts[only(counts, ntype)], dtype=self.idtype, device=self.device)

    def check_one_sided(self, what: str) -> None:
        if self._sources is not self._destinations:
            raise InputError(f"{what} are of graphs; a block has srcdata and dstdata, srcnodes and dstnodes")


def _changed(kept: Mapping[Kind, Columns], change: Any) -> dict[Kind, Columns]:
    return {kind: changed(columns, change) for kind, columns in kept.items()}


def _of_types(kinds: Any, frame: Any) -> Any:
    return frame(next(iter(kinds))) if len(kinds) == 1 else Frames({kind: frame(kind) for kind in kinds})
