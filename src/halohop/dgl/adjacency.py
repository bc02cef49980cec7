"""The edges of one relation: both ends in the order of their ids, and lists of in-edges, each made when it is first read."""

from dataclasses import replace
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from halohop.nn import Hop, hops

Ends = tuple[Tensor, Tensor]


class Adjacency:
    """The edges of a relation, from `num_src` sources to `num_dst` destinations. They never change.

    Args:
        num_src, num_dst: how many nodes the types of both ends have.
        edges: source and destination of each edge, int64 or int32 ``[E]`` each, by edge id; or lists of in-edges, whose
            `Hop.edges` say the id of each edge.

    Example:
        >>> edges = Adjacency(3, 2, (torch.tensor([2, 1, 0]), torch.tensor([1, 0, 1])))
        >>> edges.hop.src.tolist(), edges.hop.begins.tolist(), edges.edge_ids.tolist()
        ([1, 2, 0], [0, 1, 3], [1, 0, 2])
    """

    def __init__(self, num_src: int, num_dst: int, edges: Ends | Hop) -> None:
        self.num_src, self.num_dst, self._given = num_src, num_dst, edges

    def __getstate__(self) -> tuple[int, int, Ends | Hop]:
        return self.num_src, self.num_dst, self._given

    def __setstate__(self, state: tuple[int, int, Ends | Hop]) -> None:
        self.num_src, self.num_dst, self._given = state

    @property
    def some(self) -> Tensor:
        """One of the tensors: its device and dtype are those of all, its length is the number of edges."""
        return self._given.src if isinstance(self._given, Hop) else self._given[0]

    @property
    def num_edges(self) -> int:
        """How many edges there are."""
        return len(self.some)

    @cached_property
    def ends(self) -> Ends:
        """Source and destination of each edge, by edge id."""
        if not isinstance(self._given, Hop):
            return self._given
        src, dst = self._given.src, self._given.dst.to(self._given.src.dtype)
        return by_id(self._given, src), by_id(self._given, dst)

    @cached_property
    def hop(self) -> Hop:
        """Lists of in-edges of the destinations."""
        return self._given if isinstance(self._given, Hop) else _listed(*self._given, self.num_src, self.num_dst)

    @cached_property
    def out(self) -> Hop:
        """Lists of out-edges of the sources."""
        src, dst = self.ends
        return _listed(dst, src, self.num_dst, self.num_src)

    @cached_property
    def edge_ids(self) -> Tensor:
        """The id of each edge of `hop`, int64 ``[E]``."""
        return ids_of(self.hop)

    @cached_property
    def out_edge_ids(self) -> Tensor:
        """The id of each edge of `out`, int64 ``[E]``."""
        return ids_of(self.out)

    def reversed(self) -> Self:
        """The same edges the other way, with the same ids."""
        src, dst = self.ends
        return type(self)(self.num_dst, self.num_src, (dst, src))

    def kept(self, edges: Tensor) -> Self:
        """Some of the edges, whose ids are their places in `edges`."""
        src, dst = self.ends
        return type(self)(self.num_src, self.num_dst, (src[edges], dst[edges]))

    def of_dtype(self, dtype: torch.dtype) -> Self:
        """With ids of nodes of another dtype."""
        if isinstance(self._given, Hop):
            return type(self)(self.num_src, self.num_dst, replace(self._given, src=self._given.src.to(dtype)))
        return self.each(lambda ids: ids.to(dtype))

    def to(self, device: Any, non_blocking: bool = False) -> Self:
        """On another device."""
        return self.each(lambda values: values.to(device, non_blocking=non_blocking))

    def each(self, change: Any) -> Self:
        """With what a function makes of each tensor, such as a copy in pinned memory."""
        if not isinstance(self._given, Hop):
            return type(self)(self.num_src, self.num_dst, (change(self._given[0]), change(self._given[1])))
        hop = self._given
        edges = hop.edges if isinstance(hop.edges, slice) else change(hop.edges)
        listed = None if hop.listed is None else change(hop.listed)
        changed = replace(hop, src=change(hop.src), begins=change(hop.begins), edges=edges, listed=listed)
        return type(self)(self.num_src, self.num_dst, changed)


def ids_of(hop: Hop) -> Tensor:
    """The id of each edge of lists, int64 ``[E]``."""
    return torch.arange(hop.num_edges, device=hop.src.device) if isinstance(hop.edges, slice) else hop.edges


def by_id(hop: Hop, rows: Tensor) -> Tensor:
    """Rows of the edges of lists, in the order of the edges' ids."""
    return rows if isinstance(hop.edges, slice) else torch.empty_like(rows).index_copy(0, hop.edges, rows)


def in_lists(hop: Hop, rows: Tensor) -> Tensor:
    """Rows by edge id, in the order of lists."""
    return rows if isinstance(hop.edges, slice) else rows[hop.edges]


def places(begins: Tensor, lists: Tensor) -> tuple[Tensor, Tensor]:
    """What some lists of a CSC hold: places in it, list after list, and how many each has."""
    counts = begins[lists + 1] - begins[lists]
    ends = counts.cumsum(0)
    within = torch.arange(int(ends[-1]) if len(ends) else 0, device=begins.device)
    return within + (begins[lists] - ends + counts).repeat_interleave(counts), counts


def _listed(src: Tensor, dst: Tensor, num_src: int, num_dst: int) -> Hop:
    data = HeteroData()
    data["src"].num_nodes, data["dst"].num_nodes = num_src, num_dst
    data["src", "to", "dst"].edge_index = torch.stack([src, dst])
    found: Hop = hops(data, layers=1)[0]["src", "to", "dst"]
    return found
