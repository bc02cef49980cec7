"""A sampled batch as PyG's `SamplerOutput`, and back."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.sampler import HeteroSamplerOutput, SamplerOutput

from halohop import ops
from halohop.cluster.graph import Graph
from halohop.errors import InputError
from halohop.pyg.convert import link_metadata
from halohop.sampling.batch import Batch, EdgeBlock, NodeBlock, Seeds
from halohop.sampling.link_seeds import End, LinkSeeds
from halohop.store.requests import FetchRequest, RowQuery
from halohop.typing import EDGE, EDGE_ID, NODE, RAW_ID, NodeType, Relation, TableKey


def to_sampler_output(graph: Graph, batch: Batch, *, edge_gid: bool) -> SamplerOutput | HeteroSamplerOutput:
    """PyG's record of a sampled batch: raw node ids, and edges by gid or by the user's edge ids; None where some are flips of
    another relation's."""
    queries = [RowQuery(table=name, columns=(RAW_ID,), gid=block.gid) for name, block in batch.nodes.items()]
    edge: dict[Relation, Tensor | None] = {
        relation: block.gid if block.flips is None else None for relation, block in batch.edges.items()
    }
    if not edge_gid:
        known = {relation: gid for relation, gid in edge.items() if gid is not None}
        queries += [RowQuery(table=relation, columns=(EDGE_ID,), gid=gid) for relation, gid in known.items()]
    rows = graph.fetch(FetchRequest(queries=tuple(queries)))
    ids = {query.table: got[0] for query, got in zip(queries, rows, strict=True)}
    node = {name: ids[name] for name in batch.nodes}
    edge = {relation: ids.get(relation, gid) for relation, gid in edge.items()}
    row = {relation: block.ends_bid[0] for relation, block in batch.edges.items()}
    col = {relation: block.ends_bid[1] for relation, block in batch.edges.items()}
    nodes_per_hop = {name: _listed(block.num_sampled) for name, block in batch.nodes.items()}
    edges_per_hop = {relation: _listed(block.num_sampled) for relation, block in batch.edges.items()}
    trees = {name: block.tree for name, block in batch.nodes.items() if block.tree is not None}
    metadata = _metadata(batch)
    if graph.schema.is_homogeneous:
        return SamplerOutput(
            node=node[NODE],
            row=row[EDGE],
            col=col[EDGE],
            edge=edge[EDGE],
            batch=trees.get(NODE),
            num_sampled_nodes=nodes_per_hop[NODE],
            num_sampled_edges=edges_per_hop[EDGE],
            metadata=metadata,
        )
    return HeteroSamplerOutput(
        node=node,
        row=row,
        col=col,
        edge=edge,
        batch=trees or None,
        num_sampled_nodes=nodes_per_hop,
        num_sampled_edges=edges_per_hop,
        metadata=metadata,
    )


def from_sampler_output(graph: Graph, batch: Batch, output: SamplerOutput | HeteroSamplerOutput) -> Batch:
    """The batch that a user's transform of PyG's record of `batch` describes; edges are given by gid.

    Nodes may have changed places: the ends of a link task are found again by id, and by tree in disjoint batches. The seeds of
    a node task are the first nodes, here as in PyG, and it is the transform's business to leave them there.

    Raises:
        InputError: not PyG's record, or one that lacks what was needed.
    """
    if isinstance(output, SamplerOutput):
        output = HeteroSamplerOutput(
            node={NODE: output.node},
            row={EDGE: output.row},
            col={EDGE: output.col},
            edge={EDGE: output.edge},
            batch=None if output.batch is None else {NODE: output.batch},
            num_sampled_nodes={NODE: output.num_sampled_nodes},
            num_sampled_edges={EDGE: output.num_sampled_edges},
        )
    elif not isinstance(output, HeteroSamplerOutput):
        raise InputError(f"transform_sampler_output returned {type(output).__name__}, expected PyG's SamplerOutput")
    if output.edge is None or None in output.edge.values():
        raise InputError("transform_sampler_output dropped `edge`; keep it, so that edge features and ids can be found")
    nothing = torch.empty(0, dtype=torch.int64)
    nodes: dict[NodeType, NodeBlock] = {}
    for name in graph.schema.nodes:
        gid = graph.locate(output.node.get(name, nothing), name)
        tree = (output.batch or {}).get(name)
        if tree is not None and len(tree) != len(gid):
            raise InputError(
                f"transform_sampler_output left {len(gid)} nodes of {name!r} and a batch of {len(tree)}; keep them alike"
            )
        nodes[name] = NodeBlock(gid=gid, tree=tree, num_sampled=_still_true(output.num_sampled_nodes, name, len(gid)))
    edges: dict[Relation, EdgeBlock] = {}
    for relation in graph.schema.edges:
        row, col, gid = (part.get(relation, nothing) for part in (output.row, output.col, output.edge))
        num_sampled = _still_true(output.num_sampled_edges, relation, len(gid))
        edges[relation] = EdgeBlock(ends_bid=ops.join_rows([row, col]).view(2, -1), gid=gid, num_sampled=num_sampled)
    ends_bid = tuple(_found_again(graph, end, batch.nodes[end.node_type], nodes[end.node_type]) for end in batch.seeds.ends)
    return Batch(seeds=batch.seeds, nodes=nodes, edges=edges, ends_bid=ends_bid)


def _found_again(graph: Graph, end: End, before: NodeBlock, now: NodeBlock) -> Tensor:
    """The positions of a link task's ends among rearranged nodes; where one is there several times, the first."""
    keys, wanted = now.gid, end.gid
    if before.tree is not None:
        if now.tree is None:
            raise InputError("transform_sampler_output dropped `batch`; keep it, so that the ends of each subgraph can be found")
        num_nodes = max(graph.schema.nodes[end.node_type].count, 1)
        keys, wanted = keys + num_nodes * now.tree, wanted + num_nodes * end.tree
    ordered, order = keys.sort(stable=True)
    places = torch.searchsorted(ordered, wanted)
    found = places < len(keys)
    found[found.clone()] = ordered[places[found]] == wanted[found]
    if not found.all():
        raise InputError(
            f"transform_sampler_output dropped {int((~found).sum())} of the nodes of {end.node_type!r} that seed edges join; "
            "keep them"
        )
    return order[places]


def _metadata(batch: Batch) -> tuple[Any, ...]:
    match batch.seeds:
        case LinkSeeds() as links:
            return link_metadata(links, *batch.ends_bid)
        case Seeds(input_id=input_id, time=time):
            return input_id, time
    return None, None


def _listed(num_sampled: tuple[int, ...] | None) -> list[int] | None:
    return None if num_sampled is None else list(num_sampled)


def _still_true(num_sampled: Mapping[Any, Sequence[int] | None] | None, key: TableKey, total: int) -> tuple[int, ...] | None:
    """The hops' counts, unless a transform has left them behind."""
    counts = (num_sampled or {}).get(key)
    return tuple(counts) if counts is not None and sum(counts) == total else None
