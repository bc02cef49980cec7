"""GAT, and GAT with features of edges, with the parameters of DGL's layers."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from halohop.dgl.adjacency import by_id
from halohop.dgl.nn.attention import Attention
from halohop.dgl.nn.ends import Rows, applied, both, one_each
from halohop.errors import InputError
from halohop.nn import Hop
from halohop.nn.functional import segment_add, segment_softmax, segment_spmm


class _GAT(Attention):
    """What both have in common."""

    fc_edge: nn.Linear
    attn_edge: nn.Parameter

    def _make(self, in_feats: int | tuple[int, int]) -> None:
        """The matrices of both ends, and their attention."""
        if isinstance(in_feats, tuple):
            self.fc_src, self.fc_dst = self._product(in_feats[0]), self._product(in_feats[1])
        else:
            self.fc = self._product(in_feats)
        self.attn_l, self.attn_r = self._attention(), self._attention()

    def _products(self) -> list[Any]:
        """What multiplies the rows of the sources, and those of the destinations where that is another matrix."""
        return [self.fc] if hasattr(self, "fc") else [self.fc_src, self.fc_dst]

    def _weights(self) -> tuple[Tensor, ...]:
        """What is drawn, in DGL's order."""
        return *(lin.weight for lin in self._products()), self.attn_l, self.attn_r

    def _attended(self, hop: Hop, feat: Rows, weight: Tensor | None = None, edges: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """New rows, and the attention of each edge of the graph."""
        feat = applied(self.feat_drop, feat)
        there, here = both(hop, feat)
        lin, own = self._products()[0], self._products()[-1]
        alike = lin is own and isinstance(feat, Tensor)
        sources = self._by_heads(lin(there))
        given = self._score(lin, there, self.attn_l, sources)
        # The gradient of a slice of wide rows would be a matrix of zeros, so narrow ones are cut.
        taken = self._score(own, there if isinstance(feat, Tensor) else here, self.attn_r, sources if alike else None)
        scores = segment_add(given.flatten(1), taken[: hop.num_dst].flatten(1), hop.src, hop.begins)
        scores = scores if edges is None else scores + self._score(self.fc_edge, edges, self.attn_edge)
        share = self.attn_drop(segment_softmax(self.leaky_relu(scores), hop.begins))
        share = share if weight is None else share * weight.unsqueeze(1)
        out = segment_spmm(sources.flatten(1, -2), hop.src, hop.begins, weight=share)
        if edges is not None:
            places = torch.arange(hop.num_edges, device=hop.src.device)
            out = out + segment_spmm(self._by_heads(self.fc_edge(edges)), places, hop.begins, weight=share)
        heads = sources.shape[1:-1]
        return self._finished(out.unflatten(1, heads), here), by_id(hop, share).unflatten(1, heads).unsqueeze(-1)


class GATConv(_GAT):
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
        self._make(in_feats)
        own_width, width = self._widths[1], num_heads * out_feats
        self.res_fc = None
        if residual:
            self.res_fc = nn.Identity() if own_width == width else self._product(own_width, bias)
        # A residual's matrix has the bias.
        own = bias and not isinstance(self.res_fc, nn.Linear)
        self.register_parameter("bias", nn.Parameter(torch.empty(width)) if own else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the weights anew; biases become 0."""
        self._draw(*self._weights())

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
        weight = one_each(hop, edge_weight, both(hop, feat)[0].dtype)
        out, share = self._attended(hop, feat, weight)
        return (out, share) if get_attention else out


class EdgeGATConv(_GAT):
    """`dgl.nn.EdgeGATConv` (Monninger et al., 2023): GAT with features of edges, in the scores and in what is summed.

    Args:
        edge_feats: columns of the rows of the edges.
        residual: whether the destinations' own rows times a matrix are added.
        in_feats, out_feats, num_heads, feat_drop, attn_drop, negative_slope, activation, allow_zero_in_degree, bias: as of
            `GATConv`.

    Example:
        >>> from halohop import dgl
        >>> g = dgl.graph((torch.tensor([0, 1, 2]), torch.tensor([1, 2, 0])))
        >>> EdgeGATConv(4, 5, 2, num_heads=3)(g, torch.ones(3, 4), torch.ones(3, 5)).shape
        torch.Size([3, 3, 2])
    """

    def __init__(
        self,
        in_feats: int | tuple[int, int],
        edge_feats: int,
        out_feats: int,
        num_heads: int,
        feat_drop: float = 0.0,
        attn_drop: float = 0.0,
        negative_slope: float = 0.2,
        residual: bool = True,
        activation: Callable[[Tensor], Tensor] | None = None,
        allow_zero_in_degree: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__(in_feats, out_feats, num_heads, feat_drop, attn_drop, negative_slope, activation, allow_zero_in_degree)
        self._make(in_feats)
        self.register_parameter("bias", nn.Parameter(torch.empty(num_heads * out_feats)) if bias else None)
        self.res_fc = self._product(self._widths[1]) if residual else None
        self.fc_edge, self.attn_edge = self._product(edge_feats), self._attention()
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the weights anew; the bias becomes 0."""
        self._draw(*self._weights(), self.fc_edge.weight, self.attn_edge)

    def forward(self, graph: Any, feat: Rows, edge_feat: Tensor, get_attention: bool = False) -> Any:
        """New rows of the destinations, ``[num_dst, num_heads, out_feats]``.

        Args:
            graph, feat, get_attention: as of `GATConv.forward`.
            edge_feat: rows of the edges, ``[E, edge_feats]``.

        Raises:
            InputError: as of `GATConv.forward`; rows of edges that do not fit.
        """
        hop, feat = self.read(graph, feat, self._widths)
        if edge_feat.shape != (hop.num_edges, self.fc_edge.in_features):
            raise InputError(
                f"rows of edges of shape {tuple(edge_feat.shape)}, expected {(hop.num_edges, self.fc_edge.in_features)}; give "
                "one row for each edge"
            )
        out, share = self._attended(hop, feat, edges=hop.of_edges(edge_feat))
        return (out, share) if get_attention else out
