"""GCN over lists, normalised by the degrees of the whole batch."""

from typing import Any

import torch
from torch import Tensor
from torch_geometric import nn as pyg

from halohop.nn.aggregation import Rows, multiplied, pair_of
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

        _, out = multiplied(self.lin, there, hop, reduced)
        return out if self.bias is None else out + self.bias

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
        of_all = x.new_ones(whole.num_edges) if edge_weight is None else whole.of_edges(edge_weight).view(-1)
        degree, own = x.new_zeros(whole.num_dst), None
        if self.add_self_loops:
            loops = whole.src == whole.dst
            own = x.new_full((whole.num_dst,), 2.0 if self.improved and edge_weight is not None else 1.0)
            if edge_weight is not None:
                own = own.to(of_all.dtype).index_put((whole.src[loops],), of_all[loops])
            of_all, degree = of_all.masked_fill(loops, 0), degree + own
        degree = degree.index_add(0, whole.dst, of_all)
        root = degree.pow(-0.5)
        root = root.masked_fill(root == torch.inf, 0)
        scale, dst = root[: hop.num_dst], hop.dst
        weight = root[hop.src] * scale[dst] if of_hop is None else root[hop.src] * scale[dst] * of_hop
        if self.add_self_loops:
            weight = weight.masked_fill(hop.src == dst, 0)
        return weight, None if own is None else own[: hop.num_dst] * scale * scale
