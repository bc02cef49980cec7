"""Layers that PyG's own code computes, on no more rows and edges than a batch's seeds need.

Their row for a node is made of the node's in-edges, the attributes of these and the rows of both ends, and of nothing else.
"""

from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.nn import MessagePassing, aggr
from torch_geometric.nn.aggr.fused import FusedAggregation

from halohop.nn.aggregation import is_altered
from halohop.nn.layer import ListedConv, passes_plain_messages
from halohop.nn.seed_run import SeedRun, current_run, tensors_in

_OF_ROWS = frozenset(
    (
        *(nn.Linear, pyg.Linear, nn.Sequential, nn.ModuleList, nn.Dropout, nn.Identity, nn.LayerNorm),
        *(nn.ELU, nn.GELU, nn.LeakyReLU, nn.ReLU, nn.Sigmoid, nn.SiLU, nn.Softplus, nn.Tanh),
    )
)
"""What treats each row alone."""
_OF_LISTS = frozenset(
    (
        *(aggr.SumAggregation, aggr.MeanAggregation, aggr.MaxAggregation, aggr.MinAggregation, aggr.MulAggregation),
        *(aggr.VarAggregation, aggr.StdAggregation, aggr.SoftmaxAggregation, aggr.PowerMeanAggregation, aggr.MedianAggregation),
        *(aggr.MultiAggregation, FusedAggregation, aggr.DegreeScalerAggregation, nn.ModuleList),
    )
)
"""What treats the rows of each destination alone. An LSTM does not: it reads as many steps as the longest list has."""


class TrimmedConv(MessagePassing):  # type: ignore[misc]
    """A layer of PyG that gives its own code the rows and edges that a `SeedRun` asks for."""

    takes_pairs: ClassVar[bool] = True
    """Whether it takes rows of sources and of destinations."""
    _set_jittable_templates = ListedConv._set_jittable_templates

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """As of PyG's layer."""
        of_pyg = super().forward
        run = current_run()
        if run is None or run.stopped:
            return of_pyg(*args, **kwargs)
        given = self._given(of_pyg, args, kwargs) if is_local(self) else None
        if given is None:
            run.check(tensors_in((args, kwargs)))
            return of_pyg(*args, **kwargs)
        return run.layer(partial(self._trimmed, run, of_pyg, *given))

    def _given(
        self, of_pyg: Callable[..., Any], args: Any, kwargs: Any
    ) -> tuple[tuple[Tensor, Tensor], Tensor, dict[str, Tensor]] | None:
        """Rows of both ends, edges, and rows of these; None for anything else."""
        try:
            given = signature(of_pyg).bind(*args, **kwargs).arguments
        except TypeError:  # which PyG's layer raises, too
            return None
        x, edges = given.pop("x"), given.pop("edge_index")
        pair = x if self.takes_pairs and isinstance(x, tuple) else (x, x)
        attributes = {name: value for name, value in given.items() if value is not None}
        if len(pair) != 2 or not all(_is_dense(rows) and rows.dim() == 2 for rows in pair):
            return None
        if not _is_dense(edges) or edges.dim() != 2 or (attributes and getattr(self, "lin_edge", self) is None):
            return None
        if any(not name.startswith("edge_") or not _is_dense(rows) or rows.dim() == 0 for name, rows in attributes.items()):
            return None
        return (pair, edges, attributes) if all(len(rows) == edges.shape[1] for rows in attributes.values()) else None

    def _trimmed(
        self, run: SeedRun, of_pyg: Callable[..., Any], pair: tuple[Tensor, Tensor], edges: Tensor, attributes: dict[str, Tensor]
    ) -> Any:
        there, here = pair
        hop = run.hop(pair, edges)
        if hop is None:
            return of_pyg(pair if there is not here else there, edges, **attributes)
        few = here if len(here) == hop.num_dst else here[: hop.num_dst]
        of_edges = {name: hop.of_edges(rows) for name, rows in attributes.items()}
        out = of_pyg((there, few) if self.takes_pairs else there, hop.ends, **of_edges)
        return out[: hop.num_dst] if not self.takes_pairs and len(out) == len(there) > hop.num_dst else out


def is_local(layer: MessagePassing) -> bool:
    """Whether a row that a layer gives is made of nothing but what this module says."""
    parts = [part for part in layer.modules() if part is not layer]
    of_lists = {*layer.aggr_module.modules()} if layer.aggr_module is not None else set()
    return (
        passes_plain_messages(layer)
        and not any(map(callable, vars(layer).values()))
        and all(type(part) in (_OF_LISTS if part in of_lists else _OF_ROWS) for part in parts)
        and not any(is_altered(part) or getattr(part, "inplace", False) for part in parts)
    )


def _is_dense(value: Any) -> bool:
    return isinstance(value, Tensor) and value.layout == torch.strided


class CGConv(TrimmedConv, pyg.CGConv):  # type: ignore[misc]
    """`torch_geometric.nn.CGConv`."""


class EdgeConv(TrimmedConv, pyg.EdgeConv):  # type: ignore[misc]
    """`torch_geometric.nn.EdgeConv`."""


class FiLMConv(TrimmedConv, pyg.FiLMConv):  # type: ignore[misc]
    """`torch_geometric.nn.FiLMConv`."""


class GeneralConv(TrimmedConv, pyg.GeneralConv):  # type: ignore[misc]
    """`torch_geometric.nn.GeneralConv`."""


class GINEConv(TrimmedConv, pyg.GINEConv):  # type: ignore[misc]
    """`torch_geometric.nn.GINEConv`."""


class GMMConv(TrimmedConv, pyg.GMMConv):  # type: ignore[misc]
    """`torch_geometric.nn.GMMConv`."""


class LEConv(TrimmedConv, pyg.LEConv):  # type: ignore[misc]
    """`torch_geometric.nn.LEConv`."""


class NNConv(TrimmedConv, pyg.NNConv):  # type: ignore[misc]
    """`torch_geometric.nn.NNConv`."""


class PNAConv(TrimmedConv, pyg.PNAConv):  # type: ignore[misc]
    """`torch_geometric.nn.PNAConv`."""

    takes_pairs = False


class ResGatedGraphConv(TrimmedConv, pyg.ResGatedGraphConv):  # type: ignore[misc]
    """`torch_geometric.nn.ResGatedGraphConv`."""


class TransformerConv(TrimmedConv, pyg.TransformerConv):  # type: ignore[misc]
    """`torch_geometric.nn.TransformerConv`."""


KINDS: dict[type[MessagePassing], type[TrimmedConv]] = {
    kind.__bases__[1]: kind
    for kind in (
        *(CGConv, EdgeConv, FiLMConv, GeneralConv, GINEConv, GMMConv, LEConv, NNConv, PNAConv, ResGatedGraphConv),
        TransformerConv,
    )
}
"""By the kind of PyG."""
