"""GCN with the parameters of DGL's layer."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from halohop.dgl.nn.ends import Rows, Strict, in_lists, one_each
from halohop.errors import InputError
from halohop.nn import Hop, aggregate


class GraphConv(Strict):
    """`dgl.nn.GraphConv` (Kipf and Welling, 2017): the sum of the in-neighbours' rows, by degrees, times a matrix.

    Args:
        in_feats: columns of the rows.
        out_feats: columns of the result.
        norm: "both": a row is divided by the roots of its source's out-degree and its destination's in-degree; "right": by the
            in-degree, which is the mean; "left": by the out-degree; "none". A degree of 0 counts as 1.
        weight: whether the layer has a matrix; without one it may be given by each call.
        bias: whether there is one.
        activation: called with the result.
        allow_zero_in_degree: whether nodes may be without in-edges; their rows are 0 then, before the bias.

    Raises:
        InputError: another `norm`.

    Example:
        >>> from halohop import dgl
        >>> g = dgl.graph((torch.tensor([0, 1, 2]), torch.tensor([1, 2, 0])))
        >>> GraphConv(4, 2)(g, torch.ones(3, 4)).shape
        torch.Size([3, 2])
    """

    weight: nn.Parameter | None
    bias: nn.Parameter | None

    def __init__(
        self,
        in_feats: int,
        out_feats: int,
        norm: str = "both",
        weight: bool = True,
        bias: bool = True,
        activation: Callable[[Tensor], Tensor] | None = None,
        allow_zero_in_degree: bool = False,
    ) -> None:
        super().__init__()
        if norm not in ("none", "both", "right", "left"):
            raise InputError(f'norm={norm!r} is none of "none", "both", "right", "left"')
        self._norm, self._activation, self._allow_zero_in_degree = norm, activation, allow_zero_in_degree
        self.register_parameter("weight", nn.Parameter(torch.empty(in_feats, out_feats)) if weight else None)
        self.register_parameter("bias", nn.Parameter(torch.empty(out_feats)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the matrix anew; the bias becomes 0."""
        if self.weight is not None:
            nn.init.xavier_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, graph: Any, feat: Rows, weight: Tensor | None = None, edge_weight: Tensor | None = None) -> Tensor:
        """New rows of the destinations, ``[num_dst, *, out_feats]``.

        Args:
            graph: of one relation, or a block.
            feat: rows of all nodes (of a block, of its sources), ``[num_src, *, in_feats]``, or a pair, whose first is read.
            weight: a matrix ``[in_feats, out_feats]``, of a layer that has none.
            edge_weight: what each source's row is multiplied by, ``[E]`` or ``[E, 1]``.

        Raises:
            InputError: nodes without in-edges that are not allowed; rows or weights that do not fit.
        """
        if weight is not None and self.weight is not None:
            raise InputError("the layer has a matrix of its own, and is given another; make it with weight=False")
        matrix = self.weight if weight is None else weight
        hop, feat = self.read(graph, feat)
        rows = feat[0] if isinstance(feat, tuple) else feat
        if matrix is not None and rows.shape[-1] != len(matrix):
            raise InputError(f"the rows have {rows.shape[-1]} columns, and the matrix is of {len(matrix)}; give other rows")
        shares = self._shares(hop, one_each(hop, edge_weight, rows.dtype), rows.dtype)
        out = aggregate(
            (rows, None),
            in_lists(hop),
            reduce="mean" if self._norm == "right" else "sum",
            weight=shares,
            lin=None if matrix is None else matrix.t(),
        )
        out = out if self.bias is None else out + self.bias
        return out if self._activation is None else self._activation(out)

    def _shares(self, hop: Hop, weight: Tensor | None, dtype: torch.dtype) -> Tensor | None:
        """What the row of each edge is multiplied by, beside a mean, ``[E]``."""
        if self._norm in ("none", "right"):
            return weight
        wide = torch.promote_types(dtype, torch.float32)
        there = torch.bincount(hop.src, minlength=hop.num_src).clamp(min=1).to(wide)
        if self._norm == "left":
            shares = there.reciprocal()[hop.src]
        else:
            shares = there.rsqrt()[hop.src] * hop.begins.diff().clamp(min=1).to(wide).rsqrt()[hop.dst]
        return shares.to(dtype) if weight is None else shares.to(dtype) * weight
