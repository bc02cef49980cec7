"""R-GCN over lists: one list per relation and destination, and a product per relation of those that are not empty."""

from typing import Any

import torch
from torch import Tensor
from torch_geometric import nn as pyg

from halohop.nn.aggregation import pair_of
from halohop.nn.hops import Hop
from halohop.nn.layer import ListedConv
from halohop.ops import segment_ops, segment_spmm


class RGCNConv(ListedConv, pyg.RGCNConv):  # type: ignore[misc]
    """`torch_geometric.nn.RGCNConv` (Schlichtkrull et al., 2018) over lists."""

    def forward(self, x: Any, edge_index: Any, edge_type: Tensor | None = None) -> Tensor:
        """New rows ``[num_dst, out_channels]``; `edge_index` may be a `Hop`, and `edge_type` is of all edges of the batch."""
        hop = None if x is None or edge_type is None else self._hop(x, edge_index)
        if hop is None:
            if isinstance(edge_index, Hop):
                edge_type = None if edge_type is None else edge_index.of_edges(edge_type)
                x, edge_index, _ = self._of_pyg(x, edge_index)
            out: Tensor = super().forward(x, edge_index, edge_type)
            return out
        there, here = pair_of(x, hop)
        assert edge_type is not None
        assert here is not None
        out = self._messages(there, hop, hop.of_edges(edge_type))
        if self.root is not None:
            out = out + here @ self.root
        return out if self.bias is None else out + self.bias

    def _messages(self, x: Tensor, hop: Hop, types: Tensor) -> Tensor:
        dst, of_type, place = segment_ops.by_source(types, hop.begins, self.num_relations)
        begins_list = torch.ones(len(dst), dtype=torch.bool, device=dst.device)
        begins_list[1:] = dst[1:] != dst[:-1]
        begins_list[of_type[of_type < len(dst)]] = True
        starts = begins_list.nonzero().squeeze(1)
        begins = torch.cat([starts, starts.new_full((1,), len(dst))])
        rows = segment_spmm(x, hop.src[place], begins, reduce=self._reduce)
        sizes = torch.searchsorted(starts, of_type).diff().tolist()
        parts = [self._transformed(part, weight) for part, weight in zip(rows.split(sizes), self._of_relations(), strict=True)]
        # Of each destination one row per relation; those are a list, too.
        one_each = torch.arange(len(starts) + 1, device=dst.device)
        _, ends, order = segment_ops.by_source(dst[starts], one_each, hop.num_dst)
        return segment_spmm(torch.cat(parts), order, ends)

    def _of_relations(self) -> Tensor:
        """The weight of each relation, ``[num_relations, in, out]``, or its blocks."""
        if self.num_bases is None:
            weight: Tensor = self.weight
            return weight
        mixed: Tensor = self.comp @ self.weight.flatten(1)
        return mixed.view(self.num_relations, self.in_channels_l, self.out_channels)

    def _transformed(self, rows: Tensor, weight: Tensor) -> Tensor:
        if self.num_blocks is None:
            product: Tensor = rows @ weight
            return product
        return torch.einsum("abc,bcd->abd", rows.view(-1, *weight.shape[:2]), weight).flatten(1)
