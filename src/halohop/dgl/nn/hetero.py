"""Typed graphs: a layer for each relation."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torch import Tensor, nn

from halohop.dgl.cross import CROSS
from halohop.errors import InputError
from halohop.nn import module_key

Combine = Callable[[list[Tensor], str], Any]
"""What makes the rows of a type of those that several relations gave it."""


def get_aggregate_fn(agg: str) -> Combine:
    """What combines the rows of several relations: "sum", "mean", "max", "min" or "stack" (``[num_dst, relations, *]``).

    Raises:
        InputError: another name.

    Example:
        >>> import torch
        >>> get_aggregate_fn("mean")([torch.tensor([1.0]), torch.tensor([3.0])], "paper")
        tensor([2.])
    """
    if agg not in CROSS:
        raise InputError(f"aggregate={agg!r} is none of {', '.join(map(repr, CROSS))}; or give a function")
    return partial(_combined, agg)


def _combined(agg: str, parts: list[Tensor], ntype: str) -> Tensor | None:
    return CROSS[agg](parts) if parts else None


class HeteroGraphConv(nn.Module):
    """`dgl.nn.HeteroGraphConv`: a layer for each relation, and what combines their results by type of destination.

    Args:
        mods: the layer of each relation, by its name or its triple; they may share layers. All are told to allow nodes without
            in-edges.
        aggregate: "sum", "mean", "max", "min", "stack", or a function of the list of results and the type.

    Raises:
        InputError: another `aggregate`.

    Example:
        >>> import torch
        >>> from halohop import dgl
        >>> g = dgl.heterograph({("user", "likes", "item"): (torch.tensor([0, 1]), torch.tensor([0, 0]))})
        >>> conv = HeteroGraphConv({"likes": dgl.nn.SAGEConv((4, 3), 2, "mean")})
        >>> conv(g, {"user": torch.ones(2, 4), "item": torch.ones(1, 3)})["item"].shape
        torch.Size([1, 2])
    """

    def __init__(self, mods: Mapping[Any, nn.Module], aggregate: str | Combine = "sum") -> None:
        super().__init__()
        self.mods = nn.ModuleDict({module_key(str(relation)): layer for relation, layer in mods.items()})
        for layer in self.mods.values():
            allow = getattr(layer, "set_allow_zero_in_degree", None)
            if callable(allow):
                allow(True)
        self.agg_fn = get_aggregate_fn(aggregate) if isinstance(aggregate, str) else aggregate

    def forward(
        self,
        g: Any,
        inputs: Any,
        mod_args: Mapping[Any, tuple[Any, ...]] | None = None,
        mod_kwargs: Mapping[Any, Mapping[str, Any]] | None = None,
    ) -> dict[str, Any]:
        """New rows of each type that a relation with rows at both ends leads to.

        Args:
            g: a graph, or a block.
            inputs: rows by type; of a block, those of its sources; or a pair of such dicts.
            mod_args, mod_kwargs: further arguments of the layers, by the name of the relation or its triple.

        Raises:
            InputError: a relation without a layer; a type without rows in a graph that is no block.
        """
        sources, destinations = inputs if isinstance(inputs, tuple) else (inputs, self._own(g, inputs))
        results: dict[str, list[Tensor]] = {}
        for relation in g.canonical_etypes:
            source, name, destination = relation
            if source not in sources or (destination not in destinations and (isinstance(inputs, tuple) or g.is_block)):
                continue
            if destination not in destinations:
                raise InputError(f"no rows of {destination!r}, which {relation} leads to; give inputs of this type")
            rows = sources[source], destinations[destination]
            args = (mod_args or {}).get(relation, (mod_args or {}).get(name, ()))
            kwargs = (mod_kwargs or {}).get(relation, (mod_kwargs or {}).get(name, {}))
            results.setdefault(destination, []).append(self._get_module(relation)(g[relation], rows, *args, **kwargs))
        return {ntype: self.agg_fn(results[ntype], ntype) for ntype in g.dsttypes if ntype in results}

    def _own(self, g: Any, inputs: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """The rows of the destinations among those of the sources."""
        return {ntype: rows[: g.num_dst_nodes(ntype)] for ntype, rows in inputs.items()} if g.is_block else inputs

    def _get_module(self, relation: tuple[str, str, str]) -> nn.Module:
        for key in (relation, relation[1]):
            if (name := module_key(str(key))) in self.mods:
                return self.mods[name]
        raise InputError(f"{relation} has no layer; there are those of {', '.join(self.mods)}")
