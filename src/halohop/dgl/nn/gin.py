"""GIN, without and with features of edges, with the parameters of DGL's layers."""

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn

from halohop.dgl.nn.ends import Rows, both, one_each, rows_of
from halohop.errors import InputError
from halohop.nn.functional import segment_spmm


class _GIN(nn.Module):
    eps: Tensor

    def __init__(self, apply_func: Callable[[Tensor], Tensor] | None, init_eps: float, learn_eps: bool) -> None:
        super().__init__()
        self.apply_func = apply_func
        eps = torch.tensor([init_eps], dtype=torch.get_default_dtype())
        if learn_eps:
            self.register_parameter("eps", nn.Parameter(eps))
        else:
            self.register_buffer("eps", eps)

    def _applied(self, rows: Tensor) -> Tensor:
        return rows if self.apply_func is None else self.apply_func(rows)


class GINConv(_GIN):
    """`dgl.nn.GINConv` (Xu et al., 2019): a node's own row, ``1 + eps`` times, and those of its in-neighbours.

    Args:
        apply_func: called with the sum; a module's parameters are the layer's, too.
        aggregator_type: of the in-neighbours' rows, "sum", "mean" or "max".
        init_eps: what eps begins with.
        learn_eps: whether it is a parameter.
        activation: called with the result.

    Raises:
        InputError: another `aggregator_type`.

    Example:
        >>> from halohop import dgl
        >>> g = dgl.graph((torch.tensor([0, 1, 2]), torch.tensor([1, 2, 0])))
        >>> GINConv(nn.Linear(4, 2))(g, torch.ones(3, 4)).shape
        torch.Size([3, 2])
    """

    def __init__(
        self,
        apply_func: Callable[[Tensor], Tensor] | None = None,
        aggregator_type: str = "sum",
        init_eps: float = 0,
        learn_eps: bool = False,
        activation: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__(apply_func, init_eps, learn_eps)
        if aggregator_type not in ("sum", "mean", "max"):
            raise InputError(f'aggregator_type={aggregator_type!r} is none of "sum", "mean", "max"')
        self._aggregator_type, self.activation = aggregator_type, activation

    def forward(self, graph: Any, feat: Rows, edge_weight: Tensor | None = None) -> Tensor:
        """New rows of the destinations, of the width that `apply_func` gives.

        Args:
            graph: of one relation, or a block.
            feat: rows of all nodes (of a block, of its sources), or a pair.
            edge_weight: what each source's row is multiplied by, ``[E]`` or ``[E, 1]``.

        Raises:
            InputError: rows or weights that do not fit.
        """
        hop, feat = rows_of(graph, feat)
        there, here = both(hop, feat)
        weight = one_each(hop, edge_weight, there.dtype)
        reduce = cast(Any, self._aggregator_type)
        if reduce == "sum" and isinstance(feat, Tensor):  # own rows are added where they lie
            own = (1 + self.eps).expand(hop.num_dst)
            out = segment_spmm(there, hop.src, hop.begins, weight=weight, own=own)
        else:
            out = (1 + self.eps) * here + segment_spmm(there, hop.src, hop.begins, reduce=reduce, weight=weight)
        out = self._applied(out)
        return out if self.activation is None else self.activation(out)


class GINEConv(_GIN):
    """`dgl.nn.GINEConv` (Hu et al., 2020): as `GINConv`, of the ReLU of the in-neighbours' rows plus those of the edges.

    Args:
        apply_func, init_eps, learn_eps: as of `GINConv`.

    Example:
        >>> from halohop import dgl
        >>> g = dgl.graph((torch.tensor([0, 1, 2]), torch.tensor([1, 2, 0])))
        >>> GINEConv(nn.Linear(4, 2))(g, torch.ones(3, 4), torch.ones(3, 4)).shape
        torch.Size([3, 2])
    """

    def __init__(
        self, apply_func: Callable[[Tensor], Tensor] | None = None, init_eps: float = 0, learn_eps: bool = False
    ) -> None:
        super().__init__(apply_func, init_eps, learn_eps)

    def forward(self, graph: Any, node_feat: Rows, edge_feat: Tensor) -> Tensor:
        """New rows of the destinations.

        Args:
            graph, node_feat: as of `GINConv.forward`.
            edge_feat: rows of the edges, as wide as those of the sources, or one column.

        Raises:
            InputError: rows that do not fit.
        """
        hop, feat = rows_of(graph, node_feat)
        there, here = both(hop, feat)
        messages = (there[hop.src] + hop.of_edges(edge_feat)).relu()
        places = torch.arange(hop.num_edges, device=hop.src.device)
        return self._applied((1 + self.eps) * here + segment_spmm(messages, places, hop.begins))
