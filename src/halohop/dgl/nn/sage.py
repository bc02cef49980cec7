"""GraphSAGE with the parameters of DGL's layer."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from halohop.dgl.nn.ends import Rows, applied, both, in_lists, one_each, pair, rows_of
from halohop.errors import InputError
from halohop.nn import Hop, aggregate

_KINDS = ("mean", "gcn", "pool", "lstm")


class SAGEConv(nn.Module):
    """`dgl.nn.SAGEConv` (Hamilton et al., 2017): a node's own row and those of its in-neighbours, each times a matrix.

    Args:
        in_feats: columns of the rows, or of those of the sources and of the destinations.
        out_feats: columns of the result.
        aggregator_type: "mean"; "gcn", the mean of a node and its in-neighbours; "pool", the maximum of rows times a matrix;
            "lstm", over the in-neighbours in the order of the edges.
        feat_drop: share of the rows' numbers that dropout takes away.
        bias: whether there is one.
        norm: called with the result, after `activation`.
        activation: called with the result.

    Raises:
        InputError: another `aggregator_type`; "gcn" of rows of two widths.

    Example:
        >>> from halohop import dgl
        >>> g = dgl.graph((torch.tensor([0, 1, 2]), torch.tensor([1, 2, 0])))
        >>> SAGEConv(4, 2, "mean")(g, torch.ones(3, 4)).shape
        torch.Size([3, 2])
    """

    bias: nn.Parameter | None

    def __init__(
        self,
        in_feats: int | tuple[int, int],
        out_feats: int,
        aggregator_type: str,
        feat_drop: float = 0.0,
        bias: bool = True,
        norm: Callable[[Tensor], Tensor] | None = None,
        activation: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__()
        if aggregator_type not in _KINDS:
            raise InputError(f"aggregator_type={aggregator_type!r} is none of {', '.join(map(repr, _KINDS))}")
        self._widths = width, own_width = pair(in_feats)
        if aggregator_type == "gcn" and width != own_width:
            raise InputError(f'"gcn" adds rows of both ends, which have {width} and {own_width} columns; choose "mean"')
        self._kind = aggregator_type
        self.norm, self.activation, self.feat_drop = norm, activation, nn.Dropout(feat_drop)
        # The order of the layers is that in which DGL draws their numbers.
        if aggregator_type == "pool":
            self.fc_pool = nn.Linear(width, width)
        if aggregator_type == "lstm":
            self.lstm = nn.LSTM(width, width, batch_first=True)
        self.fc_neigh = nn.Linear(width, out_feats, bias=False)
        if aggregator_type != "gcn":
            self.fc_self = nn.Linear(own_width, out_feats, bias=bias)
        else:
            self.register_parameter("bias", nn.Parameter(torch.zeros(out_feats)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the weights anew."""
        gain = nn.init.calculate_gain("relu")
        if self._kind == "pool":
            nn.init.xavier_uniform_(self.fc_pool.weight, gain=gain)
        if self._kind == "lstm":
            self.lstm.reset_parameters()
        if self._kind != "gcn":
            nn.init.xavier_uniform_(self.fc_self.weight, gain=gain)
        nn.init.xavier_uniform_(self.fc_neigh.weight, gain=gain)

    def forward(self, graph: Any, feat: Rows, edge_weight: Tensor | None = None) -> Tensor:
        """New rows of the destinations, ``[num_dst, out_feats]``.

        Args:
            graph: of one relation, or a block.
            feat: rows of all nodes (of a block, of its sources), or a pair.
            edge_weight: what each source's row is multiplied by, ``[E]`` or ``[E, 1]``.

        Raises:
            InputError: rows or weights that do not fit to the graph.
        """
        hop, feat = rows_of(graph, feat, self._widths)
        feat = applied(self.feat_drop, feat)
        weight = one_each(hop, edge_weight, both(hop, feat)[0].dtype)
        out = self._made(in_lists(hop), feat, weight)
        if self.activation is not None:
            out = self.activation(out)
        return out if self.norm is None else self.norm(out)

    def _made(self, hop: Hop, feat: Rows, weight: Tensor | None) -> Tensor:
        if self._kind == "mean":
            return aggregate(feat, hop, reduce="mean", weight=weight, lin=self.fc_neigh, root=self.fc_self)
        if self._kind == "gcn":
            mean = self._mean_with_own(hop, feat, weight)
            return mean if self.bias is None else mean + self.bias
        there, here = both(hop, feat)
        if self._kind == "pool":
            pooled = (self.fc_pool(there).relu(), here)
            return aggregate(pooled, hop, reduce="max", weight=weight, lin=self.fc_neigh, root=self.fc_self)
        out: Tensor = self.fc_neigh(self._last_states(hop, there, weight)) + self.fc_self(here)
        return out

    def _mean_with_own(self, hop: Hop, feat: Rows, weight: Tensor | None) -> Tensor:
        if weight is None and isinstance(feat, Tensor):
            return aggregate(feat, hop, reduce="mean", own=True, lin=self.fc_neigh)
        total = aggregate(feat, hop, weight=weight, lin=self.fc_neigh, root=self.fc_neigh)
        return total / (1 + hop.begins.diff()).unsqueeze(1)

    def _last_states(self, hop: Hop, rows: Tensor, weight: Tensor | None) -> Tensor:
        """What the LSTM has seen of each destination's sources; those with as many sources as one another go together."""
        out = rows.new_zeros(hop.num_dst, rows.shape[1])
        # Autocast would make it bfloat16, for which torch's LSTM needs a CPU with AVX-512.
        with torch.autocast("cpu", enabled=False):
            for alike, places in hop.by_degree():
                seen = rows[hop.src[places]]
                seen = seen if weight is None else seen * weight[places].unsqueeze(-1)
                out = out.index_copy(0, alike, self.lstm(seen)[1][0].squeeze(0).to(out.dtype))
        return out
