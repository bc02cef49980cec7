"""HGT over lists: the in-edges of all relations of a node in one list, and a product for each relation."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric import nn as pyg

from halohop.nn.aggregation import is_product, pair_of
from halohop.nn.hops import Hop
from halohop.nn.layer import ListedConv
from halohop.nn.pooled import linear
from halohop.ops import segment_dot, segment_ops, segment_softmax, segment_spmm
from halohop.typing import NodeType, Relation


class HGTConv(ListedConv, pyg.HGTConv):  # type: ignore[misc]
    """`torch_geometric.nn.HGTConv` (Hu et al., 2020) over lists.

    Keys and values of a relation are one product of its sources' rows: with the matrices of their type and of the relation
    multiplied, and priority and scale of the attention among them. Queries are made of the destinations only.
    """

    def forward(self, x_dict: dict[NodeType, Tensor], edge_index_dict: dict[Relation, Any]) -> dict[NodeType, Tensor]:
        """New rows per node type that edges lead to, ``[num_dst, out_channels]``; for `edge_index` there may be a `Hop` each."""
        hops = {
            (src, name, dst): self._hop((x_dict[src], x_dict[dst]), edges) for (src, name, dst), edges in edge_index_dict.items()
        }
        lengths = {name: len(rows) for name, rows in x_dict.items()}
        lengths |= {relation[2]: hop.num_dst for relation, hop in hops.items() if hop is not None}
        if None in hops.values() or not self._folds(x_dict):
            for (src, _, dst), edges in edge_index_dict.items():
                if isinstance(edges, Hop):
                    pair_of((x_dict[src], x_dict[dst]), edges)
            taken = {relation: edges if hops[relation] is None else hops[relation] for relation, edges in edge_index_dict.items()}
            ends = {relation: edges.ends if isinstance(edges, Hop) else edges for relation, edges in taken.items()}
            out: dict[NodeType, Tensor] = super().forward(x_dict, ends)
            return {name: rows[: lengths[name]] for name, rows in out.items()}
        reached = [name for name in x_dict if name in self.dst_node_types]
        return {
            name: self._typed(
                name, x_dict, {r: hop for r, hop in hops.items() if hop is not None and r[2] == name}, lengths[name]
            )
            for name in reached
        }

    def _folds(self, x_dict: dict[NodeType, Tensor]) -> bool:
        """Whether rows are multiplied by nothing but matrices that are there."""
        lins = [self.kqv_lin.lins[name] for name in x_dict]
        hooked = any(
            part._forward_hooks or part._forward_pre_hooks for part in (self.kqv_lin, self.k_rel, self.v_rel, self.out_lin)
        )
        return not hooked and all(map(is_product, lins))

    def _typed(self, name: NodeType, x_dict: dict[NodeType, Tensor], hops: dict[Relation, Hop], num_dst: int) -> Tensor:
        """The rows of one node type."""
        shape, here = (-1, self.heads, self.out_channels // self.heads), x_dict[name][:num_dst]
        weight, bias = self._product(name, 1)
        query = linear(here, weight, bias).view(shape)
        keys, values, src, dst, before = [query[:0]], [query[:0]], [], [], 0
        for relation, hop in hops.items():
            there, _ = pair_of((x_dict[relation[0]], here), hop)
            for rows, which in ((keys, 0), (values, 2)):
                rows.append(linear(there, *self._folded(relation, which)).view(shape))
            src.append(hop.src.long() + before)
            dst.append(hop.dst)
            before += hop.num_src
        nothing = torch.empty(0, dtype=torch.int64, device=here.device)
        every = torch.arange(sum(map(len, src)) + 1, device=here.device)
        _, begins, order = segment_ops.by_source(torch.cat([nothing, *dst]), every, num_dst)
        sources = torch.cat([nothing, *src])[order]
        share = segment_softmax(segment_dot(torch.cat(keys), query, sources, begins), begins)
        mixed = segment_spmm(torch.cat(values), sources, begins, weight=share)
        out: Tensor = self.out_lin.lins[name](F.gelu(mixed.flatten(1)))
        if out.size(1) != here.size(1):
            return out
        alpha = self.skip[name].sigmoid()
        skipped: Tensor = alpha * out + (1 - alpha) * here
        return skipped

    def _product(self, name: NodeType, which: int) -> tuple[Tensor, Tensor | None]:
        """Matrix and bias of the keys (0), queries (1) or values (2) of a node type."""
        lin, width = self.kqv_lin.lins[name], self.out_channels
        part = slice(which * width, (which + 1) * width)
        return lin.weight[part], None if lin.bias is None else lin.bias[part]

    def _folded(self, relation: Relation, which: int) -> tuple[Tensor, Tensor | None]:
        """The same of a relation's keys or values, times the matrices of its heads."""
        of_heads = (self.v_rel if which else self.k_rel).weight[self.edge_types_map[relation] :: len(self.edge_types)]
        if which == 0:
            scale = self.p_rel["__".join(relation)].view(-1, 1, 1) * of_heads.shape[1] ** -0.5
            of_heads = of_heads * scale
        weight, bias = self._product(relation[0], which)
        columns = weight if bias is None else torch.cat([weight, bias.unsqueeze(1)], dim=1)
        folded = torch.bmm(of_heads.transpose(1, 2), columns.view(*of_heads.shape[:2], -1)).flatten(0, 1)
        return (folded, None) if bias is None else (folded[:, :-1], folded[:, -1])
