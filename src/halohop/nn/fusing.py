"""One line for a model made of PyG's layers: they compute over lists from then on."""

from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.nn.models.basic_gnn import BasicGNN
from torch_geometric.utils._trim_to_layer import TrimToLayer

from halohop.errors import InputError
from halohop.nn.attention import GATConv, GATv2Conv
from halohop.nn.convs import GINConv, GraphConv, SAGEConv
from halohop.nn.gcn import GCNConv
from halohop.nn.layer import ListedConv, passes_plain_messages
from halohop.nn.relational import RGCNConv
from halohop.nn.seed_model import give_seeds
from halohop.nn.trimmed import KINDS, TrimmedConv, is_local
from halohop.nn.typed import HGTConv

Model = TypeVar("Model", bound=nn.Module)

_LISTED: dict[type[nn.Module], type[nn.Module]] = {
    pyg.SAGEConv: SAGEConv,
    pyg.GraphConv: GraphConv,
    pyg.GINConv: GINConv,
    pyg.GCNConv: GCNConv,
    pyg.GATConv: GATConv,
    pyg.GATv2Conv: GATv2Conv,
    pyg.RGCNConv: RGCNConv,
    pyg.HGTConv: HGTConv,
}


def fuse(model: Model, *, rows: Literal["all", "seeds"] = "all") -> Model:
    """Has PyG's layers in a model compute over lists of in-edges; parameters, hooks and `state_dict` stay.

    Layers become those of `halohop.nn` in place. Anything else stays as it is: `unfused` names it. Subclasses of PyG's layers are
    not changed: their messages may differ.

    Args:
        model: any module.
        rows: "seeds": `model(batch.x, batch.edge_index)` returns one row for each node that the sampling of the batch began at,
            the first rows of what it returns otherwise, and computes no rows that these do not need. It needs neither counts
            of hops nor layers in a certain order. Edges that were changed or are of no batch of halohop's loaders, layers that
            are not fused, and operations that read all rows (batch norm in training, `jk`, a mean over nodes) make the model
            compute and return all rows; a warning says once why. The first batch in training, and in evaluation, is computed
            with all rows, to learn this. "all": all rows.

    Returns:
        The same module.

    Raises:
        InputError: other `rows`; a module that is not called itself, such as a `ModuleList`.

    Example:
        >>> import torch
        >>> from torch_geometric.nn import GraphSAGE
        >>> model = fuse(GraphSAGE(4, 8, num_layers=2, out_channels=3))
        >>> type(model.convs[0]).__module__
        'halohop.nn.convs'
    """
    if rows not in ("all", "seeds"):
        raise InputError(f"rows={rows!r}; give 'seeds' for the rows of the seeds, or 'all'")
    if rows == "seeds" and type(model).forward is nn.Module.forward:
        raise InputError(f"a {type(model).__name__} is not called itself; give the module that calls its layers, or rows='all'")
    kinds = _LISTED | KINDS if rows == "seeds" else _LISTED
    for module in model.modules():
        if type(module) in kinds:
            module.__class__ = kinds[type(module)]
        if isinstance(module, ListedConv):
            module.tells_of_rows = rows == "all"
        if rows == "seeds" and isinstance(module, BasicGNN) and type(module._trim) is TrimToLayer:
            module._trim = Untrimmed()
    if rows == "seeds":
        give_seeds(model)
    return model


def unfused(model: nn.Module) -> list[str]:
    """The layers of a model that pass messages in PyG's own code: their names, why, and what they cost with ``rows="seeds"``.

    Example:
        >>> unfused(nn.Sequential(SAGEConv(4, 4), pyg.PANConv(4, 4, filter_size=2)))
        ["1 (PANConv): no layer of halohop's; a model with rows='seeds' gives all rows"]
    """
    return [
        f"{name} ({type(module).__name__}): {_why_not(module)}; a model with rows='seeds' "
        + ("computes the rows that are needed in PyG's code" if _can_be_trimmed(module) else "gives all rows")
        for name, module in model.named_modules()
        if isinstance(module, pyg.MessagePassing) and not _is_over_lists(module)
    ]


def _is_over_lists(module: nn.Module) -> bool:
    return isinstance(module, ListedConv) and module._is_plain()


def _can_be_trimmed(module: nn.Module) -> bool:
    return (type(module) in KINDS or isinstance(module, TrimmedConv)) and is_local(module)


def _why_not(module: pyg.MessagePassing) -> str:
    if isinstance(module, ListedConv):
        return f"aggr={module.aggr!r}" if passes_plain_messages(module) else "its flow, its hooks or an explanation"
    derived = [kind.__name__ for kind in _LISTED if isinstance(module, kind)]
    return f"derived from {derived[0]}, so its messages may differ" if derived else "no layer of halohop's"


class Untrimmed(TrimToLayer):  # type: ignore[misc]
    """In place of PyG's `TrimToLayer` in models of ``rows="seeds"``: they need no counts of hops, and leave out those they get.

    Compiled models give all rows, and are trimmed as PyG's.
    """

    def forward(
        self, layer: int, nodes: list[int] | None, edges: list[int] | None, x: Tensor, edge_index: Any, edge_attr: Any = None
    ) -> tuple[Tensor, Any, Any]:
        """Rows, edges and rows of edges for a layer."""
        if not torch.compiler.is_compiling():
            return x, edge_index, edge_attr
        trimmed: tuple[Tensor, Any, Any] = super().forward(layer, nodes, edges, x, edge_index, edge_attr)
        return trimmed
