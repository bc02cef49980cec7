"""Lists in which destinations are among their own sources, once each."""

from dataclasses import dataclass

import torch
from torch import Tensor

from halohop.nn.hops import Hop
from halohop.ops import segment_spmm


@dataclass(frozen=True, slots=True, kw_only=True)
class Lists:
    """What a layer aggregates over.

    Args:
        src: the sources of the edges, int64 or int32 ``[E]``.
        begins: where each list begins, int64 ``[num_dst + 1]``.
        kept: which edges of the hop these are, int64 ``[K]``, ascending; None: all of them, and no others.
        kept_begins: where those of each list begin in `kept`, int64 ``[num_dst + 1]``.
        loops: places of the edges from a node to itself, node by node, int64 ``[E - K]``.
        places: those of the others, in their order, int64 ``[K]``.
    """

    src: Tensor
    begins: Tensor
    kept: Tensor | None = None
    kept_begins: Tensor | None = None
    loops: Tensor | None = None
    places: Tensor | None = None

    def of_edges(self, rows: Tensor, fill: Tensor | None) -> Tensor:
        """The rows of the edges ``[E, width]``, of rows of the hop's.

        Args:
            rows: ``[edges of the hop, width]``.
            fill: the row of edges from a node to itself, ``[width]``; None: the mean of the others in the list.
        """
        if self.kept is None or self.loops is None or self.places is None or self.kept_begins is None:
            return rows
        number, kept = len(self.loops), rows[self.kept]
        if fill is None:
            every = torch.arange(len(kept), device=rows.device)
            own = segment_spmm(kept, every, self.kept_begins[: number + 1], reduce="mean")
        else:
            own = fill.expand(number, -1)
        order = torch.empty(len(self.src), dtype=torch.int64, device=rows.device)
        order[self.places] = torch.arange(len(kept), device=rows.device)
        order[self.loops] = torch.arange(len(kept), len(self.src), device=rows.device)
        return torch.cat([kept, own])[order]


def with_loops(hop: Hop) -> Lists:
    """The lists of a hop without its edges from a node to itself, and with one such edge for each node that is at both ends.

    Example:
        >>> src, begins = torch.tensor([1, 0, 2]), torch.tensor([0, 2, 3])
        >>> lists = with_loops(Hop(src=src, begins=begins, num_src=3, num_dst=2, edges=slice(3)))
        >>> lists.src.tolist(), lists.begins.tolist()
        ([1, 0, 2, 1], [0, 2, 4])
        >>> lists.of_edges(torch.tensor([[5.0], [9.0], [7.0]]), None).tolist()
        [[5.0], [5.0], [7.0], [7.0]]
    """
    dst, both = hop.dst, min(hop.num_src, hop.num_dst)
    kept = (hop.src != dst).nonzero().squeeze(1)
    loops_before = torch.arange(hop.num_dst + 1, device=dst.device).clamp_(max=both)
    kept_begins = torch.searchsorted(kept, hop.begins)
    begins = kept_begins + loops_before
    src = hop.src.new_empty(len(kept) + both, dtype=torch.int64)
    own = torch.arange(both, device=dst.device)
    loops, places = begins[1 : both + 1] - 1, torch.arange(len(kept), device=dst.device) + dst[kept].clamp(max=both)
    src[loops], src[places] = own, hop.src[kept].long()
    return Lists(src=src, begins=begins, kept=kept, kept_begins=kept_begins, loops=loops, places=places)
