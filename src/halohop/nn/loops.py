"""Lists in which destinations are among their own sources, once each."""

import torch
from torch import Tensor

from halohop.nn.hops import Hop


def with_loops(hop: Hop) -> tuple[Tensor, Tensor]:
    """The lists of a hop without its edges from a node to itself, and with one such edge for each node that is at both ends.

    Returns:
        The sources of the edges, int64 ``[E]``, and where each list begins, int64 ``[num_dst + 1]``.

    Example:
        >>> src, begins = torch.tensor([1, 0, 2]), torch.tensor([0, 2, 3])
        >>> src, begins = with_loops(Hop(src=src, begins=begins, num_src=3, num_dst=2, edges=slice(3)))
        >>> src.tolist(), begins.tolist()
        ([1, 0, 2, 1], [0, 2, 4])
    """
    dst, both = hop.dst, min(hop.num_src, hop.num_dst)
    kept = (hop.src != dst).nonzero().squeeze(1)
    loops_before = torch.arange(hop.num_dst + 1, device=dst.device).clamp_(max=both)
    begins = torch.searchsorted(kept, hop.begins) + loops_before
    src = hop.src.new_empty(len(kept) + both, dtype=torch.int64)
    own = torch.arange(both, device=dst.device)
    src[begins[1 : both + 1] - 1] = own
    src[torch.arange(len(kept), device=dst.device) + dst[kept].clamp(max=both)] = hop.src[kept].long()
    return src, begins
