"""R-GCN over lists: one list per relation and destination, and a product per relation of those that are not empty."""

from typing import Any

import torch
from torch import Tensor
from torch_geometric import nn as pyg

from halohop.errors import InputError
from halohop.nn.aggregation import pair_of
from halohop.nn.hops import Hop
from halohop.nn.layer import ListedConv
from halohop.ops import segment_ops, segment_spmm
from halohop.ops.segments import Reduce


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
        out = aggregate_relations(there, hop, hop.of_edges(edge_type), self._of_relations(), reduce=self._reduce)
        if self.root is not None:
            out = out + here @ self.root
        return out if self.bias is None else out + self.bias

    def _of_relations(self) -> Tensor:
        """The weight of each relation, ``[num_relations, in, out]``, or its blocks."""
        if self.num_bases is None:
            weight: Tensor = self.weight
            return weight
        mixed: Tensor = self.comp @ self.weight.flatten(1)
        return mixed.view(self.num_relations, self.in_channels_l, self.out_channels)


def aggregate_relations(
    x: Tensor, hop: Hop, types: Tensor, weights: Tensor, *, reduce: Reduce = "sum", weight: Tensor | None = None
) -> Tensor:
    """For each destination of a hop, the sum over relations of the reduced rows of their sources times the relation's matrix.

    A destination's rows of one relation are reduced first, so there is a product for each pair of both, and not for each edge.

    Args:
        x: rows of the sources, ``[num_src, in]``, float16, bfloat16, float32 or float64.
        hop: from `hops`.
        types: the relation of each edge of the hop, int64 ``[E]``, in 0 .. num_relations - 1.
        weights: ``[num_relations, in, out]``, or ``[num_relations, blocks, in / blocks, out / blocks]`` for matrices that are 0
            outside of blocks along their diagonal.
        reduce: of the rows of one relation, "sum", "mean" or "max".
        weight: what the row of each edge is multiplied by first, ``[E]``; not with "max".

    Returns:
        ``[num_dst, out]``; 0 where a list is empty.

    Raises:
        InputError: as of `aggregate`; a relation out of range.

    Origin: Schlichtkrull et al., "Modeling Relational Data with Graph Convolutional Networks", ESWC 2018.

    Example:
        >>> hop = Hop(src=torch.tensor([1, 2]), begins=torch.tensor([0, 2]), num_src=3, num_dst=1, edges=slice(0, 2))
        >>> x, weights = torch.tensor([[0.0], [2.0], [3.0]]), torch.tensor([[[1.0]], [[10.0]]])
        >>> aggregate_relations(x, hop, torch.tensor([0, 1]), weights)
        tensor([[32.]])
    """
    if len(types) and not 0 <= int(types.min()) <= int(types.max()) < len(weights):
        raise InputError(
            f"relations {int(types.min())} to {int(types.max())} of edges are not all in 0 .. {len(weights) - 1}; give as many "
            "weights as there are relations"
        )
    dst, of_type, place = segment_ops.by_source(types, hop.begins, len(weights))
    begins_list = torch.ones(len(dst), dtype=torch.bool, device=dst.device)
    begins_list[1:] = dst[1:] != dst[:-1]
    begins_list[of_type[of_type < len(dst)]] = True
    starts = begins_list.nonzero().squeeze(1)
    begins = torch.cat([starts, starts.new_full((1,), len(dst))])
    rows = segment_spmm(x, hop.src[place], begins, reduce=reduce, weight=None if weight is None else weight[place])
    sizes = torch.searchsorted(starts, of_type).diff().tolist()
    parts = [_transformed(part, matrix) for part, matrix in zip(rows.split(sizes), weights, strict=True)]
    # Of each destination one row per relation; those are a list, too.
    one_each = torch.arange(len(starts) + 1, device=dst.device)
    _, ends, order = segment_ops.by_source(dst[starts], one_each, hop.num_dst)
    return segment_spmm(torch.cat(parts), order, ends)


def _transformed(rows: Tensor, matrix: Tensor) -> Tensor:
    if matrix.dim() == 2:
        return rows @ matrix
    return torch.einsum("abc,bcd->abd", rows.view(-1, *matrix.shape[:2]), matrix).flatten(1)
