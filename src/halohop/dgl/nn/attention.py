"""What attention layers share, and GATv2, with the parameters of DGL's layer."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from halohop.dgl.adjacency import by_id
from halohop.dgl.nn.ends import Rows, Strict, applied, both, pair
from halohop.errors import InputError
from halohop.nn.functional import segment_gatv2, segment_softmax, segment_spmm


class Attention(Strict):
    """What the layers have in common: heads, dropout, what is added at the end."""

    bias: Any
    res_fc: nn.Module | None
    activation: Callable[[Tensor], Tensor] | None

    def __init__(
        self,
        in_feats: int | tuple[int, int],
        out_feats: int,
        num_heads: int,
        feat_drop: float,
        attn_drop: float,
        negative_slope: float,
        activation: Callable[[Tensor], Tensor] | None,
        allow_zero_in_degree: bool,
    ) -> None:
        super().__init__()
        if num_heads < 1:
            raise InputError(f"num_heads={num_heads} leaves nothing to compute; give at least 1")
        self._widths, self._num_heads, self._out_feats = pair(in_feats), num_heads, out_feats
        self.feat_drop, self.attn_drop = nn.Dropout(feat_drop), nn.Dropout(attn_drop)
        self.leaky_relu = nn.LeakyReLU(negative_slope)
        self.activation, self._allow_zero_in_degree = activation, allow_zero_in_degree

    def _attention(self) -> nn.Parameter:
        return nn.Parameter(torch.empty(1, self._num_heads, self._out_feats))

    def _product(self, width: int, bias: bool = False) -> nn.Linear:
        return nn.Linear(width, self._num_heads * self._out_feats, bias=bias)

    def _by_heads(self, rows: Tensor) -> Tensor:
        """``[n, *, heads * columns]`` as ``[n, *, heads, columns]``."""
        return rows.view(*rows.shape[:-1], self._num_heads, self._out_feats)

    def _score(self, lin: nn.Module, rows: Tensor, attention: Tensor, made: Tensor | None = None) -> Tensor:
        """Attention times the rows that a layer makes, ``[n, *, heads]``.

        Of a product, attention times its matrix comes first, unless the rows are `made` already and narrower than what they
        are made of.
        """
        narrows = made is not None and isinstance(lin, nn.Linear) and lin.out_features < lin.in_features
        if type(lin) is not nn.Linear or lin.bias is not None or narrows:
            return ((self._by_heads(lin(rows)) if made is None else made) * attention).sum(-1)
        folded = (lin.weight.unflatten(0, (self._num_heads, -1)) * attention.squeeze(0).unsqueeze(-1)).sum(1)
        return F.linear(rows, folded)

    def _draw(self, *weights: Tensor) -> None:
        """Weights anew, and that of the residual; biases become 0."""
        residual = (self.res_fc.weight,) if isinstance(self.res_fc, nn.Linear) else ()
        for weight in (*weights, *residual):
            nn.init.xavier_normal_(weight, gain=nn.init.calculate_gain("relu"))
        for name, values in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(values)

    def _finished(self, out: Tensor, here: Tensor) -> Tensor:
        """With the residual and the bias; ``[num_dst, *, heads, columns]``."""
        if self.res_fc is not None:
            out = out + self._by_heads(self.res_fc(here))
        if isinstance(self.bias, Tensor):
            out = out + self._by_heads(self.bias)
        return out if self.activation is None else self.activation(out)


class GATv2Conv(Attention):
    """`dgl.nn.GATv2Conv` (Brody et al., 2022).

    Args:
        in_feats, out_feats, num_heads, feat_drop, attn_drop, negative_slope, activation, allow_zero_in_degree: as of `GATConv`.
        residual: whether the destinations' own rows are added, times a matrix where the widths differ.
        bias: whether the matrices have one.
        share_weights: whether the rows of both ends are multiplied by one matrix.

    Raises:
        InputError: no heads; shared weights of two widths.

    Example:
        >>> from halohop import dgl
        >>> g = dgl.graph((torch.tensor([0, 1, 2]), torch.tensor([1, 2, 0])))
        >>> GATv2Conv(4, 2, num_heads=3)(g, torch.ones(3, 4)).shape
        torch.Size([3, 3, 2])
    """

    def __init__(
        self,
        in_feats: int | tuple[int, int],
        out_feats: int,
        num_heads: int,
        feat_drop: float = 0.0,
        attn_drop: float = 0.0,
        negative_slope: float = 0.2,
        residual: bool = False,
        activation: Callable[[Tensor], Tensor] | None = None,
        allow_zero_in_degree: bool = False,
        bias: bool = True,
        share_weights: bool = False,
    ) -> None:
        super().__init__(in_feats, out_feats, num_heads, feat_drop, attn_drop, negative_slope, activation, allow_zero_in_degree)
        width, own_width = self._widths
        if share_weights and width != own_width:
            raise InputError(f"one matrix for rows of {width} and of {own_width} columns; leave share_weights out")
        self.bias, self.share_weights = bias, share_weights
        self.fc_src = self._product(width, bias)
        self.fc_dst = self.fc_src if share_weights else self._product(own_width, bias)
        self.attn, self.res_fc = self._attention(), None
        if residual:
            self.res_fc = nn.Identity() if own_width == num_heads * out_feats else self._product(own_width, bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the weights anew; biases become 0."""
        shared = self.fc_dst is self.fc_src
        self._draw(self.fc_src.weight, *([] if shared else [self.fc_dst.weight]), self.attn)

    def forward(self, graph: Any, feat: Rows, get_attention: bool = False) -> Any:
        """New rows of the destinations, ``[num_dst, num_heads, out_feats]``.

        Args:
            graph: of one relation, or a block.
            feat: rows of all nodes (of a block, of its sources), ``[num_src, in_feats]``, or a pair.
            get_attention: whether that of each edge and head, ``[E, num_heads, 1]``, is returned beside the rows.

        Raises:
            InputError: nodes without in-edges that are not allowed; rows that do not fit.
        """
        hop, feat = self.read(graph, feat, self._widths)
        there, here = both(hop, applied(self.feat_drop, feat))
        sources = self._by_heads(self.fc_src(there))
        alike = self.fc_dst is self.fc_src and isinstance(feat, Tensor)
        own = sources[: hop.num_dst] if alike else self._by_heads(self.fc_dst(here))
        slope = self.leaky_relu.negative_slope
        scores = segment_gatv2(sources, own, self.attn.squeeze(0).to(own.dtype), hop.src, hop.begins, negative_slope=slope)
        share = self.attn_drop(segment_softmax(scores, hop.begins))
        out = self._finished(segment_spmm(sources, hop.src, hop.begins, weight=share), here)
        return (out, by_id(hop, share).unsqueeze(-1)) if get_attention else out
