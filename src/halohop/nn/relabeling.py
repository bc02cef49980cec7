"""Edges in the user's ids as what a layer reads: positions among the nodes of a block, destinations first; and of a subgraph.

`hop_of` keeps its numbering table per thread and node type, at most 64 MiB. With a new hash table for each hop, batches of a
`halohop.FunctionLoader` took 1.9 times as long as those of `NeighborLoader`.
"""

import threading
import weakref
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from halohop.errors import InputError
from halohop.nn.hops import Hop, listed_by_dst
from halohop.sampling.lists import OF_NODES
from halohop.sampling.numbering import Numbering
from halohop.typing import EDGE, NODE, NodeType, Relation

_NONE = torch.empty(0, dtype=torch.int64)


class HasEnds(Protocol):
    """Edges by the ids of their ends, int64 ``[E]`` each, such as `halohop.records.Edges`."""

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
        >>> from halohop.records import Edges
        >>> edges = Edges(src=torch.tensor([7, 5, 7]), dst=torch.tensor([5, 5, 9]), edge_id=torch.tensor([0, 1, 2]))
        >>> hop, n_id = hop_of(edges, torch.tensor([5, 9]))
        >>> n_id.tolist(), hop.src.tolist(), hop.dst.tolist()
        ([5, 9, 7], [2, 0, 2], [0, 0, 1])
    """
    if isinstance(edges, Mapping) and isinstance(nodes, Mapping):
        return _typed(edges, nodes)
    if isinstance(edges, Mapping) or isinstance(nodes, Mapping):
        raise InputError("edges and nodes are a tensor of nodes and their edges, or a dict of both; only one of them is a dict")
    hops, ids = _typed({EDGE: edges}, {NODE: nodes})
    return hops[EDGE], ids[NODE]


def _typed(
    edges: Mapping[Relation, HasEnds], nodes: Mapping[NodeType, Tensor]
) -> tuple[dict[Relation, Hop], dict[NodeType, Tensor]]:
    types = dict.fromkeys((*nodes, *(name for relation in edges for name in (relation[0], relation[2]))))
    numbers = {name: _MINE.of(name) for name in types}
    counts = {name: numbers[name].start(name, nodes.get(name, _NONE)) for name in types}
    ends: dict[Relation, tuple[Tensor, Tensor, Tensor | None]] = {}
    for relation, listed in edges.items():
        drawn, num_dst = OF_NODES.of(listed.dst), counts[relation[2]]
        if drawn is not None and drawn.are_of(nodes.get(relation[2], _NONE)):
            ends[relation] = numbers[relation[0]].add(listed.src), drawn.place, drawn.begins
        else:
            dst = _checked(numbers[relation[2]].find(listed.dst), num_dst, relation, listed.dst)
            ends[relation] = numbers[relation[0]].add(listed.src), dst, None
    ids = {name: numbers[name].end() for name in types}
    return {
        relation: listed_by_dst(src, dst, len(ids[relation[0]]), counts[relation[2]], begins)
        for relation, (src, dst, begins) in ends.items()
    }, ids


def numbered(
    *graphs: Mapping[Relation, tuple[Tensor, Tensor]], nodes: Mapping[NodeType, Tensor] | None = None
) -> tuple[dict[NodeType, Tensor], list[dict[Relation, tuple[Tensor, Tensor]]]]:
    """Edges between nodes that are numbered anew, from 0 in each type: given nodes first, then the others at ends of edges, as
    they first occur, sources of a relation before its destinations.

    Args:
        graphs: by relation, sources and destinations of its edges, int64 ``[E]`` each; several graphs, such as one of edges and
            one of pairs that are none, share their nodes.
        nodes: ids by type, int64 ``[n]``, each once.

    Returns:
        The ids of the nodes by type, and for each graph the source and destination of each edge by relation, int64 ``[E]`` each.

    Raises:
        InputError: a node is given twice.

    Example:
        >>> edges = {("a", "to", "a"): (torch.tensor([7, 5]), torch.tensor([5, 9]))}
        >>> ids, (found,) = numbered(edges, nodes={"a": torch.tensor([9])})
        >>> ids["a"].tolist(), [ends.tolist() for ends in found["a", "to", "a"]]
        ([9, 7, 5], [[1, 2], [2, 0]])
    """
    first = nodes or {}
    types = dict.fromkeys((*first, *(name for edges in graphs for relation in edges for name in relation[::2])))
    numbers = {name: _MINE.of(name) for name in types}
    for name in types:
        numbers[name].start(name, first.get(name, _NONE))
    found = [
        {relation: (numbers[relation[0]].add(src), numbers[relation[2]].add(dst)) for relation, (src, dst) in edges.items()}
        for edges in graphs
    ]
    return {name: numbers[name].end() for name in types}, found


class _Numbers(threading.local):
    """What numbers nodes in a thread, by their type: tables that are made once."""

    def __init__(self) -> None:
        self._types: dict[NodeType, _Numbered] = {}

    def of(self, node_type: NodeType) -> "_Numbered":
        if node_type not in self._types:
            self._types[node_type] = _Numbered()
        return self._types[node_type]


class _Numbered:
    """Numbers the nodes of one type in order of occurrence. A layer whose destinations are the sources of the layer before, as
    they were given out, goes on where that one has ended."""

    def __init__(self) -> None:
        self._last: tuple[weakref.ref[Tensor], int] | None = None
        self._table = Numbering()

    def start(self, node_type: NodeType, nodes: Tensor) -> int:
        """Begins with the destinations; how many these are.

        Raises:
            InputError: one is there twice.
        """
        last, self._last = self._last, None
        if last is not None and last[0]() is nodes and last[1] == nodes._version:
            return len(nodes)
        self._table.start(nodes)
        twice = np.flatnonzero(self._table.find(nodes).numpy() != np.arange(len(nodes)))
        if len(twice):
            raise InputError(f"node {int(nodes[twice[0]])} of {node_type!r} is given twice; give each once (nodes.unique())")
        return len(nodes)

    def add(self, ids: Tensor) -> Tensor:
        """The numbers of nodes, old and new."""
        return self._table.add(ids)

    def find(self, ids: Tensor) -> Tensor:
        """The numbers of nodes, -1 of those that have none."""
        return self._table.find(ids)

    def end(self) -> Tensor:
        """All nodes, in the order of their numbers."""
        nodes = self._table.nodes()
        self._last = weakref.ref(nodes), nodes._version
        return nodes


_MINE = _Numbers()


def _checked(dst: Tensor, num_dst: int, relation: Relation, ids: Tensor) -> Tensor:
    found = dst.numpy()
    if len(found) and (found.min() < 0 or found.max() >= num_dst):
        wrong = np.flatnonzero((found < 0) | (found >= num_dst))
        raise InputError(
            f"edge {int(wrong[0])} of {relation} leads to node {int(ids[wrong[0]])}, which is none of the nodes that the layer "
            "gives rows of; leave such edges out"
        )
    return dst
