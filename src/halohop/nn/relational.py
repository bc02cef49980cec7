"""R-GCN over lists: one list per relation and destination, and a product per relation of those that are not empty."""

from typing import Any

import torch
from torch import Tensor
from torch_geometric import nn as pyg

from halohop.nn.aggregation import pair_of
from halohop.nn.hops import Hop
from halohop.nn.layer import ListedConv
from halohop.ops import segment_spmm


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
        types, order = types.sort(stable=True)
        src, dst = hop.src[order], hop.dst[order]
        first = torch.ones(len(src), dtype=torch.bool, device=src.device)
        first[1:] = (types[1:] != types[:-1]) | (dst[1:] != dst[:-1])
        starts = first.nonzero().squeeze(1)
        begins = torch.cat([starts, starts.new_full((1,), len(src))])
        rows = segment_spmm(x, src, begins, reduce=self._reduce)
        ends = torch.searchsorted(types[starts].contiguous(), torch.arange(self.num_relations + 1, device=src.device)).tolist()
        parts = [
            self._transformed(rows[begin:end], weight)
            for weight, begin, end in zip(self._of_relations(), ends[:-1], ends[1:], strict=True)
        ]
        out = x.new_zeros(hop.num_dst, self.out_channels)
        return out.index_add(0, dst[starts[ends[0] : ends[-1]]], torch.cat(parts))

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
