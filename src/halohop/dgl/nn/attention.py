"""GAT and GATv2, with the parameters of DGL's layers."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from halohop.dgl.nn.ends import Rows, Strict, applied, both, one_each, pair
from halohop.errors import InputError
from halohop.nn.functional import segment_add, segment_gatv2, segment_softmax, segment_spmm


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

    def _residual(self, wanted: bool, bias: bool) -> nn.Module | None:
        if not wanted:
            return None
        own_width = self._widths[1]
        return nn.Identity() if own_width == self._num_heads * self._out_feats else self._product(own_width, bias)

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


class GATConv(Attention):
    """`dgl.nn.GATConv` (Velickovic et al., 2018).

    Args:
        in_feats: columns of the rows, or of those of the sources and of the destinations.
        out_feats: columns of the result, of each head.
        num_heads: how many heads there are.
        feat_drop, attn_drop: shares of the rows' and the attention's numbers that dropout takes away.
        negative_slope: of the leaky ReLU of the scores.
        residual: whether the destinations' own rows are added, times a matrix where the widths differ.
        activation: called with the result.
        allow_zero_in_degree: whether nodes may be without in-edges; their rows are 0 then, before residual and bias.
        bias: whether there is one.

    Raises:
        InputError: no heads.

    Example:
        >>> from halohop import dgl
        >>> g = dgl.graph((torch.tensor([0, 1, 2]), torch.tensor([1, 2, 0])))
        >>> out, attention = GATConv(4, 2, num_heads=3)(g, torch.ones(3, 4), get_attention=True)
        >>> out.shape, attention.shape
        (torch.Size([3, 3, 2]), torch.Size([3, 3, 1]))
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
    ) -> None:
        super().__init__(in_feats, out_feats, num_heads, feat_drop, attn_drop, negative_slope, activation, allow_zero_in_degree)
        width, own_width = self._widths
        if isinstance(in_feats, tuple):
            self.fc_src, self.fc_dst = self._product(width), self._product(own_width)
        else:
            self.fc = self._product(width)
        self.attn_l, self.attn_r = self._attention(), self._attention()
        self.res_fc = self._residual(residual, bias)
        # A residual's matrix has the bias.
        own = bias and not isinstance(self.res_fc, nn.Linear)
        self.register_parameter("bias", nn.Parameter(torch.empty(num_heads * out_feats)) if own else None)
        self.reset_parameters()

    def _products(self) -> list[nn.Linear]:
        """What multiplies the rows of the sources, and those of the destinations where that is another matrix."""
        return [self.fc] if hasattr(self, "fc") else [self.fc_src, self.fc_dst]

    def reset_parameters(self) -> None:
        """Draws the weights anew; biases become 0."""
        self._draw(*(lin.weight for lin in self._products()), self.attn_l, self.attn_r)

    def forward(self, graph: Any, feat: Rows, edge_weight: Tensor | None = None, get_attention: bool = False) -> Any:
        """New rows of the destinations, ``[num_dst, *, num_heads, out_feats]``.

        Args:
            graph: of one relation, or a block.
            feat: rows of all nodes (of a block, of its sources), ``[num_src, *, in_feats]``, or a pair.
            edge_weight: what the attention of each edge is multiplied by, ``[E]`` or ``[E, 1]``.
            get_attention: whether that of each edge and head, ``[E, *, num_heads, 1]``, is returned beside the rows.

        Raises:
            InputError: nodes without in-edges that are not allowed; rows or weights that do not fit.
        """
        hop, feat = self.read(graph, feat, self._widths)
        feat = applied(self.feat_drop, feat)
        there, here = both(hop, feat)
        weight = one_each(hop, edge_weight, there.dtype)
        lin, own = self._products()[0], self._products()[-1]
        alike = lin is own and isinstance(feat, Tensor)
        sources = self._by_heads(lin(there))
        given = self._score(lin, there, self.attn_l, sources)
        # The gradient of a slice of wide rows would be a matrix of zeros, so narrow ones are cut.
        taken = self._score(own, there if isinstance(feat, Tensor) else here, self.attn_r, sources if alike else None)
        scores = segment_add(given.flatten(1), taken[: hop.num_dst].flatten(1), hop.src, hop.begins)
        share = self.attn_drop(segment_softmax(self.leaky_relu(scores), hop.begins))
        share = share if weight is None else share * weight.unsqueeze(1)
        heads = sources.shape[1:-1]
        out = segment_spmm(sources.flatten(1, -2), hop.src, hop.begins, weight=share).unflatten(1, heads)
        out = self._finished(out, here)
        return (out, hop.by_id(share).unflatten(1, heads).unsqueeze(-1)) if get_attention else out


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
        self.attn, self.res_fc = self._attention(), self._residual(residual, bias)
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
        return (out, hop.by_id(share).unsqueeze(-1)) if get_attention else out
