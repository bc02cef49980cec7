"""What a graph is made of: types, counts and edges. None of it changes."""

from typing import Any

import torch
from torch import Tensor

from halohop.dgl.kinds import Kinds
from halohop.errors import IdError, InputError, SchemaError
from halohop.nn import Adjacency
from halohop.typing import Relation

Nodes = Tensor | int | list[int]
Ends = tuple[Tensor, Tensor]
"""Sources and destinations of edges, by edge id."""


class Structure(Kinds):
    """The types of nodes and edges, and the edges.

    Args:
        sources, destinations: how many nodes each type has, as an end of edges; one dict, unless this is a block.
        edges: by relation.
    """

    is_block = False

    def __init__(self, sources: dict[str, int], destinations: dict[str, int], edges: dict[Relation, Adjacency]) -> None:
        self._sources, self._destinations, self._edges = sources, destinations, edges

    @property
    def srctypes(self) -> list[str]:
        """The types that edges begin at."""
        return list(self._sources)

    @property
    def dsttypes(self) -> list[str]:
        """The types that edges lead to."""
        return list(self._destinations)

    @property
    def ntypes(self) -> list[str]:
        """The types of nodes; of a block, those of sources and then those of destinations."""
        return self.srctypes if self._sources is self._destinations else self.srctypes + self.dsttypes

    @property
    def canonical_etypes(self) -> list[Relation]:
        """The relations: type of the source, name, type of the destination."""
        return list(self._edges)

    @property
    def is_unibipartite(self) -> bool:
        """Whether no type is both a source and a destination of edges."""
        return self.is_block or not {relation[0] for relation in self._edges} & {relation[2] for relation in self._edges}

    @property
    def is_multigraph(self) -> bool:
        """Whether any pair of nodes has two edges of a relation."""
        return any(torch.stack(edges.ends).unique(dim=1).shape[1] < edges.num_edges for edges in self._edges.values())

    def has_nodes(self, vid: Nodes, ntype: str | None = None) -> Any:
        """Whether there are nodes of these ids: bool ``[n]``, or one for a number."""
        ids = torch.as_tensor(vid, device=self.device)
        found = (ids >= 0) & (ids < self.num_nodes(ntype))
        return bool(found) if isinstance(vid, int) else found

    def adjacency(self, etype: str | Relation | None = None) -> Adjacency:
        """The edges of a relation."""
        return self._edges[self.to_canonical_etype(etype)]

    @property
    def idtype(self) -> torch.dtype:
        """Of ids of nodes: int64 or int32."""
        return next((edges.some.dtype for edges in self._edges.values()), torch.int64)

    @property
    def device(self) -> torch.device:
        """Where the edges lie."""
        return next((edges.some.device for edges in self._edges.values()), torch.device("cpu"))

    def num_nodes(self, ntype: str | None = None) -> int:
        """How many nodes a type has, or all types; of a block, those of the sources where both ends have the type."""
        if ntype is not None:
            return counted({**self._destinations, **self._sources}, ntype)
        counts = [self._sources] if self._sources is self._destinations else [self._sources, self._destinations]
        return sum(sum(types.values()) for types in counts)

    def num_src_nodes(self, ntype: str | None = None) -> int:
        """How many sources a type has, or all types."""
        return counted(self._sources, ntype)

    def num_dst_nodes(self, ntype: str | None = None) -> int:
        """How many destinations a type has, or all types."""
        return counted(self._destinations, ntype)

    def num_edges(self, etype: str | Relation | None = None) -> int:
        """How many edges a relation has, or all relations."""
        if etype is None:
            return sum(edges.num_edges for edges in self._edges.values())
        return self.adjacency(etype).num_edges

    number_of_nodes, number_of_edges = num_nodes, num_edges
    number_of_src_nodes, number_of_dst_nodes = num_src_nodes, num_dst_nodes

    def all_edges(self, form: str = "uv", order: str = "eid", etype: str | Relation | None = None) -> Any:
        """Sources and destinations ("uv"), ids ("eid"), or the three ("all"), in the order of ids or of their ends ("srcdst")."""
        adjacency = self.adjacency(etype)
        src, dst = adjacency.ends
        ids = torch.arange(len(src), dtype=src.dtype, device=src.device)
        if order == "srcdst":
            by_dst = dst.argsort(stable=True)
            ids = by_dst[src[by_dst].argsort(stable=True)].to(src.dtype)
            src, dst = src[ids], dst[ids]
        elif order not in ("eid", None):
            raise InputError(f"order={order!r}; give 'eid' or 'srcdst'")
        return as_form(form, src, dst, ids)

    def find_edges(self, eid: Nodes, etype: str | Relation | None = None) -> tuple[Tensor, Tensor]:
        """Sources and destinations of edges.

        Raises:
            IdError: an id that the relation does not have.
        """
        adjacency = self.adjacency(etype)
        ids = self.ids(eid, adjacency.num_edges, "edge")
        src, dst = adjacency.ends
        return src[ids], dst[ids]

    def in_edges(self, v: Nodes, form: str = "uv", etype: str | Relation | None = None) -> Any:
        """The edges to nodes, node after node, in a form of `all_edges`."""
        adjacency = self.adjacency(etype)
        return as_form(form, *adjacency.to_nodes(self.ids(v, adjacency.num_dst, "node")))

    def out_edges(self, u: Nodes, form: str = "uv", etype: str | Relation | None = None) -> Any:
        """The edges from nodes, node after node, in a form of `all_edges`."""
        adjacency = self.adjacency(etype)
        return as_form(form, *adjacency.from_nodes(self.ids(u, adjacency.num_src, "node")))

    def predecessors(self, v: int, etype: str | Relation | None = None) -> Tensor:
        """Where the edges to a node begin."""
        src: Tensor = self.in_edges(v, etype=etype)[0]
        return src

    def successors(self, v: int, etype: str | Relation | None = None) -> Tensor:
        """Where the edges from a node lead."""
        dst: Tensor = self.out_edges(v, etype=etype)[1]
        return dst

    def in_degrees(self, v: Any = "__ALL__", etype: str | Relation | None = None) -> Any:
        """How many edges lead to each node: of the dtype of ids ``[n]``, or a number for one node."""
        return self._degrees(self.adjacency(etype).hop.begins, v)

    def out_degrees(self, u: Any = "__ALL__", etype: str | Relation | None = None) -> Any:
        """How many edges begin at each node, as `in_degrees`."""
        return self._degrees(self.adjacency(etype).out.begins, u)

    def has_edges_between(self, u: Nodes, v: Nodes, etype: str | Relation | None = None) -> Any:
        """Whether there is an edge for each pair: bool ``[n]``, or one for a pair of numbers."""
        found = self._pairs(u, v, etype)[1] > 0
        return bool(found) if isinstance(u, int) and isinstance(v, int) else found

    def edge_ids(self, u: Nodes, v: Nodes, return_uv: bool = False, etype: str | Relation | None = None) -> Any:
        """The id of an edge for each pair; with `return_uv`, of all edges of each pair, with their ends.

        Raises:
            InputError: a pair without an edge.
        """
        ids, found = self._pairs(u, v, etype)
        if return_uv:
            src, dst = self.find_edges(ids, etype)
            return src, dst, ids
        if len(lacking := (found == 0).nonzero()):
            raise InputError(f"there is no edge for pair {int(lacking[0])}; ask has_edges_between first")
        first = ids[found.cumsum(0) - found]
        return int(first) if isinstance(u, int) and isinstance(v, int) else first

    def _pairs(self, u: Nodes, v: Nodes, etype: str | Relation | None) -> tuple[Tensor, Tensor]:
        """The ids of edges between pairs, pair after pair, and how many each pair has."""
        adjacency = self.adjacency(etype)
        src, dst = torch.broadcast_tensors(self.ids(u, adjacency.num_src, "node"), self.ids(v, adjacency.num_dst, "node"))
        pair, ids = adjacency.between(src.contiguous(), dst.contiguous())
        return ids, torch.bincount(pair, minlength=len(src))

    def adj_tensors(self, fmt: str, etype: str | Relation | None = None) -> tuple[Tensor, ...]:
        """The edges as "coo" (sources, destinations), or as "csr" or "csc" (pointers, other ends, ids of edges)."""
        adjacency = self.adjacency(etype)
        if fmt == "coo":
            return adjacency.ends
        if fmt not in ("csr", "csc"):
            raise InputError(f"{fmt!r} is no format; give 'coo', 'csr' or 'csc'")
        hop = adjacency.hop if fmt == "csc" else adjacency.out
        return hop.begins.to(self.idtype), hop.src, hop.edge_ids.to(self.idtype)

    def _degrees(self, begins: Tensor, nodes: Any) -> Any:
        if isinstance(nodes, str) and nodes == "__ALL__":
            return begins.diff().to(self.idtype)
        ids = self.ids(nodes, len(begins) - 1, "node")
        found = (begins[ids + 1] - begins[ids]).to(self.idtype)
        return int(found) if isinstance(nodes, int) else found

    def ids(self, given: Nodes, number: int, of: str) -> Tensor:
        """Ids as int64 ``[n]`` on the graph's device, all in range."""
        ids = torch.as_tensor(given, device=self.device)
        if ids.numel() and (ids.is_floating_point() or ids.dtype == torch.bool or ids.dim() > 1):
            raise InputError(f"{of} ids are {ids.dtype} of shape {list(ids.shape)}; give integers [n]")
        ids = ids.long().reshape(-1)
        if len(wrong := ids[(ids < 0) | (ids >= number)]):
            raise IdError(f"there is no {of} {int(wrong[0])}, only {number}, numbered from 0")
        return ids


def counted(counts: dict[str, int], ntype: str | None) -> int:
    """How many nodes a type has, or all.

    Raises:
        SchemaError: an unknown type.
    """
    if ntype is None:
        return sum(counts.values())
    if ntype not in counts:
        raise SchemaError(f"there is no type {ntype!r} of nodes, only {list(counts)}")
    return counts[ntype]


def as_form(form: str, src: Tensor, dst: Tensor, ids: Tensor) -> Any:
    """Edges as DGL's `form` asks for them."""
    forms = {"uv": (src, dst), "eid": ids, "all": (src, dst, ids)}
    if form not in forms:
        raise InputError(f"form={form!r}; give one of {sorted(forms)}")
    return forms[form]
