"""Some edges of a graph, with all its nodes: what samplers make of what they drew."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from halohop.dgl.adjacency import Adjacency
from halohop.dgl.graph import EID, DGLGraph
from halohop.dgl.inherited import Inherited
from halohop.dgl.views import Columns
from halohop.errors import InputError, SchemaError
from halohop.typing import Relation


def edge_subgraph(graph: DGLGraph, edges: Any, *, relabel_nodes: bool = True, store_ids: bool = True) -> DGLGraph:
    """Some edges of a graph, with all its nodes.

    Args:
        graph: the graph.
        edges: ids ``[n]``, or a mask over all edges; or by relation, of which the others keep no edge.
        relabel_nodes: False. For nodes that are numbered anew there is `to_block`.
        store_ids: whether the column `EID` has the ids.

    Raises:
        InputError: nodes are to be numbered anew.
        IdError, SchemaError: an unknown edge or relation.

    Example:
        >>> import halohop.dgl as dgl
        >>> g = dgl.graph(([0, 1, 2], [1, 2, 0]))
        >>> some = dgl.edge_subgraph(g, [2, 0], relabel_nodes=False)
        >>> some.edges()[0].tolist(), some.num_nodes(), some.edata[dgl.EID].tolist()
        ([2, 0], 3, [2, 0])
    """
    if relabel_nodes:
        raise InputError("relabel_nodes=True is not offered; give relabel_nodes=False, and number the nodes by dgl.to_block")
    given = edges if isinstance(edges, Mapping) else {graph.to_canonical_etype(None): edges}
    named = {graph.to_canonical_etype(etype): ids for etype, ids in given.items()}
    kept = {relation: _ids(graph, relation, named.get(relation, ())) for relation in graph.canonical_etypes}
    made = _with_edges(graph, kept)
    for relation, ids in kept.items() if store_ids else ():
        made.edges[relation].data[EID] = ids.to(graph.idtype)
    return made


def remove_edges(
    g: DGLGraph, eids: Any, etype: str | Relation | None = None, store_ids: bool = False, output_device: Any = None
) -> DGLGraph:
    """A graph without some edges, and with the columns of the others.

    Args:
        g: the graph, which stays as it is.
        eids: ids ``[n]`` in `g`.
        etype: the relation.
        store_ids: whether the column `EID` has the ids of the others in `g`.
        output_device: where the result lies.

    Raises:
        IdError, SchemaError: an unknown edge or relation.

    Example:
        >>> import halohop.dgl as dgl
        >>> dgl.remove_edges(dgl.graph(([0, 1, 2], [1, 2, 0])), [1]).edges()[0].tolist()
        [0, 2]
    """
    relation = g.to_canonical_etype(etype)
    left = {name: torch.arange(g.num_edges(name)) for name in g.canonical_etypes}
    mask = torch.ones(g.num_edges(relation), dtype=torch.bool)
    mask[_ids(g, relation, eids)] = False
    left[relation] = mask.nonzero().view(-1)
    made = _with_edges(g, left)
    if store_ids:
        made.edges[relation].data[EID] = left[relation].to(g.idtype)
    return made if output_device is None else made.to(output_device)


def merge(graphs: Sequence[DGLGraph]) -> DGLGraph:
    """The edges of several graphs with the same nodes, those of the first first; an edge of two of them is there twice.

    Args:
        graphs: such as `sample_neighbors` returns. The result has the columns of nodes of the first, and those of edges that all
            have.

    Raises:
        InputError: no graph, or graphs with other nodes or relations.

    Example:
        >>> import halohop.dgl as dgl
        >>> g = dgl.graph(([0, 1, 2], [1, 2, 0]))
        >>> dgl.merge([dgl.in_subgraph(g, [0]), dgl.in_subgraph(g, [2])]).edata[dgl.EID].tolist()
        [2, 1]
    """
    if not graphs:
        raise InputError("there is no graph to merge; give one or more")
    first = graphs[0]
    for other in graphs:
        if (other._sources, other.canonical_etypes) != (first._sources, first.canonical_etypes):
            raise InputError(f"{other} cannot be merged with {first}: they must have the same nodes and relations")
    adjacencies = {}
    for relation in first.canonical_etypes:
        src, dst = (torch.cat(ends) for ends in zip(*(graph.adjacency(relation).ends for graph in graphs), strict=True))
        adjacencies[relation] = Adjacency(first.num_nodes(relation[0]), first.num_nodes(relation[2]), (src, dst))
    edges: dict[Relation, Columns] = {
        relation: Inherited({}, Joined([graph.edges[relation].data.columns for graph in graphs]), None)
        for relation in first.canonical_etypes
    }
    return first._with(adjacencies, replace(first._kept.each(_same), edges=edges))


class Joined(Mapping[str, Tensor]):
    """Columns that several graphs have, one after the other.

    Args:
        parts: the columns of each graph.
    """

    def __init__(self, parts: Sequence[Mapping[str, Tensor]]) -> None:
        self._parts = parts

    def __getitem__(self, name: str) -> Tensor:
        return torch.cat([part[name] for part in self._parts])

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._parts[0] if all(name in part for part in self._parts))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @property
    def origins(self) -> Tensor | None:
        """As of `Inherited`."""
        found = [getattr(part, "origins", None) for part in self._parts]
        return torch.cat([ids for ids in found if ids is not None]) if None not in found else None


def _with_edges(g: DGLGraph, kept: dict[Relation, Tensor]) -> DGLGraph:
    """Some edges of each relation, with the columns that they have."""
    edges: dict[Relation, Columns] = {relation: Inherited({}, g.edges[relation].data, ids) for relation, ids in kept.items()}
    adjacencies = {relation: g.adjacency(relation).kept(ids) for relation, ids in kept.items()}
    return g._with(adjacencies, replace(g._kept.each(_same), edges=edges))


def _ids(g: DGLGraph, relation: Relation, edges: Any) -> Tensor:
    ids = torch.as_tensor(edges)
    if ids.dtype == torch.bool:
        if ids.shape != (g.num_edges(relation),):
            raise SchemaError(f"the mask is {list(ids.shape)}, and there are {g.num_edges(relation)} edges {relation}")
        ids = ids.nonzero().view(-1)
    return g.ids(ids, g.num_edges(relation), "edge")


def _same(rows: Tensor) -> Tensor:
    return rows
