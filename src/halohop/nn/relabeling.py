"""Edges in the user's ids as what a layer reads: positions among the nodes of a block, destinations first."""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from halohop import ops
from halohop.errors import InputError
from halohop.nn.hops import Hop, grouped
from halohop.typing import EDGE, NODE, NodeType, Relation

_ANY_ID = 2**62


class HasEnds(Protocol):
    """Edges by the ids of their ends, int64 ``[E]`` each, such as `halohop.Edges`."""

    @property
    def src(self) -> Tensor: ...

    @property
    def dst(self) -> Tensor: ...


def hop_of(edges: HasEnds | Mapping[Relation, HasEnds], nodes: Tensor | Mapping[NodeType, Tensor]) -> Any:
    """What one layer reads of edges that lead to some nodes, and the ids of the nodes whose rows it reads (DGL's `to_block`).

    These are the nodes themselves, in their order, then the other sources in the order in which the edges name them first, of the
    relations one after the other. So the results of a layer are rows of the first of them.

    Args:
        edges: of one relation; or a dict of relations and their edges.
        nodes: ids, int64 ``[n]``, each once; or a dict of node types and their nodes, where types that are not named have none.

    Returns:
        A `Hop`, whose `edges` say which of the given edges are at each place of its lists, and the ids, int64 ``[num_src]``. Of
        dicts, a dict of relations and their hops, and a dict of node types and their ids.

    Raises:
        InputError: a node is there twice, or an edge leads to none of them.

    Example:
        >>> from halohop import Edges
        >>> edges = Edges(src=torch.tensor([7, 5, 7]), dst=torch.tensor([5, 5, 9]), edge_id=torch.tensor([0, 1, 2]))
        >>> hop, n_id = hop_of(edges, torch.tensor([5, 9]))
        >>> n_id.tolist(), hop.src.tolist(), hop.dst.tolist()
        ([5, 9, 7], [2, 0, 2], [0, 0, 1])
    """
    if not isinstance(edges, Mapping):
        assert isinstance(nodes, Tensor)
        hops, ids = _typed({EDGE: edges}, {NODE: nodes})
        return hops[EDGE], ids[NODE]
    assert isinstance(nodes, Mapping)
    return _typed(edges, nodes)


def _typed(
    edges: Mapping[Relation, HasEnds], nodes: Mapping[NodeType, Tensor]
) -> tuple[dict[Relation, Hop], dict[NodeType, Tensor]]:
    types = dict.fromkeys((*nodes, *(name for relation in edges for name in (relation[0], relation[2]))))
    none = torch.empty(0, dtype=torch.int64)
    counts = {name: len(nodes.get(name, none)) for name in types}
    numbered = {name: _numbered(name, nodes.get(name, none)) for name in types}
    ends = {}
    for relation, listed in edges.items():
        dst = numbered[relation[2]].find(listed.dst)
        ends[relation] = numbered[relation[0]].add(listed.src), _checked(dst, counts[relation[2]], relation, listed.dst)
    hops = {
        relation: grouped(torch.stack(both), numbered[relation[0]].count, counts[relation[2]]) for relation, both in ends.items()
    }
    return hops, {name: of_type.nodes() for name, of_type in numbered.items()}


def _numbered(node_type: NodeType, nodes: Tensor) -> ops.Relabeler:
    numbered = ops.Relabeler(_ANY_ID)
    numbered.start(nodes)
    first = numbered.find(nodes).numpy()
    twice = np.flatnonzero(first != np.arange(len(nodes)))
    if len(twice):
        raise InputError(f"node {int(nodes[twice[0]])} of {node_type!r} is given twice; give each once (nodes.unique())")
    return numbered


def _checked(dst: Tensor, num_dst: int, relation: Relation, ids: Tensor) -> Tensor:
    wrong = np.flatnonzero((dst.numpy() < 0) | (dst.numpy() >= num_dst))
    if len(wrong):
        raise InputError(
            f"edge {int(wrong[0])} of {relation} leads to node {int(ids[wrong[0]])}, which is none of the nodes that the layer "
            "gives rows of; leave such edges out"
        )
    return dst
