"""Parts of a graph: some edges, with all its nodes or those that they meet; some nodes, with the edges between them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor

from halohop.dgl.frames import Kept
from halohop.dgl.graph import EID, DGLGraph
from halohop.dgl.ids import EdgeIds, Ids
from halohop.dgl.inherited import Inherited
from halohop.dgl.kinds import only
from halohop.dgl.views import Columns
from halohop.errors import InputError, SchemaError
from halohop.nn import Adjacency, numbered
from halohop.typing import Relation


def edge_subgraph(
    graph: DGLGraph, edges: Any, *, relabel_nodes: bool = True, store_ids: bool = True, output_device: Any = None
) -> DGLGraph:
    """Some edges of a graph.

    Args:
        graph: the graph.
        edges: ids ``[n]``, or a mask over all edges; or by relation, of which the others keep no edge.
        relabel_nodes: whether it has the nodes of these edges only, as they first occur; else all nodes, with their ids.
        store_ids: whether the columns `EID`, and `NID` of nodes that are numbered anew, have the ids in `graph`.
        output_device: where the result lies.

    Raises:
        IdError, SchemaError: an unknown edge or relation.

    Example:
        >>> import halohop.dgl as dgl
        >>> g = dgl.graph(([0, 1, 2, 3], [1, 2, 0, 0]))
        >>> some = dgl.edge_subgraph(g, [2, 0])
        >>> some.edges()[0].tolist(), some.ndata[dgl.NID].tolist(), some.edata[dgl.EID].tolist()
        ([0, 1], [2, 0, 1], [2, 0])
    """
    given = edges if isinstance(edges, Mapping) else {None: edges}
    named = {graph.to_canonical_etype(etype): ids for etype, ids in given.items()}
    kept = {relation: _ids(graph, named.get(relation, ()), relation) for relation in graph.canonical_etypes}
    return _part(graph, {} if relabel_nodes else None, kept, store_ids, output_device)


def node_subgraph(
    graph: DGLGraph, nodes: Any, *, relabel_nodes: bool = True, store_ids: bool = True, output_device: Any = None
) -> DGLGraph:
    """Some nodes of a graph, and the edges between them, source after source.

    Args:
        graph: the graph.
        nodes: ids ``[n]``, or a mask over all nodes; or by type, of which the others keep no node.
        relabel_nodes: whether it has these nodes only, in this order; else all nodes, with their ids.
        store_ids, output_device: as of `edge_subgraph`.

    Raises:
        IdError, SchemaError: an unknown node or type.

    Example:
        >>> import halohop.dgl as dgl
        >>> some = dgl.graph(([0, 1, 2, 3], [1, 2, 0, 0])).subgraph([2, 0])
        >>> some.edges()[0].tolist(), some.num_nodes(), some.edata[dgl.EID].tolist()
        ([0], 2, [2])
    """
    graph.check_one_sided("subgraphs")
    given = nodes if isinstance(nodes, Mapping) else {None: nodes}
    named = {only(graph.ntypes, kind): ids for kind, ids in given.items()}
    kept, edges = {kind: _ids(graph, named.get(kind, ()), kind) for kind in graph.ntypes}, {}
    for relation in graph.canonical_etypes:
        ids, inside = graph.out_edges(kept[relation[0]], "eid", relation).long(), kept[relation[2]]
        edges[relation] = ids[torch.isin(graph.adjacency(relation).ends[1][ids], inside)]
    return _part(graph, kept if relabel_nodes else None, edges, store_ids, output_device)


def edge_type_subgraph(graph: DGLGraph, etypes: Sequence[str | Relation], output_device: Any = None) -> DGLGraph:
    """Some relations of a graph and the types of their ends; what is set in one graph is there in the other.

    Raises:
        SchemaError: an unknown relation.

    Example:
        >>> import halohop.dgl as dgl
        >>> g = dgl.heterograph({("a", "to", "b"): ([0], [1]), ("b", "of", "c"): ([0, 1], [1, 0])})
        >>> dgl.edge_type_subgraph(g, ["of"]).ntypes
        ['b', 'c']
    """
    made = graph.of_relations(etypes)
    return made if output_device is None else made.to(output_device)


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
    mask[_ids(g, eids, relation)] = False
    left[relation] = mask.nonzero().view(-1)
    made = _with_edges(g, left)
    if store_ids:
        made.edges[relation].data[EID] = left[relation].to(g.idtype)
    return made if output_device is None else made.to(output_device)


def merge(graphs: Sequence[DGLGraph]) -> DGLGraph:
    """The edges of several graphs with the same nodes, those of the first first; an edge of two of them is there twice.

    Args:
        graphs: such as `sample_neighbors` returns. The result has the node columns of the first graph and the relations of
            all graphs. A relation has the edge columns that all graphs with this relation have.

    Raises:
        InputError: no graph, or graphs with other nodes.

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
        if other._sources != first._sources:
            raise InputError(f"{other} cannot be merged with {first}: they must have the same nodes")
    adjacencies, edges = {}, dict[Relation, Columns]()
    for relation in dict.fromkeys(relation for graph in graphs for relation in graph.canonical_etypes):
        parts = [graph for graph in graphs if relation in graph.canonical_etypes]
        src, dst = (torch.cat(ends) for ends in zip(*(graph.adjacency(relation).ends for graph in parts), strict=True))
        adjacencies[relation] = Adjacency(first.num_nodes(relation[0]), first.num_nodes(relation[2]), (src, dst))
        edges[relation] = Inherited({}, Joined([graph.edges[relation].data.data for graph in parts]), None)
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


def _with_edges(g: DGLGraph, kept: EdgeIds) -> DGLGraph:
    """Some edges of each relation, with the columns that they have."""
    adjacencies = {relation: g.adjacency(relation).kept(ids) for relation, ids in kept.items()}
    return g._with(adjacencies, replace(g._kept.each(_same), edges=_some(g, kept)))


def _some(g: DGLGraph, kept: EdgeIds) -> dict[Relation, Columns]:
    """The columns of some edges."""
    return {relation: Inherited({}, g._kept.edges[relation], ids) for relation, ids in kept.items()}


def _part(graph: DGLGraph, nodes: Ids | None, edges: EdgeIds, store_ids: bool, output_device: Any) -> DGLGraph:
    """Some edges, with all nodes (None), or with these and those at their ends, which are numbered anew."""
    if nodes is None:
        made, nodes = _with_edges(graph, edges), {}
    else:
        graph.check_one_sided("subgraphs")
        found = {}
        for relation, ids in edges.items():
            src, dst = graph.adjacency(relation).kept(ids).to("cpu").ends
            found[relation] = src.long(), dst.long()
        first = dict.fromkeys(graph.ntypes, torch.empty(0, dtype=torch.int64))
        nodes, (ends,) = numbered(found, nodes=first | {kind: ids.cpu() for kind, ids in nodes.items()})
        made = between(nodes, ends, graph.idtype).to(graph.device)
        rows: dict[str, Columns] = {kind: Inherited({}, graph._kept.src[kind], ids) for kind, ids in nodes.items()}
        made._own = Kept(src=rows, dst=rows, edges=_some(graph, edges))
    for frames, of in ((made.edges, edges), (made.nodes, nodes)) if store_ids else ():
        for kind, some in of.items():
            frames[kind].data[EID] = some.to(graph.device, graph.idtype)
    return made if output_device is None else made.to(output_device)


def between(nodes: Ids, ends: Mapping[Relation, tuple[Tensor, Tensor]], idtype: torch.dtype = torch.int64) -> DGLGraph:
    """A graph of some nodes, with edges between their places."""
    counts, adjacencies = {kind: len(nodes[kind]) for kind in sorted(nodes)}, {}
    for relation, (src, dst) in sorted(ends.items(), key=itemgetter(0)):
        adjacencies[relation] = Adjacency(counts[relation[0]], counts[relation[2]], (src.to(idtype), dst.to(idtype)))
    return DGLGraph(counts, counts, adjacencies)


def _ids(g: DGLGraph, given: Any, kind: str | Relation) -> Tensor:
    """Ids of nodes of a type, or of edges of a relation, that are given as such or by a mask."""
    number, of = (g.num_nodes(kind), "node") if isinstance(kind, str) else (g.num_edges(kind), "edge")
    ids = torch.as_tensor(given)
    if ids.dtype == torch.bool:
        if ids.shape != (number,):
            raise SchemaError(f"the mask is {list(ids.shape)}, and there are {number} {of}s {kind!r}")
        ids = ids.nonzero().view(-1)
    return g.ids(ids, number, of)


def _same(rows: Tensor) -> Tensor:
    return rows
