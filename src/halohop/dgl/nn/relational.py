"""R-GCN, and linear layers of several types, with the parameters of DGL's."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from halohop.dgl.nn.ends import one_each, rows_of
from halohop.errors import InputError
from halohop.nn import Hop, aggregate_relations


class WeightBasis(nn.Module):
    """`dgl.nn.WeightBasis` (Schlichtkrull et al., 2018): weights of one shape as sums of fewer, times learned numbers.

    Args:
        shape: of one weight.
        num_bases: how many are learned.
        num_outputs: how many are made.

    Example:
        >>> WeightBasis((4, 2), num_bases=3, num_outputs=5)().shape
        torch.Size([5, 4, 2])
    """

    def __init__(self, shape: tuple[int, ...], num_bases: int, num_outputs: int) -> None:
        super().__init__()
        gain = nn.init.calculate_gain("relu")
        self.weight = nn.Parameter(torch.empty(num_bases, *shape))
        nn.init.xavier_uniform_(self.weight, gain=gain)
        self.w_comp = nn.Parameter(torch.empty(num_outputs, num_bases))
        nn.init.xavier_uniform_(self.w_comp, gain=gain)

    def forward(self) -> Tensor:
        """The weights, ``[num_outputs, *shape]``."""
        return (self.w_comp @ self.weight.flatten(1)).view(-1, *self.weight.shape[1:])


class TypedLinear(nn.Module):
    """`dgl.nn.TypedLinear`: rows times the matrix of their type.

    Args:
        in_size: columns of the rows.
        out_size: columns of the result.
        num_types: how many types there are.
        regularizer: None: each type has a matrix; "basis": sums of `num_bases` matrices; "bdd": `num_bases` blocks on a diagonal.
        num_bases: how many.

    Raises:
        InputError: another `regularizer`; no `num_bases` for one; blocks that do not divide the widths.

    Example:
        >>> TypedLinear(4, 2, num_types=3)(torch.ones(5, 4), torch.tensor([0, 2, 2, 1, 0])).shape
        torch.Size([5, 2])
    """

    def __init__(
        self, in_size: int, out_size: int, num_types: int, regularizer: str | None = None, num_bases: int | None = None
    ) -> None:
        super().__init__()
        if regularizer not in (None, "basis", "bdd"):
            raise InputError(f'regularizer={regularizer!r} is none of None, "basis", "bdd"')
        if regularizer is not None and num_bases is None:
            raise InputError(f"regularizer={regularizer!r} needs num_bases; give how many there are")
        self.in_size, self.out_size, self.num_types = in_size, out_size, num_types
        self.regularizer, self.num_bases = regularizer, num_bases
        if regularizer is None:
            self.W = nn.Parameter(torch.empty(num_types, in_size, out_size))
        elif regularizer == "basis":
            self.W = nn.Parameter(torch.empty(num_bases or 0, in_size, out_size))
            self.coeff = nn.Parameter(torch.empty(num_types, num_bases or 0))
        else:
            blocks = num_bases or 0
            if blocks < 1 or in_size % blocks or out_size % blocks:
                raise InputError(
                    f"num_bases={num_bases} does not divide {in_size} and {out_size} columns; choose a divisor of both"
                )
            self.W = nn.Parameter(torch.empty(num_types, in_size * out_size // blocks))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the weights anew."""
        width = self.in_size // (self.num_bases or 1) if self.regularizer == "bdd" else self.in_size
        nn.init.uniform_(self.W, -(width**-0.5), width**-0.5)
        if self.regularizer == "basis":
            nn.init.xavier_uniform_(self.coeff, gain=nn.init.calculate_gain("relu"))

    def get_weight(self) -> Tensor:
        """The matrix of each type, ``[num_types, in_size, out_size]``; of "bdd" its blocks in a row of numbers."""
        if self.regularizer != "basis":
            return self.W
        return (self.coeff @ self.W.flatten(1)).view(-1, *self.W.shape[1:])

    def matrices(self) -> Tensor:
        """As `get_weight`; the blocks as ``[num_types, num_bases, in_size / num_bases, out_size / num_bases]``."""
        if self.regularizer != "bdd":
            return self.get_weight()
        blocks = self.num_bases or 1
        return self.W.view(-1, blocks, self.in_size // blocks, self.out_size // blocks)

    def forward(self, x: Tensor, x_type: Tensor, sorted_by_type: bool = False) -> Tensor:
        """New rows, ``[n, out_size]``.

        Args:
            x: ``[n, in_size]``.
            x_type: the type of each row, ``[n]``.
            sorted_by_type: accepted; the result is the same.

        Raises:
            InputError: types or rows that do not fit.
        """
        if x_type.shape != x.shape[:1] or x.shape[-1] != self.in_size:
            raise InputError(
                f"rows of shape {tuple(x.shape)} and types of shape {tuple(x_type.shape)}, expected [n, {self.in_size}] and [n]"
            )
        places = torch.arange(len(x) + 1, device=x.device)
        alone = Hop(src=places[:-1], begins=places, num_src=len(x), num_dst=len(x), edges=slice(0, len(x)))
        return aggregate_relations(x, alone, x_type.long(), self.matrices())


class RelGraphConv(nn.Module):
    """`dgl.nn.RelGraphConv` (Schlichtkrull et al., 2018): in-neighbours' rows times the matrix of the edge's relation.

    Args:
        in_feat: columns of the rows.
        out_feat: columns of the result.
        num_rels: how many relations there are.
        regularizer, num_bases: as of `TypedLinear`; as many bases as relations if their number is not given.
        bias: whether there is one.
        activation: called with the result.
        self_loop: whether the destinations' own rows times a matrix are added.
        dropout: share of the result's numbers that is taken away.
        layer_norm: whether the sums are normalised, before bias and own rows.

    Raises:
        InputError: as of `TypedLinear`.

    Example:
        >>> from halohop import dgl
        >>> g = dgl.graph((torch.tensor([0, 1, 2]), torch.tensor([1, 2, 0])))
        >>> RelGraphConv(4, 2, num_rels=2)(g, torch.ones(3, 4), torch.tensor([0, 1, 1])).shape
        torch.Size([3, 2])
    """

    def __init__(
        self,
        in_feat: int,
        out_feat: int,
        num_rels: int,
        regularizer: str | None = None,
        num_bases: int | None = None,
        bias: bool = True,
        activation: Callable[[Tensor], Tensor] | None = None,
        self_loop: bool = True,
        dropout: float = 0.0,
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        bases = num_rels if regularizer is not None and num_bases is None else num_bases
        self.linear_r = TypedLinear(in_feat, out_feat, num_rels, regularizer, bases)
        self.bias, self.activation, self.self_loop, self.layer_norm = bias, activation, self_loop, layer_norm
        if bias:
            self.h_bias = nn.Parameter(torch.zeros(out_feat))
        if layer_norm:
            self.layer_norm_weight = nn.LayerNorm(out_feat, elementwise_affine=True)
        if self_loop:
            self.loop_weight = nn.Parameter(torch.empty(in_feat, out_feat))
            nn.init.xavier_uniform_(self.loop_weight, gain=nn.init.calculate_gain("relu"))
        self.dropout = nn.Dropout(dropout)

    def forward(self, g: Any, feat: Tensor, etypes: Any, norm: Tensor | None = None, *, presorted: bool = False) -> Tensor:
        """New rows of the destinations, ``[num_dst, out_feat]``.

        Args:
            g: a graph of one type of node and edge, or a block of one.
            feat: rows of all nodes, of a block those of its sources, ``[num_src, in_feat]``.
            etypes: the relation of each edge, integers ``[E]``.
            norm: what the row of each edge is multiplied by, ``[E]`` or ``[E, 1]``.
            presorted: accepted; the result is the same.

        Raises:
            InputError: rows, relations or numbers that do not fit to the graph.
        """
        width = self.linear_r.in_size
        hop, rows = rows_of(g, feat, (width, width))
        if not isinstance(rows, Tensor):
            raise InputError("this layer reads one tensor of rows for both ends, and was given a pair; give one")
        types = hop.of_edges(torch.as_tensor(etypes, device=rows.device).long())
        out = aggregate_relations(rows, hop, types, self.linear_r.matrices(), weight=one_each(hop, norm, rows.dtype))
        if self.layer_norm:
            out = self.layer_norm_weight(out)
        if self.bias:
            out = out + self.h_bias
        if self.self_loop:
            out = out + (rows if len(rows) == hop.num_dst else rows[: hop.num_dst]) @ self.loop_weight
        result: Tensor = self.dropout(out if self.activation is None else self.activation(out))
        return result
