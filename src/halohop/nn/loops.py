"""Lists in which destinations are among their own sources, and count once each."""

import math
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
        loops: places of the edges from a node to itself, node by node, int64 ``[loops]``; None: there are none but the hop's own.
        places: those of the hop's edges, in their order, int64 ``[E - loops]``.
        kept: which of the hop's edges count, bool ``[E - loops]``.
        hop_begins: where those of each list begin among the hop's edges, int64 ``[num_dst + 1]``.
    """

    src: Tensor
    begins: Tensor
    loops: Tensor | None = None
    places: Tensor | None = None
    kept: Tensor | None = None
    hop_begins: Tensor | None = None

    def of_edges(self, rows: Tensor, fill: Tensor | None) -> Tensor:
        """The rows of the edges ``[E, width]``, of rows of the hop's.

        Args:
            rows: ``[edges of the hop, width]``.
            fill: the row of edges from a node to itself, ``[width]``; None: the mean of the others in the list.
        """
        if self.loops is None or self.places is None or self.kept is None or self.hop_begins is None:
            return rows
        number = len(self.loops)
        if fill is None:
            every, begins = torch.arange(len(rows), device=rows.device), self.hop_begins[: number + 1]
            counted = self.kept.float()
            own = segment_spmm(rows, every, begins, weight=counted)
            own = (own / segment_spmm(counted, every, begins).clamp(min=1).unsqueeze(1)).to(rows.dtype)
        else:
            own = fill.expand(number, -1)
        return rows.new_empty(len(self.src), rows.shape[1]).index_copy(0, self.places, rows).index_copy(0, self.loops, own)

    def scored(self, scores: Tensor) -> Tensor:
        """Scores of the edges ``[E, heads]``, of which edges that do not count have none: a softmax gives them nothing."""
        if self.places is None or self.kept is None:
            return scores
        counts = torch.ones(len(self.src), dtype=torch.bool, device=scores.device).index_copy(0, self.places, self.kept)
        return scores.masked_fill(~counts.unsqueeze(1), -math.inf)


def with_loops(hop: Hop) -> Lists:
    """The lists of a hop with one more edge for each node that is at both ends, to itself, before which those that it had do not
    count. They stay where they are: how many there are, only their contents say, for which a GPU or a compiler would wait.

    Example:
        >>> src, begins = torch.tensor([1, 0, 2]), torch.tensor([0, 2, 3])
        >>> lists = with_loops(Hop(src=src, begins=begins, num_src=3, num_dst=2, edges=slice(3)))
        >>> lists.src.tolist(), lists.begins.tolist(), lists.kept.tolist()
        ([1, 0, 0, 2, 1], [0, 3, 5], [True, False, True])
        >>> lists.of_edges(torch.tensor([[5.0], [9.0], [7.0]]), None).tolist()
        [[5.0], [9.0], [5.0], [7.0], [7.0]]
    """
    dst, both = hop.dst, min(hop.num_src, hop.num_dst)
    begins = hop.begins + torch.arange(hop.num_dst + 1, device=dst.device).clamp_(max=both)
    loops, places = begins[1 : both + 1] - 1, torch.arange(len(dst), device=dst.device) + dst.clamp(max=both)
    src = hop.src.new_empty(len(dst) + both, dtype=torch.int64)
    src[loops], src[places] = torch.arange(both, device=dst.device), hop.src.long()
    return Lists(src=src, begins=begins, loops=loops, places=places, kept=hop.src != dst, hop_begins=hop.begins)
