"""GAT and GATv2 over lists: a score for each edge and head, and no row for any edge but those that edges are given."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric import nn as pyg

from halohop.nn.aggregation import Rows, is_product, pair_of
from halohop.nn.hops import Hop
from halohop.nn.layer import ListedConv
from halohop.nn.loops import Lists, with_loops
from halohop.nn.pooled import linear
from halohop.ops import SEGMENT_DTYPES, segment_add, segment_gatv2, segment_softmax, segment_spmm


class _AttentionConv(ListedConv):
    """What both kinds have in common."""

    _layouts = (torch.strided, torch.sparse_csr)

    def _attention_hop(self, x: Any, edge_index: Any, edge_attr: Any, size: Any, asks_weights: Any) -> Hop | None:
        """As `_hop`; None, too, where weights of edges are asked for, or rows of edges that lists do not offer."""
        rows = tuple(x) if isinstance(x, tuple | list) else x
        alone = isinstance(rows, tuple) and rows[1] is None
        if alone or asks_weights is not None or self.aggr not in ("add", "sum"):
            return None
        if edge_attr is not None and self.lin_edge is not None and not self._offers(edge_attr):
            return None
        return self._hop(rows, edge_index, size)

    def _offers(self, edge_attr: Any) -> bool:
        """Whether rows of edges are such as lists take, and what loops get is a row, or the mean of a list."""
        rows, fill = isinstance(edge_attr, Tensor) and edge_attr.dim() in (1, 2), self.fill_value
        plain = rows and edge_attr.layout == torch.strided and edge_attr.dtype in SEGMENT_DTYPES
        return plain and (not self.add_self_loops or fill is None or fill == "mean" or isinstance(fill, int | float))

    def _lists(self, hop: Hop) -> Lists:
        return with_loops(hop) if self.add_self_loops else Lists(src=hop.src, begins=hop.begins)

    def _of_edges(self, hop: Hop, edge_attr: Tensor | None, lists: Lists) -> Tensor | None:
        """The rows of the edges of lists, ``[E, edge_dim]``; None where the layer reads none."""
        if edge_attr is None or self.lin_edge is None:
            return None
        rows = hop.of_edges(edge_attr.unsqueeze(1) if edge_attr.dim() == 1 else edge_attr)
        if self.fill_value == "mean":
            return lists.of_edges(rows, None)
        return lists.of_edges(rows, rows.new_full((rows.shape[1],), 1.0 if self.fill_value is None else self.fill_value))

    def _mixed(self, rows: Tensor, scores: Tensor, lists: Lists) -> Tensor:
        """The sum of the rows of each list, by the softmax of its scores."""
        share = F.dropout(segment_softmax(lists.scored(scores), lists.begins), p=self.dropout, training=self.training)
        out = segment_spmm(rows, lists.src, lists.begins, weight=share)
        return out.flatten(1) if self.concat else out.mean(dim=1)

    def _finished(self, out: Tensor, here: Tensor) -> Tensor:
        if self.res is not None:
            out = out + self.res(here)
        return out if self.bias is None else out + self.bias


class GATConv(_AttentionConv, pyg.GATConv):  # type: ignore[misc]
    """`torch_geometric.nn.GATConv` (Velickovic et al., 2018) over lists."""

    def forward(
        self, x: Rows, edge_index: Any, edge_attr: Tensor | None = None, size: Any = None, return_attention_weights: Any = None
    ) -> Any:
        """New rows ``[num_dst, heads * out_channels]``; `edge_index` may be a `Hop`, `edge_attr` is of all edges of the batch."""
        hop = self._attention_hop(x, edge_index, edge_attr, size, return_attention_weights)
        if hop is None:
            edge_attr = of_hop(edge_index, edge_attr)
            x, edge_index, size = self._of_pyg(x, edge_index, size)
            return super().forward(x, edge_index, edge_attr, size, return_attention_weights)
        there, here = pair_of(x, hop)
        assert here is not None
        lin_src, lin_dst = (self.lin_src, self.lin_dst) if self.lin is None else (self.lin, self.lin)
        shape = (-1, self.heads, self.out_channels)
        sources = lin_src(there).view(shape)
        if not all(is_product(lin) and lin.bias is None for lin in (lin_src, lin_dst)):
            own = sources[: hop.num_dst] if lin_src is lin_dst and isinstance(x, Tensor) else lin_dst(here).view(shape)
            given, taken = (sources * self.att_src).sum(-1), (own * self.att_dst).sum(-1)
        elif isinstance(x, Tensor):
            weight = torch.cat([self._folded(lin_src, self.att_src), self._folded(lin_dst, self.att_dst)])
            given, taken = linear(there, weight).chunk(2, dim=1)
            taken = taken[: hop.num_dst]
        else:
            given = linear(there, self._folded(lin_src, self.att_src))
            taken = linear(here, self._folded(lin_dst, self.att_dst))
        lists = self._lists(hop)
        scores, edges = segment_add(given, taken, lists.src, lists.begins), self._of_edges(hop, edge_attr, lists)
        if edges is not None:
            scores = scores + self._scores_of_edges(edges)
        return self._finished(self._mixed(sources, F.leaky_relu(scores, self.negative_slope), lists), here)

    def _scores_of_edges(self, rows: Tensor) -> Tensor:
        """What the edges' own rows add to their scores, ``[E, heads]``."""
        if is_product(self.lin_edge) and self.lin_edge.bias is None:
            return linear(rows, self._folded(self.lin_edge, self.att_edge))
        scores: Tensor = (self.lin_edge(rows).view(-1, self.heads, self.out_channels) * self.att_edge).sum(-1)
        return scores

    def _folded(self, lin: Any, attention: Tensor) -> Tensor:
        """``[heads, in_channels]``: attention times the rows that a layer makes is this times the rows that it is given."""
        shape = (self.heads, self.out_channels, -1)
        folded: Tensor = (lin.weight.view(shape) * attention.view(shape)).sum(1)
        return folded


class GATv2Conv(_AttentionConv, pyg.GATv2Conv):  # type: ignore[misc]
    """`torch_geometric.nn.GATv2Conv` (Brody et al., 2022) over lists."""

    def forward(self, x: Rows, edge_index: Any, edge_attr: Tensor | None = None, return_attention_weights: Any = None) -> Any:
        """New rows ``[num_dst, heads * out_channels]``; `edge_index` may be a `Hop`, `edge_attr` is of all edges of the batch."""
        hop = self._attention_hop(x, edge_index, edge_attr, None, return_attention_weights)
        if hop is None:
            edge_attr = of_hop(edge_index, edge_attr)
            x, edge_index, _ = self._of_pyg(x, edge_index)
            return super().forward(x, edge_index, edge_attr, return_attention_weights)
        there, here = pair_of(x, hop)
        assert here is not None
        shape = (-1, self.heads, self.out_channels)
        sources = self.lin_l(there).view(shape)
        shared = self.share_weights and isinstance(x, Tensor)
        own = sources[: hop.num_dst] if shared else self.lin_r(here).view(shape)
        lists = self._lists(hop)
        rows = self._of_edges(hop, edge_attr, lists)
        edges = None if rows is None else self.lin_edge(rows).view(shape)
        attention, slope = self.att.squeeze(0), self.negative_slope
        scores = segment_gatv2(sources, own, attention, lists.src, lists.begins, edges=edges, negative_slope=slope)
        return self._finished(self._mixed(sources, scores, lists), here)


def of_hop(edge_index: Any, rows: Tensor | None) -> Tensor | None:
    """The rows of a hop's edges, of those of all edges; without a hop all of them."""
    return edge_index.of_edges(rows) if isinstance(edge_index, Hop) and rows is not None else rows
