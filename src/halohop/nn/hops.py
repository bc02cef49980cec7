"""What each layer of a model reads of a batch: lists of in-edges, taken from a finished batch of PyG's form."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.data import Data, HeteroData
from torch_geometric.index import index2ptr

from halohop import ops
from halohop.errors import InputError
from halohop.sampling.lists import OF_HOPS


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Hop:
    """The edges of one layer and one relation, grouped by destination (CSC); destinations are the first of the sources.

    Args:
        src: where each edge begins, int64 or int32 ``[E]``, positions among the sources.
        begins: where the list of each destination begins in `src`, int64 ``[num_dst + 1]``.
        num_src: rows that the layer reads.
        num_dst: rows that it gives.
        edges: which edges of the batch these are: a slice, or int64 ``[E]``.
        whole: all edges of the batch in the same form, where these are some of them and others count, too; None if not.
        num_whole: how many edges the batch has, where `whole` does not say it; None if these are all.
        listed: where each edge leads, int64 ``[E]``, where that is known; None if only `begins` says it.

    Example:
        >>> hop = Hop(src=torch.tensor([1, 2, 0]), begins=torch.tensor([0, 2, 3]), num_src=3, num_dst=2, edges=slice(0, 3))
        >>> hop.dst.tolist(), hop.num_edges
        ([0, 0, 1], 3)
    """

    src: Tensor
    begins: Tensor
    num_src: int
    num_dst: int
    edges: slice | Tensor
    whole: "Hop | None" = None
    num_whole: int | None = None
    listed: Tensor | None = None

    @property
    def num_edges(self) -> int:
        """How many edges these are."""
        return len(self.src)

    @property
    def dst(self) -> Tensor:
        """Where each edge leads, int64 ``[E]``."""
        if self.listed is not None:
            return self.listed
        places = torch.arange(self.num_dst, device=self.begins.device)
        return places.repeat_interleave(self.begins.diff(), output_size=len(self.src))

    @property
    def edge_index(self) -> EdgeIndex:
        """The edges in PyG's form, ``[2, E]``, for layers that do not take a `Hop`."""
        return EdgeIndex(self.ends, sparse_size=(self.num_src, self.num_dst), sort_order="col")

    @property
    def ends(self) -> Tensor:
        """Both ends of each edge as a plain tensor, int64 ``[2, E]``."""
        return torch.stack([self.src.long(), self.dst])

    def of_edges(self, rows: Tensor) -> Tensor:
        """The rows of these edges, of rows of all edges of the batch, such as its `edge_attr`.

        Raises:
            InputError: there are more or fewer rows than the batch has edges.
        """
        of_batch = self if self.whole is None else self.whole
        number = of_batch.num_edges if self.num_whole is None else self.num_whole
        if len(rows) != number:
            raise InputError(f"{len(rows)} rows for the {number} edges of a batch; give those of all its edges")
        return rows[self.edges]

    @property
    def edge_ids(self) -> Tensor:
        """Which edge of the batch each of these is, int64 ``[E]``."""
        if isinstance(self.edges, Tensor):
            return self.edges
        return torch.arange(self.edges.start, self.edges.stop, device=self.src.device)

    def by_degree(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Destinations that have as many edges as one another, int64 ``[n]``, and where these are in the lists ``[n, edges of
        each]``: one pair for each number of edges, ascending; none for destinations without edges."""
        by_degree, order = self.begins.diff().sort(stable=True)
        degrees, counts = by_degree.unique_consecutive(return_counts=True)
        for degree, nodes in zip(degrees.tolist(), order.split(counts.tolist()), strict=True):
            if degree:
                yield nodes, self.begins[nodes].unsqueeze(1) + torch.arange(degree, device=nodes.device)

    def by_id(self, rows: Tensor) -> Tensor:
        """Rows of these edges in the order of the batch, of which they are all."""
        return torch.empty_like(rows).index_copy(0, self.edges, rows) if isinstance(self.edges, Tensor) else rows


def hops(batch: Data | HeteroData, *, layers: int | None = None, cumulative: bool = True) -> list[Any]:
    """What each layer of a model reads of a batch, the outermost hop first.

    A layer needs the edges of the hops that still matter for the seeds, and gives rows of the nodes before the last of them only.
    Where edges are grouped by destination, as they are in batches of `NeighborLoader`, the tensors are views of the batch;
    otherwise (padded batches, and several hops together of `expand="all"`) they are sorted, edges of one destination in the order
    of the batch. A batch that has no hops, because its subgraph is induced or bidirectional, gives all its edges to every layer.

    Args:
        batch: of halohop's loaders or PyG's, on any device.
        layers: how many layers the model has, to be compared with the batch; how often a batch without hops is given.
        cumulative: a layer reads the edges of its hop and of all hops before it, as PyG's `trim_to_layer` leaves them; False: of
            its own hop only, which is what DGL's blocks hold where every hop begins at all nodes (`expand="all"`); each is then a
            graph of its own, and layers that count edges (`GCNConv`) count those of the hop.

    Returns:
        A `Hop` for each layer; of a `HeteroData`, a dict of relations and their `Hop` for each layer.

    Raises:
        InputError: the batch does not say its hops and `layers` is not given, or the two differ.

    Example:
        >>> data = Data(x=torch.eye(3), edge_index=torch.tensor([[1, 2], [0, 1]]))
        >>> data.num_sampled_nodes, data.num_sampled_edges = [1, 1, 1], [1, 1]
        >>> [(hop.num_src, hop.num_dst, hop.num_edges) for hop in hops(data, layers=2)]
        [(3, 2, 2), (2, 1, 1)]
    """
    if isinstance(batch, HeteroData):
        stores = {relation: (batch[relation[0]], batch[relation[2]], batch[relation]) for relation in batch.edge_types}
        number = _number(list(stores.values()), layers)
        found = {relation: _of_stores(*stores[relation], number, cumulative) for relation in stores}
        return [{relation: of_layer[layer] for relation, of_layer in found.items()} for layer in range(number)]
    return _of_stores(batch, batch, batch, _number([(batch, batch, batch)], layers), cumulative)


class Sampled:
    """The edges of one relation as hops drew them.

    Args:
        nodes_src, nodes_dst: how many nodes of the types of both ends were found by each hop, seeds first.
        edges: how many edges were drawn by each hop.

    Raises:
        InputError: the counts are of different numbers of hops.
    """

    def __init__(self, nodes_src: Sequence[int], nodes_dst: Sequence[int], edges: Sequence[int]) -> None:
        if not len(nodes_src) == len(nodes_dst) == len(edges) + 1:
            raise InputError(
                f"num_sampled_nodes={list(nodes_dst)} and num_sampled_edges={list(edges)} are not of the same number of hops; "
                "give both as the batch has them"
            )
        self._num_src, self._num_dst, self._ends = (
            list(accumulate(map(int, counts), initial=0)) for counts in (nodes_src, nodes_dst, edges)
        )

    @property
    def num_hops(self) -> int:
        """How many hops there are."""
        return len(self._ends) - 1

    def whole(self, edge_index: Tensor) -> Hop:
        """All edges.

        Raises:
            InputError: they are not as many as the hops drew.
        """
        self._check_number(edge_index)
        return grouped(edge_index, self._num_src[-1], self._num_dst[-1])

    def until(self, hop: int, whole: Hop) -> Hop:
        """The edges of the first hops that lead to the nodes that were there before the last of them."""
        end, num_src, num_dst = self._ends[hop], self._num_src[hop + 1], self._num_dst[hop]
        begins = whole.begins[: num_dst + 1]
        last = int(begins[-1])
        edges: slice | Tensor
        if isinstance(whole.edges, slice):
            if last != end:
                begins = begins.clamp(max=end)
                last = int(begins[-1])
            edges = slice(0, last)
            src, dst = whole.src[edges], whole.dst[edges]
        else:
            listed = whole.edges[:last]
            kept = (listed < end).nonzero().squeeze(1)
            src, dst, edges, begins = whole.src[kept], whole.dst[kept], listed[kept], torch.searchsorted(kept, begins)
        return Hop(src=src, begins=begins, num_src=num_src, num_dst=num_dst, edges=edges, whole=whole, listed=dst)

    def alone(self, hop: int, edge_index: Tensor) -> Hop:
        """The edges of one hop that lead to the nodes that were there before it.

        Raises:
            InputError: as of `whole`.
        """
        self._check_number(edge_index)
        begin, end, num_src, num_dst = self._ends[hop - 1], self._ends[hop], self._num_src[hop + 1], self._num_dst[hop]
        src, dst = edge_index.as_subclass(Tensor)[:, begin:end]
        found = listed_by_dst(src, dst, num_src, num_dst, self._known_begins(hop, edge_index))
        edges = found.edges + begin if isinstance(found.edges, Tensor) else slice(begin, begin + found.num_edges)
        return replace(found, edges=edges, num_whole=edge_index.size(1))

    def _known_begins(self, hop: int, edge_index: Tensor) -> Tensor | None:
        """Where the lists of a hop begin, if its sampler has said so."""
        known = OF_HOPS.of(edge_index)
        begins = known[hop - 1] if known is not None and len(known) == self.num_hops else None
        number = self._num_dst[hop] + 1, self._ends[hop] - self._ends[hop - 1]
        return begins if begins is not None and (len(begins), int(begins[-1])) == number else None

    def _check_number(self, edge_index: Tensor) -> None:
        if edge_index.size(1) != self._ends[-1]:
            raise InputError(
                f"num_sampled_edges counts {self._ends[-1]} edges, and there are {edge_index.size(1)}; give all of them"
            )


def are_ends(edge_index: Tensor, num_src: int, num_dst: int) -> bool:
    """Whether these are positions among so many nodes; PyG says best what else they are."""
    if edge_index.dim() != 2 or edge_index.size(0) != 2 or edge_index.dtype not in (torch.int64, torch.int32):
        return False
    if not edge_index.numel():
        return True
    plain = edge_index.as_subclass(Tensor)
    least, (src, dst) = int(plain.min()), plain.amax(dim=1).tolist()
    fits: bool = least >= 0 and src < num_src and dst < num_dst
    return fits


def grouped(edge_index: Tensor, num_src: int, num_dst: int) -> Hop:
    """Edges as lists of their destinations: views if they are grouped already, else sorted.

    Args:
        edge_index: ``[2, E]``; edges that lead to no destination are left out.
        num_src, num_dst: how many nodes they begin at and lead to.
    """
    src, dst = edge_index.as_subclass(Tensor)
    return listed_by_dst(src, dst, num_src, num_dst)


def listed_by_dst(src: Tensor, dst: Tensor, num_src: int, num_dst: int, begins: Tensor | None = None) -> Hop:
    """`grouped`, of the ends of edges apart, ``[E]`` each; `begins`: where their lists begin, if that is known."""
    if begins is None and dst.device.type == "cpu":
        begins = ops.sorted_begins(dst, num_dst)
    if begins is not None:
        return Hop(src=src, begins=begins, num_src=num_src, num_dst=num_dst, edges=slice(0, len(dst)), listed=dst.long())
    edges: slice | Tensor = slice(0, len(dst))
    if len(dst) > 1 and bool((dst[1:] < dst[:-1]).any()):
        edges = dst.sort(stable=True)[1] if dst.device.type != "cpu" else ops.build_csc(dst, max(num_dst, int(dst.max()) + 1))[1]
        src, dst = src[edges], dst[edges]
    if len(dst) and int(dst[-1]) >= num_dst:
        end = int(torch.searchsorted(dst, num_dst))
        src, dst = src[:end], dst[:end]
        edges = slice(0, end) if isinstance(edges, slice) else edges[:end]
    begins = index2ptr(dst.long(), num_dst)
    return Hop(src=src, begins=begins, num_src=num_src, num_dst=num_dst, edges=edges, listed=dst.long())


def _of_stores(src: Any, dst: Any, edges: Any, number: int, cumulative: bool) -> list[Hop]:
    """The hops of a relation: what a batch has of the types of its ends, and of itself."""
    if not _has_hops(src, dst, edges):
        return [grouped(edges.edge_index, int(src.num_nodes), int(dst.num_nodes))] * number
    sampled = Sampled(src.num_sampled_nodes, dst.num_sampled_nodes, edges.num_sampled_edges)
    outermost_first = range(sampled.num_hops, 0, -1)
    if not cumulative:
        return [sampled.alone(hop, edges.edge_index) for hop in outermost_first]
    whole = sampled.whole(edges.edge_index)
    return [sampled.until(hop, whole) for hop in outermost_first]


def _has_hops(src: Any, dst: Any, edges: Any) -> bool:
    return None not in (src.get("num_sampled_nodes"), dst.get("num_sampled_nodes"), edges.get("num_sampled_edges"))


def _number(relations: list[tuple[Any, Any, Any]], layers: int | None) -> int:
    """How many layers a batch is for."""
    nodes = [src.num_sampled_nodes for src, _, _ in relations if src.get("num_sampled_nodes") is not None]
    known = len(nodes[0]) - 1 if nodes else None
    if known is None and layers is None:
        raise InputError(
            "the batch has no num_sampled_nodes, so it does not say its hops; give all its edges to each layer by layers=..."
        )
    if layers is not None and layers != known and any(_has_hops(*stores) for stores in relations):
        raise InputError(
            f"the batch was sampled in {known} hops, and the model has {layers} layers; give num_neighbors {layers} entries"
        )
    number = layers if layers is not None else known
    assert number is not None
    return number
