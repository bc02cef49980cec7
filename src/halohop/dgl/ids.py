"""Ids of nodes and edges as users give them: by type or relation, or without where there is only one."""

from collections.abc import Mapping
from operator import index
from typing import Any

import torch
from torch import Tensor

from halohop.errors import InputError, SchemaError
from halohop.typing import Relation

Ids = dict[str, Tensor]
"""Of nodes, by type."""

EdgeIds = dict[Relation, Tensor]
"""Of edges, by relation."""


def node_ids(g: Any, nodes: Any) -> Ids:
    """Ids of nodes of every type, int64; without a type where there is only one.

    Raises:
        SchemaError: an unknown type, or none where there are several.
    """
    if not isinstance(nodes, Mapping):
        if len(g.ntypes) != 1:
            raise SchemaError(f"nodes are given without a type, and there are {list(g.ntypes)}; give a dict of types and ids")
        nodes = {g.ntypes[0]: nodes}
    if unknown := [kind for kind in nodes if kind not in g.ntypes]:
        raise SchemaError(f"there is no type {unknown[0]!r} of nodes, only {list(g.ntypes)}")
    return {kind: _long(nodes[kind]) if kind in nodes else torch.empty(0, dtype=torch.int64) for kind in g.ntypes}


def fanouts_of(g: Any, fanout: Any) -> dict[Relation, int]:
    """Edges of each node by relation, from one number for all, or a dict that names some; the others have none."""
    if not isinstance(fanout, Mapping):
        return dict.fromkeys(g.canonical_etypes, _whole(fanout))
    return {g.to_canonical_etype(etype): _whole(number) for etype, number in fanout.items()}


def _whole(fanout: Any) -> int:
    try:
        return index(fanout)
    except TypeError:
        raise InputError(f"fanout {fanout!r} is no whole number; give how many edges of each node, -1 for all") from None


def check_name(prob: Any) -> None:
    """Refuses weights that are given as such, and not as the name of a column."""
    if not isinstance(prob, str | None):
        raise InputError(f"prob is a {type(prob).__name__}; set g.edata['p'] to it, and give the name, 'p'")


def as_given(g: Any, nodes: Ids) -> Any:
    """Ids of nodes as users have them: in the dtype of the graph's ids, and without a type where there is only one."""
    typed = {kind: ids.to(g.idtype) for kind, ids in nodes.items()}
    return typed if len(typed) != 1 else next(iter(typed.values()))


def edge_ids(g: Any, edges: Any) -> EdgeIds:
    """Ids of edges by relation, int64; without a relation where there is only one, None for none.

    Raises:
        SchemaError: an unknown relation, or none where there are several.
    """
    if edges is None:
        return {}
    if not isinstance(edges, Mapping):
        return {g.to_canonical_etype(None): _long(edges)}
    return {g.to_canonical_etype(etype): _long(ids) for etype, ids in edges.items()}


def joined(first: EdgeIds, second: EdgeIds) -> EdgeIds:
    """The ids of both."""
    both = {relation: [ids[relation] for ids in (first, second) if relation in ids] for relation in {**first, **second}}
    return {relation: torch.cat(ids) for relation, ids in both.items()}


def _long(ids: Any) -> Tensor:
    found = torch.as_tensor(ids)
    if found.numel() and (found.is_floating_point() or found.dtype == torch.bool or found.dim() > 1):
        raise InputError(
            f"ids are {found.dtype} of shape {list(found.shape)}; give integers [n], of a mask mask.nonzero().view(-1)"
        )
    found = found.long().cpu()
    return found if found.dim() == 1 else found.reshape(-1)  # itself, by which is known what was drawn of it
