"""GraphSAGE, GraphConv and GIN over lists: layers that aggregate rows as they are, or times a weight."""

from collections.abc import Iterable
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric import nn as pyg

from halohop.nn.aggregation import Rows, aggregate, pair_of
from halohop.nn.hops import Hop
from halohop.nn.layer import ListedConv, is_weight
from halohop.nn.own import own_and_reduced
from halohop.nn.seed_run import current_run


class SAGEConv(ListedConv, pyg.SAGEConv):  # type: ignore[misc]
    """`torch_geometric.nn.SAGEConv` (Hamilton et al., 2017) over lists.

    Example:
        >>> import torch
        >>> conv = SAGEConv(4, 2)
        >>> conv(torch.ones(3, 4), torch.tensor([[1, 2], [0, 0]])).shape
        torch.Size([3, 2])
    """

    def forward(self, x: Rows, edge_index: Any, size: Any = None) -> Tensor:
        """New rows ``[num_dst, out_channels]``; `edge_index` may be a `Hop`."""
        hop = self._hop(x, edge_index, size)
        if hop is None:
            out: Tensor = super().forward(*self._of_pyg(x, edge_index, size))
            return out
        if self.project:
            there, here = pair_of(x, hop)
            x = (self.lin(there).relu(), here)
        out = aggregate(x, hop, reduce=self._reduce, lin=self.lin_l, root=self.lin_r if self.root_weight else None)
        return F.normalize(out, p=2.0, dim=-1) if self.normalize else out


class GraphConv(ListedConv, pyg.GraphConv):  # type: ignore[misc]
    """`torch_geometric.nn.GraphConv` (Morris et al., 2019) over lists, with weights of edges or without."""

    def forward(self, x: Rows, edge_index: Any, edge_weight: Tensor | None = None, size: Any = None) -> Tensor:
        """New rows ``[num_dst, out_channels]``; `edge_index` may be a `Hop`, and `edge_weight` is of all edges of the batch."""
        hop = self._hop(x, edge_index, size)
        if hop is None or not (edge_weight is None or (is_weight(edge_weight) and self.aggr != "max")):
            weight = edge_index.of_edges(edge_weight) if isinstance(edge_index, Hop) and edge_weight is not None else edge_weight
            x, edge_index, size = self._of_pyg(x, edge_index, size)
            out: Tensor = super().forward(x, edge_index, weight, size)
            return out
        weight = None if edge_weight is None else edge_weight.view(-1)
        return aggregate(x, hop, reduce=self._reduce, weight=weight, lin=self.lin_rel, root=self.lin_root)


class GINConv(ListedConv, pyg.GINConv):  # type: ignore[misc]
    """`torch_geometric.nn.GINConv` (Xu et al., 2019) over lists."""

    def forward(self, x: Rows, edge_index: Any, size: Any = None) -> Tensor:
        """New rows ``[num_dst, ...]``; `edge_index` may be a `Hop`."""
        hop = self._hop(x, edge_index, size)
        if hop is None:
            out: Tensor = super().forward(*self._of_pyg(x, edge_index, size))
            return out
        there, here = pair_of(x, hop)
        if isinstance(x, Tensor):
            here, out = own_and_reduced(there, hop, self._reduce)
        else:
            out = aggregate(x, hop, reduce=self._reduce)
        out = out if here is None else out + (1 + self.eps) * here
        if (run := current_run()) is not None:
            run.leave(out)
        out = self.nn(out)
        return out

    def _parts(self) -> Iterable[nn.Module]:
        inner = {*self.nn.modules()}
        return (module for module in super()._parts() if module not in inner)
