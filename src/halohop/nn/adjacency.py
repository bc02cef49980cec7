"""The edges of a graph or of one relation: both ends in the order of their ids, and lists of in-edges and out-edges."""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor

from halohop.nn.hops import Hop, listed_by_dst

Ends = tuple[Tensor, Tensor]


class Adjacency:
    """Edges from `num_src` sources to `num_dst` destinations, which never change; lists are made when they are first read.

    What a layer of `halohop.nn` reads of a whole graph is `hop`.

    Args:
        num_src, num_dst: how many nodes there are at both ends.
        edges: source and destination of each edge, int64 or int32 ``[E]`` each, by edge id; or lists of in-edges, whose
            `Hop.edges` say the id of each edge.

    Example:
        >>> edges = Adjacency(3, 2, (torch.tensor([2, 1, 0]), torch.tensor([1, 0, 1])))
        >>> edges.hop.src.tolist(), edges.hop.begins.tolist(), edges.hop.edge_ids.tolist()
        ([1, 2, 0], [0, 1, 3], [1, 0, 2])
        >>> [found.tolist() for found in edges.to_nodes(torch.tensor([1]))]
        [[2, 0], [1, 1], [0, 2]]
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
        return self._given.by_id(src), self._given.by_id(dst)

    @cached_property
    def hop(self) -> Hop:
        """Lists of in-edges of the destinations."""
        return self._given if isinstance(self._given, Hop) else listed_by_dst(*self._given, self.num_src, self.num_dst)

    @cached_property
    def out(self) -> Hop:
        """Lists of out-edges of the sources: a hop of the edges turned around."""
        src, dst = self.ends
        return listed_by_dst(dst, src, self.num_dst, self.num_src)

    def to_nodes(self, nodes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The edges to destinations, node after node.

        Args:
            nodes: destinations, int64 ``[n]``.

        Returns:
            Source, destination and id of each edge, in the dtype of ids.
        """
        there, here, ids = _of_lists(self.hop, nodes)
        return there, here, ids

    def from_nodes(self, nodes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The edges from sources, node after node, as `to_nodes`."""
        there, here, ids = _of_lists(self.out, nodes)
        return here, there, ids

    def between(self, src: Tensor, dst: Tensor) -> tuple[Tensor, Tensor]:
        """The edges between pairs of nodes.

        Args:
            src, dst: of each pair, int64 ``[n]``.

        Returns:
            For each edge the number of its pair, ascending, int64, and its id, in the dtype of ids.
        """
        there, _, ids = self.to_nodes(dst)
        pair = torch.arange(len(src), device=src.device).repeat_interleave(self.hop.begins.diff()[dst])
        kept = there == src[pair]
        return pair[kept], ids[kept]

    def reversed(self) -> Self:
        """The same edges the other way, with the same ids."""
        src, dst = self.ends
        return type(self)(self.num_dst, self.num_src, (dst, src))

    def kept(self, edges: Tensor) -> Self:
        """Some of the edges, whose ids are their places in `edges`."""
        src, dst = self.ends
        return type(self)(self.num_src, self.num_dst, (src[edges], dst[edges]))

    def of_dtype(self, dtype: torch.dtype) -> Self:
        """With nodes of another dtype."""
        given = self._given
        edges = replace(given, src=given.src.to(dtype)) if isinstance(given, Hop) else (given[0].to(dtype), given[1].to(dtype))
        return type(self)(self.num_src, self.num_dst, edges)

    def to(self, device: Any, non_blocking: bool = False) -> Self:
        """On another device."""
        return self.each(lambda values: values.to(device, non_blocking=non_blocking))

    def each(self, change: Callable[[Tensor], Tensor]) -> Self:
        """With what a function makes of each tensor, such as a copy in pinned memory."""
        hop = self._given
        if not isinstance(hop, Hop):
            return type(self)(self.num_src, self.num_dst, (change(hop[0]), change(hop[1])))
        edges = hop.edges if isinstance(hop.edges, slice) else change(hop.edges)
        listed = None if hop.listed is None else change(hop.listed)
        changed = replace(hop, src=change(hop.src), begins=change(hop.begins), edges=edges, listed=listed)
        return type(self)(self.num_src, self.num_dst, changed)


def _of_lists(hop: Hop, lists: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What some lists hold, list after list: the other end of each edge, this end, and its id."""
    begins, counts = hop.begins[lists], hop.begins.diff()[lists]
    ends = counts.cumsum(0)
    places = torch.arange(int(ends[-1]) if len(ends) else 0, device=begins.device)
    places += (begins - ends + counts).repeat_interleave(counts)
    dtype = hop.src.dtype
    return hop.src[places], lists.repeat_interleave(counts).to(dtype), hop.edge_ids[places].to(dtype)
