"""GCN over lists, normalised by the degrees of the whole batch."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from torch_geometric import nn as pyg

from halohop.nn.aggregation import Rows, is_product, multiplied, pair_of
from halohop.nn.hops import Hop
from halohop.nn.layer import ListedConv, is_weight
from halohop.nn.own import first
from halohop.ops import segment_spmm


class GCNConv(ListedConv, pyg.GCNConv):  # type: ignore[misc]
    """`torch_geometric.nn.GCNConv` (Kipf and Welling, 2017) over lists.

    Given a `Hop`, it divides by the degrees that nodes have in the whole batch, as PyG's layer does for a batch that is not
    trimmed. PyG's `trim_to_layer` takes edges away before degrees are counted, so its weights differ from layer to layer.
    """

    def forward(self, x: Rows, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        """New rows ``[num_dst, out_channels]``; `edge_index` may be a `Hop`, and `edge_weight` is of all edges of the batch."""
        if not isinstance(edge_index, Hop):
            hop = None if isinstance(x, tuple | list) or self.cached else self._hop(x, edge_index)
            if hop is None or self.aggr not in ("add", "sum") or not (edge_weight is None or is_weight(edge_weight)):
                out: Tensor = super().forward(x, edge_index, edge_weight)
                return out
        else:
            hop = edge_index
        there, _ = pair_of(x, hop)
        weight, own = self._weights(hop, edge_weight, there)

        def reduced(rows: Tensor) -> tuple[Tensor, Tensor]:
            return first(rows, hop.num_dst), self._sum(rows, hop, weight, own)

        if not is_product(self.lin):  # but hooked, or the user's: it is given the rows that PyG gives it
            out = self._sum(self.lin(there), hop, weight, own)
            return out if self.bias is None else out + self.bias
        out = multiplied(self.lin, there, hop, reduced)
        return out if self.bias is None else out.add_(self.bias)

    def _sum(self, rows: Tensor, hop: Hop, weight: Tensor | None, own: Tensor | None) -> Tensor:
        if self._hop(rows, hop) is not None:
            return segment_spmm(rows, hop.src, hop.begins, weight=weight, own=own)
        pair, size = (rows, rows[: hop.num_dst]), (hop.num_src, hop.num_dst)
        out: Tensor = self.propagate(hop.ends, x=pair, edge_weight=weight, size=size)
        return out if own is None else out + own.unsqueeze(1) * pair[1]

    def _weights(self, hop: Hop, edge_weight: Tensor | None, x: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """What each edge's row is multiplied by ``[E]``, and each destination's own row ``[num_dst]``."""
        of_hop = None if edge_weight is None else hop.of_edges(edge_weight).view(-1)
        if not self.normalize:
            return of_hop, None
        whole = hop if hop.whole is None else hop.whole
        loops = (whole.src == whole.dst).nonzero().squeeze(1) if self.add_self_loops else None
        degree, own = _degrees(whole, edge_weight, loops, 2.0 if self.improved else 1.0, x)
        root = degree.pow(-0.5)
        root = root.masked_fill(root == torch.inf, 0)
        weight = root[hop.src] * root[hop.dst]
        if of_hop is not None:
            weight = weight * of_hop
        if loops is not None and len(loops):
            weight = weight.masked_fill(hop.src == hop.dst, 0)
        return weight, None if own is None else own[: hop.num_dst] * root[: hop.num_dst].square()


def _degrees(
    whole: Hop, edge_weight: Tensor | None, loops: Tensor | None, fill: float, x: Tensor
) -> tuple[Tensor, Tensor | None]:
    """The sum of the weights of the edges to each node, and of them that of the node's edge to itself, which each has if `loops`
    are given: those that are there, whose weights count."""
    if edge_weight is None:
        # nodes that no edge leads to are among the sources of a hop that is a graph of its own
        degree = pad(whole.begins.diff().to(x.dtype), (0, whole.num_src - whole.num_dst))
        if loops is None:
            return degree, None
        # as many as there are loops fewer, and one more
        twice = degree.new_ones(len(loops))
        return (degree + 1).index_add(0, whole.src[loops], -twice), degree.new_ones(len(degree))
    of_all = whole.of_edges(edge_weight).view(-1)
    if loops is None:
        return of_all.new_zeros(whole.num_src).index_add(0, whole.dst, of_all), None
    own = of_all.new_full((whole.num_src,), fill).index_put((whole.src[loops],), of_all[loops])
    others = of_all.index_fill(0, loops, 0)
    return own.index_add(0, whole.dst, others), own
