"""Functions of edges under DGL's names."""

from typing import Any

import torch
from torch import Tensor
from torch_geometric.utils import softmax

from halohop.errors import InputError
from halohop.nn.functional import segment_softmax


def edge_softmax(graph: Any, logits: Any, eids: Tensor | None = None, norm_by: str = "dst") -> Any:
    """Softmax over the in-edges of each node.

    Args:
        graph: a graph or a block.
        logits: one row for each edge, ``[E, *]``; where there are several relations, a dict of them, and the softmax is over all
            edges to a node that are given.
        eids: ids of edges of the only relation, if `logits` are of these and the softmax is over these.
        norm_by: "dst"; "src": over the out-edges of each node.

    Returns:
        As `logits`.

    Raises:
        InputError: another `norm_by`; rows that do not fit to the edges; `eids` with several relations.

    Example:
        >>> from halohop import dgl
        >>> g = dgl.graph((torch.tensor([0, 1, 2]), torch.tensor([1, 0, 1])))
        >>> edge_softmax(g, torch.tensor([1.0, 5.0, 1.0]))
        tensor([0.5000, 1.0000, 0.5000])
    """
    if norm_by not in ("src", "dst"):
        raise InputError(f'norm_by={norm_by!r} is none of "src", "dst"')
    if isinstance(logits, dict):
        return _of_relations(graph, logits, eids, norm_by)
    edges = graph.adjacency()
    if eids is None:
        lists = edges.hop if norm_by == "dst" else edges.out
        rows = lists.of_edges(logits)
        shares = segment_softmax(rows.flatten(1) if rows.dim() > 2 else rows, lists.begins)
        return lists.by_id(shares.view(rows.shape))
    if len(eids) != len(logits):
        raise InputError(f"{len(logits)} rows of logits for {len(eids)} edges; give one row for each of them")
    return softmax(logits, edges.ends[norm_by == "dst"][eids.long()].long())


def _of_relations(graph: Any, logits: dict[Any, Tensor], eids: Tensor | None, norm_by: str) -> dict[Any, Tensor]:
    if eids is not None:
        raise InputError("eids are of one relation, and logits of several; give those of graph[relation]")
    relations = {relation: graph.to_canonical_etype(relation) for relation in logits}
    out: dict[Any, Tensor] = {}
    for ntype in dict.fromkeys(triple[0 if norm_by == "src" else 2] for triple in relations.values()):
        names = [name for name, triple in relations.items() if triple[0 if norm_by == "src" else 2] == ntype]
        ends = torch.cat([graph.adjacency(relations[name]).ends[norm_by == "dst"] for name in names])
        shares = softmax(torch.cat([logits[name] for name in names]), ends.long())
        out |= dict(zip(names, shares.split([len(logits[name]) for name in names]), strict=True))
    return {name: out[name] for name in logits}
