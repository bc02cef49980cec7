"""Graphs made of graphs: with loops, without them, the other way, both ways, or of one type. The given graph stays as it is."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from halohop.dgl.convert import graph
from halohop.dgl.graph import EID, ETYPE, NID, NTYPE, DGLGraph
from halohop.dgl.structure import Ends
from halohop.dgl.subgraphs import remove_edges
from halohop.dgl.views import Columns, Frame
from halohop.errors import InputError
from halohop.nn import Adjacency, reduce_messages
from halohop.typing import Relation


def add_self_loop(
    g: DGLGraph, edge_feat_names: Collection[str] | None = None, fill_data: Any = 1.0, etype: str | Relation | None = None
) -> DGLGraph:
    """With an edge from each node to itself, after the other edges; loops that are there stay.

    Args:
        g: the graph.
        edge_feat_names: columns of edges whose rows for the loops are `fill_data`, by default all; those of others are 0.
        fill_data: a number, a row, or "sum", "mean", "max" or "min" of the rows of each node's in-edges.
        etype: the relation, within one type.

    Raises:
        InputError: the relation is between two types.

    Example:
        >>> [ends.tolist() for ends in add_self_loop(graph(([0, 1], [1, 2]))).edges()]
        [[0, 1, 0, 1, 2], [1, 2, 0, 1, 2]]
    """
    relation = _within_a_type(g, g.to_canonical_etype(etype), "add_self_loop")
    (src, dst), number = g.adjacency(relation).ends, g.num_nodes(relation[0])
    loops = torch.arange(number, dtype=src.dtype, device=src.device)
    columns: Columns = {}
    for name, rows in g.edges[relation].data.items():
        fill = fill_data if edge_feat_names is None or name in edge_feat_names else 0
        columns[name] = torch.cat([rows, _filled(g.adjacency(relation), rows, fill, number)])
    return _replaced(g, relation, (torch.cat([src, loops]), torch.cat([dst, loops])), columns)


def remove_self_loop(g: DGLGraph, etype: str | Relation | None = None) -> DGLGraph:
    """Without edges from nodes to themselves.

    Example:
        >>> [ends.tolist() for ends in remove_self_loop(graph(([0, 1], [1, 1]))).edges()]
        [[0], [1]]
    """
    relation = _within_a_type(g, g.to_canonical_etype(etype), "remove_self_loop")
    src, dst = g.adjacency(relation).ends
    return remove_edges(g, (src == dst).nonzero().view(-1), relation)


def reverse(g: DGLGraph, copy_ndata: bool = True, copy_edata: bool = False) -> DGLGraph:
    """With each edge the other way, under the same id; a relation's types change places.

    Example:
        >>> [ends.tolist() for ends in reverse(graph(([0, 1], [1, 2]))).edges()]
        [[1, 2], [0, 1]]
    """
    turned = {relation: (relation[2], relation[1], relation[0]) for relation in g.canonical_etypes}
    made = DGLGraph(g._sources, g._sources, {other: g.adjacency(relation).reversed() for relation, other in turned.items()})
    _copy(g, made, copy_ndata, {other: g.edges[relation].data for relation, other in turned.items()} if copy_edata else {})
    return made


def to_bidirected(g: DGLGraph, copy_ndata: bool = False) -> DGLGraph:
    """With an edge each way wherever there is one, each once, sorted by source and destination; without columns of edges.

    Raises:
        InputError: a relation is between two types.

    Example:
        >>> [ends.tolist() for ends in to_bidirected(graph(([0, 2, 0], [1, 1, 1]))).edges()]
        [[0, 1, 1, 2], [1, 0, 2, 1]]
    """
    adjacencies = {}
    for relation in g.canonical_etypes:
        _within_a_type(g, relation, "to_bidirected")
        src, dst = g.adjacency(relation).ends
        both = torch.stack([torch.cat([src, dst]), torch.cat([dst, src])]).unique(dim=1)
        adjacencies[relation] = Adjacency(g.num_nodes(relation[0]), g.num_nodes(relation[0]), (both[0], both[1]))
    made = DGLGraph(g._sources, g._sources, adjacencies)
    _copy(g, made, copy_ndata, {})
    return made


def add_reverse_edges(
    g: DGLGraph, copy_ndata: bool = True, copy_edata: bool = False, ignore_bipartite: bool = False, exclude_self: bool = True
) -> DGLGraph:
    """With each edge the other way, too, after the others; their columns are those of the edges that they turn around.

    Args:
        g: the graph.
        copy_ndata, copy_edata: whether columns are kept; with those of edges, the column `EID` has the ids in `g`.
        ignore_bipartite: relations between two types stay as they are, instead of being refused.
        exclude_self: loops are there once.

    Raises:
        InputError: a relation is between two types.

    Example:
        >>> [ends.tolist() for ends in add_reverse_edges(graph(([0, 1], [1, 1]))).edges()]
        [[0, 1, 1], [1, 1, 0]]
    """
    adjacencies, columns = {}, {}
    for relation in g.canonical_etypes:
        adjacency = g.adjacency(relation)
        if relation[0] != relation[2] and ignore_bipartite:
            adjacencies[relation] = adjacency
            continue
        _within_a_type(g, relation, "add_reverse_edges")
        src, dst = adjacency.ends
        turned = (src != dst).nonzero().view(-1) if exclude_self else torch.arange(len(src), device=src.device)
        ids = torch.cat([torch.arange(len(src), device=src.device), turned])
        ends = torch.cat([src, dst[turned]]), torch.cat([dst, src[turned]])
        adjacencies[relation] = Adjacency(adjacency.num_src, adjacency.num_dst, ends)
        columns[relation] = {**{name: rows[ids] for name, rows in g.edges[relation].data.items()}, EID: ids.to(g.idtype)}
    made = DGLGraph(g._sources, g._sources, adjacencies)
    _copy(g, made, copy_ndata, columns if copy_edata else {})
    return made


def to_homogeneous(
    g: DGLGraph, ndata: Collection[str] = (), edata: Collection[str] = (), store_type: bool = True, return_count: bool = False
) -> Any:
    """All types as one: nodes type after type, edges relation after relation.

    Args:
        g: the graph.
        ndata, edata: columns that all types have, with rows of one shape and dtype.
        store_type: whether columns `NTYPE` and `ETYPE` have the places of types among `g.ntypes` and `g.canonical_etypes`.
        return_count: also how many nodes of each type there are, and how many edges of each relation.

    Returns:
        A graph whose columns `NID` and `EID` have the ids in the types.

    Example:
        >>> from halohop.dgl import heterograph
        >>> one = to_homogeneous(heterograph({("user", "plays", "game"): ([0, 1], [0, 0])}))
        >>> [ends.tolist() for ends in one.edges()], one.ndata["_TYPE"].tolist()
        ([[1, 2], [0, 0]], [0, 1, 1])
    """
    sizes, lengths = [g.num_nodes(kind) for kind in g.ntypes], [g.num_edges(relation) for relation in g.canonical_etypes]
    begins = dict(zip(g.ntypes, torch.tensor([0, *sizes]).cumsum(0).tolist(), strict=False))
    ends = [g.adjacency(relation).ends for relation in g.canonical_etypes]
    src = torch.cat([pair[0] + begins[relation[0]] for relation, pair in zip(g.canonical_etypes, ends, strict=True)])
    dst = torch.cat([pair[1] + begins[relation[2]] for relation, pair in zip(g.canonical_etypes, ends, strict=True)])
    made = graph((src, dst), num_nodes=sum(sizes))
    made.ndata.update(_joined(g, sizes, [g.nodes[kind].data for kind in g.ntypes], ndata, NTYPE))
    made.edata.update(_joined(g, lengths, [g.edges[relation].data for relation in g.canonical_etypes], edata, ETYPE))
    if not store_type:
        del made.ndata[NTYPE], made.edata[ETYPE]
    return (made, sizes, lengths) if return_count else made


def _joined(g: DGLGraph, counts: list[int], parts: list[Frame], names: Collection[str], kinds: str) -> Columns:
    """The columns of all types as one: the ids in each type, its place, and those of the given names."""
    columns = {name: torch.cat([part[name] for part in parts]) for name in names}
    numbers = torch.cat([torch.arange(number) for number in counts])
    places = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    return {**columns, NID: numbers.to(g.device, g.idtype), kinds: places.to(g.device, g.idtype)}


def _within_a_type(g: DGLGraph, relation: Relation, function: str) -> Relation:
    if relation[0] != relation[2]:
        raise InputError(f"{function} is for edges within one type of nodes, and {relation} lead to another")
    return relation


def _filled(edges: Adjacency, rows: Tensor, fill: Any, number: int) -> Tensor:
    """A row for the loop of each node."""
    if isinstance(fill, str):
        if fill not in ("sum", "mean", "max", "min"):
            raise InputError(f"fill_data={fill!r}; give a number, a row, 'sum', 'mean', 'max' or 'min'")
        return reduce_messages(edges.hop, fill, "copy", ("edge", rows))
    row = torch.as_tensor(fill, dtype=rows.dtype, device=rows.device)
    return row.expand(number, *rows.shape[1:]).clone()


def _replaced(g: DGLGraph, relation: Relation, ends: Ends, columns: Columns) -> DGLGraph:
    """The graph with other edges of a relation."""
    adjacency = Adjacency(g.num_nodes(relation[0]), g.num_nodes(relation[2]), ends)
    kept = g._kept.each(lambda rows: rows)
    return g._with({**g._edges, relation: adjacency}, replace(kept, edges={**kept.edges, relation: columns}))


def _copy(g: DGLGraph, made: DGLGraph, nodes: bool, edges: Mapping[Relation, Mapping[str, Tensor]]) -> None:
    """Gives a graph the columns of another's nodes, and these of edges."""
    for kind in g.ntypes if nodes else ():
        made.nodes[kind].data.update(g.nodes[kind].data)
    for relation, columns in edges.items():
        made.edges[relation].data.update(columns)
