"""Neighbours of nodes, and blocks of them: `dgl.sampling`, and what samplers stand on.

What is drawn is a function of the batch that is being made. Outside of batches the calls on a graph number themselves.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from hashlib import blake2b
from itertools import count
from typing import Any, NamedTuple

import torch
from torch import Tensor

import halohop
from halohop.dgl.block import DGLBlock
from halohop.dgl.graph import EID, DGLGraph
from halohop.dgl.ids import EdgeIds, Ids, check_name, edge_ids, fanouts_of, joined, node_ids
from halohop.dgl.inherited import inherit
from halohop.dgl.notes import missing
from halohop.errors import InputError
from halohop.nn import Adjacency, Hop
from halohop.typing import EdgeDir, Relation


class Batch:
    """The batch that is being made: draws by it are a function of (seed, epoch, batch, number of the call).

    Args:
        g: the graph that `draws` asks.
        draws: the questions of the batch.
        prob: the weights that it draws by.
    """

    def __init__(self, g: Any, draws: "halohop.records.Draws", prob: str | None = None) -> None:
        self._first = draws
        self._known: dict[Any, tuple[Any, halohop.records.Draws]] = {(id(g), prob, "in"): (g, draws)}
        self.excluded: EdgeIds = {}

    def draws(self, g: Any, prob: str | None = None, edge_dir: EdgeDir = "in") -> "halohop.records.Draws":
        """The questions about a graph; each graph, and each way to draw, has random numbers of its own."""
        key = (id(g), prob, edge_dir)
        if key not in self._known:
            words = f"{self._first.seed} {len(self._known)}".encode()
            seed = int.from_bytes(blake2b(words, digest_size=7).digest(), "little")  # not a seed of another run
            engine = g.engine_for(prob, edge_dir) if isinstance(g, DGLGraph) else g.engine
            self._known[key] = g, halohop.records.Draws(engine, seed=seed, epoch=self._first.epoch, batch=self._first.batch)
        return self._known[key][1]


_BATCH: ContextVar[Batch | None] = ContextVar("the batch that is being made", default=None)


@contextmanager
def making(g: Any, draws: "halohop.records.Draws", prob: str | None = None) -> Iterator[Batch]:
    """Within it, what is drawn belongs to one batch.

    Args:
        g, draws, prob: as of `Batch`.
    """
    batch = Batch(g, draws, prob)
    token = _BATCH.set(batch)
    try:
        yield batch
    finally:
        _BATCH.reset(token)


@contextmanager
def leaving_out(g: Any, excluded: EdgeIds) -> Iterator[None]:
    """Within it no draw takes these edges; others are drawn in their place."""
    batch = batch_of(g)
    before, batch.excluded = batch.excluded, excluded
    token = _BATCH.set(batch)
    try:
        yield
    finally:
        _BATCH.reset(token)
        batch.excluded = before


def batch_of(g: Any) -> Batch:
    """The batch that is being made; outside of one, another one at each call."""
    batch = _BATCH.get()
    if batch is None:
        calls = vars(g).setdefault("calls", count())
        batch = Batch(g, halohop.records.Draws(g.engine, batch=next(calls)))
    return batch


# frontiers


def sample_neighbors(
    g: Any,
    nodes: Any,
    fanout: Any,
    edge_dir: EdgeDir = "in",
    prob: str | None = None,
    replace: bool = False,
    copy_ndata: bool = True,
    copy_edata: bool = True,
    _dist_training: bool = False,
    exclude_edges: Any = None,
    output_device: Any = None,
) -> DGLGraph:
    """Some edges of each of the given nodes, as a graph with all nodes.

    Within a batch call k draws what hop k of `halohop.NeighborLoader(expand="all")` draws; outside of one, the calls on a graph
    number themselves. The random numbers of torch, NumPy and Python are left alone.

    Args:
        g: a `DGLGraph` or a `DistGraph`.
        nodes: ids ``[n]``, or by type.
        fanout: edges of each node, -1 for all; or by relation, where the others have none.
        edge_dir: "in", edges to the nodes, or "out", edges from them.
        prob: a column of the edges with weights to draw by; edges of weight 0 are never drawn.
        replace: whether an edge may be drawn more than once.
        copy_ndata, copy_edata: whether the result has the columns of `g`.
        exclude_edges: ids of edges that are not drawn ``[n]``, or by relation; others are drawn in their place.
        output_device: where the result lies.

    Returns:
        A graph whose column `EID` has the ids of its edges in `g`, in the order of `nodes`, then as drawn.

    Raises:
        IdError: an id that the graph does not have.
        InputError, SchemaError: an unknown type, relation or column.

    Example:
        >>> import halohop.dgl as dgl
        >>> g = dgl.graph(([1, 2, 0], [0, 0, 1]))
        >>> dgl.sampling.sample_neighbors(g, [0], -1).edata[dgl.EID].tolist()
        [0, 1]
    """
    edges = drawn(g, nodes, fanout, prob=prob, replace=replace, exclude=exclude_edges, edge_dir=edge_dir)
    found = frontier(g, edges, columns_of_nodes=copy_ndata, columns_of_edges=copy_edata)
    return found if output_device is None else found.to(output_device)


def in_subgraph(
    graph: Any, nodes: Any, *, relabel_nodes: bool = False, store_ids: bool = True, output_device: Any = None
) -> DGLGraph:
    """All edges to the given nodes, as `sample_neighbors` returns them, with `store_ids` as the column `EID`."""
    return _all_edges(graph, nodes, "in", relabel_nodes, store_ids, output_device)


def out_subgraph(
    graph: Any, nodes: Any, *, relabel_nodes: bool = False, store_ids: bool = True, output_device: Any = None
) -> DGLGraph:
    """All edges from the given nodes; see `in_subgraph`."""
    return _all_edges(graph, nodes, "out", relabel_nodes, store_ids, output_device)


def _all_edges(g: Any, nodes: Any, edge_dir: EdgeDir, relabel_nodes: bool, store_ids: bool, output_device: Any) -> DGLGraph:
    if relabel_nodes:
        raise InputError("relabel_nodes=True is not offered; to_block(dgl.in_subgraph(g, nodes), nodes) numbers nodes")
    found = sample_neighbors(g, nodes, -1, edge_dir, output_device=output_device)
    for relation in () if store_ids else found.canonical_etypes:
        del found.edges[relation].data[EID]
    return found


def drawn(
    g: Any,
    nodes: Any,
    fanout: Any,
    *,
    prob: str | None = None,
    replace: bool = False,
    exclude: Any = None,
    edge_dir: EdgeDir = "in",
    method: str = "neighbor",
) -> dict[Relation, "halohop.records.Edges"]:
    """Edges of nodes, by the names of `g`; arguments as of `sample_neighbors` and `halohop.records.Draws.neighbors`."""
    check_name(prob)
    batch = batch_of(g)
    draws = batch.draws(g, prob, edge_dir)
    excluded = joined(edge_ids(g, exclude), batch.excluded)
    asked = node_ids(g, nodes)
    fanouts = fanouts_of(g, fanout)
    how: dict[str, Any] = {"weight": prob, "replace": replace, "method": method}
    if draws.graph.schema.is_homogeneous:
        (wanted,), (relation,) = asked.values(), g.canonical_etypes
        return {relation: draws.neighbors(wanted, fanouts.get(relation, 0), excluded=excluded.get(relation), **how)}
    edges = draws.neighbors(asked, fanouts, excluded=excluded or None, **how)
    return sampled_relations(g, {relation: edges[relation] for relation in g.canonical_etypes})


def sampled_relations(g: Any, edges: dict[Relation, Any]) -> dict[Relation, Any]:
    """Selects the relations of a frontier or block: of a `DistGraph` those with sampled edges, as in DGL, or all if none has any.

    Other graphs keep all relations.

    Args:
        g: the graph.
        edges: by relation, of all relations.
    """
    return {relation: some for relation, some in edges.items() if isinstance(g, DGLGraph) or len(some.src)} or edges


def frontier(
    g: Any, edges: dict[Relation, "halohop.records.Edges"], *, columns_of_nodes: bool = True, columns_of_edges: bool = True
) -> DGLGraph:
    """Some edges of a graph, as a graph with all its nodes.

    Args:
        g: the graph.
        edges: by relation.
        columns_of_nodes, columns_of_edges: whether the columns of `g` can be read.
    """
    counts = {kind: g.num_nodes(kind) for kind in g.ntypes}
    made = DGLGraph(counts, counts, {relation: _adjacency(counts, relation, some, g) for relation, some in edges.items()})
    for relation, some in edges.items():
        made.edges[relation].data[EID] = some.edge_id.to(g.idtype)
    found: DGLGraph = inherit(made, g, nodes=columns_of_nodes, edges=columns_of_edges)
    return found


def _adjacency(counts: dict[str, int], relation: Relation, edges: "halohop.records.Edges", g: Any) -> Adjacency:
    return Adjacency(counts[relation[0]], counts[relation[2]], (edges.src.to(g.idtype), edges.dst.to(g.idtype)))


# blocks


def to_block(g: DGLGraph, dst_nodes: Any = None, include_dst_in_src: bool = True, src_nodes: Any = None) -> DGLBlock:
    """The edges of a graph as a block, whose sources are its destinations, and then the others as they first occur.

    Args:
        g: such as `sample_neighbors` returns.
        dst_nodes: ids of the destinations ``[n]``, or by type; None for those that have edges.
        include_dst_in_src: True.
        src_nodes: None.

    Returns:
        A block whose columns `NID` and `EID` have the ids of its nodes and edges in `g`, and which has the columns of `g`.

    Raises:
        InputError: an edge leads to none of the destinations, a destination is named twice, or other sources are asked for.

    Example:
        >>> import halohop.dgl as dgl
        >>> block = dgl.to_block(dgl.graph(([5, 4], [3, 3])), [3])
        >>> block.srcdata[dgl.NID].tolist(), block.edges()[0].tolist()
        ([3, 5, 4], [1, 2])
    """
    if not include_dst_in_src or src_nodes is not None:
        raise InputError("a block here begins with its destinations; leave out include_dst_in_src=False and src_nodes")
    made = block_of_frontier(g, dst_nodes)
    for relation in g.canonical_etypes:
        made.edges[relation].data[EID] = torch.arange(g.num_edges(relation), dtype=g.idtype)
    return made


def block_of_frontier(g: DGLGraph, dst_nodes: Any) -> DGLBlock:
    """As `to_block`, but edges keep the ids that they have in `g`, if they have some."""
    edges = {relation: Ends(*(ids.long() for ids in g.adjacency(relation).ends)) for relation in g.canonical_etypes}
    if dst_nodes is None:
        into = {kind: [some.dst for relation, some in edges.items() if relation[2] == kind] for kind in g.ntypes}
        dst_nodes = {kind: torch.cat(ends).unique() for kind, ends in into.items() if ends}
    nodes = node_ids(g, dst_nodes)
    hops, sources = halohop.nn.hop_of(edges, nodes)
    made = block(g, hops, sources, nodes, {})
    for relation in g.canonical_etypes:
        known = g.edges[relation].data.get(EID)
        made.edges[relation].data[EID] = torch.arange(g.num_edges(relation), dtype=g.idtype) if known is None else known
    return made


class Ends(NamedTuple):
    """Sources and destinations of edges."""

    src: Tensor
    dst: Tensor


def block_of(g: Any, edges: dict[Relation, "halohop.records.Edges"], nodes: Ids) -> DGLBlock:
    """A block of edges of a graph, and its columns.

    Args:
        g: the graph.
        edges: by relation.
        nodes: the destinations, of all types, int64.
    """
    hops, sources = halohop.nn.hop_of(edges, nodes)
    ids = {relation: some.edge_id for relation, some in edges.items()}
    return block(g, hops, sources, nodes, ids)


def block(g: Any, hops: dict[Relation, Hop], src_ids: Ids, dst_ids: Ids, ids: EdgeIds) -> DGLBlock:
    """A block with ids in the dtype of a graph's, and with its columns; arguments as of `DGLBlock`."""
    src_ids = {kind: src_ids[kind] for kind in g.ntypes}
    if g.idtype != torch.int64:
        hops = {relation: replace(hop, src=hop.src.to(g.idtype)) for relation, hop in hops.items()}
        src_ids, dst_ids = ({kind: some.to(g.idtype) for kind, some in given.items()} for given in (src_ids, dst_ids))
        ids = {relation: some.to(g.idtype) for relation, some in ids.items()}
    made: DGLBlock = inherit(DGLBlock(hops, src_ids, dst_ids, ids), g)
    return made


def __getattr__(name: str) -> Any:
    return missing("sampling", name)
