"""Batches of `halohop.NeighborLoader` as blocks: views, nothing is copied."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Self

from torch import Tensor
from torch_geometric.data import Data, HeteroData

from halohop.dgl.block import DGLBlock
from halohop.dgl.dataloading.base import Names, chosen
from halohop.dgl.graph import NID, DGLGraph, Given
from halohop.dgl.sampling import block, sampled_relations
from halohop.nn import Hop, hops
from halohop.typing import Relation


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefetched:
    """The columns that come with batches: by type or relation their names, and what the batches call them.

    Args:
        nodes: of all nodes.
        edges: of all edges.
    """

    nodes: Given
    edges: Given

    @classmethod
    def of(cls, g: Any, weight: str | None, nodes: Names, edges: Names) -> Self:
        """The columns of a graph that are asked for, as they are now.

        Args:
            g: the graph.
            weight: the column that is drawn by.
            nodes, edges: names, as of `BlockSampler`.
        """
        of_nodes = chosen({kind: g.nodes[kind].data for kind in g.ntypes}, nodes)
        by_relation = (
            {g.to_canonical_etype(etype): names for etype, names in edges.items()} if isinstance(edges, Mapping) else edges
        )
        of_edges = chosen({relation: g.edges[relation].data for relation in g.canonical_etypes}, by_relation)
        if isinstance(g, DGLGraph):
            found = g.give_columns(weight, of_nodes, of_edges)
            return cls(nodes=found[0], edges=found[1])
        return cls(nodes=_stored(g.nodes, of_nodes), edges=_stored(g.edges, of_edges))

    def columns(self, *, homogeneous: bool) -> dict[str, Any]:
        """As `halohop.NeighborLoader` is asked for them."""
        both = {"node_columns": self.nodes, "edge_columns": self.edges}
        if not homogeneous:
            return {name: {kind: list(given.values()) for kind, given in asked.items()} for name, asked in both.items()}
        return {name: [there for given in asked.values() for there in given.values()] for name, asked in both.items()}


def _stored(frames: Any, wanted: Mapping[Any, list[str]]) -> Given:
    tensors = {kind: {name: frames[kind].data[name] for name in names} for kind, names in wanted.items()}
    return {
        kind: {name: getattr(tensor, "column", None) or tensor.name for name, tensor in of_kind.items()}
        for kind, of_kind in tensors.items()
    }


def blocks_of(batch: Data | HeteroData, g: Any, prefetched: Prefetched) -> tuple[Any, Any, list[DGLBlock]]:
    """Ids of the input nodes, ids of the output nodes, and the blocks.

    Args:
        batch: in which every hop begins at all nodes before it (`expand="all"`), with the edges of `g`.
        g: the graph that names types and columns.
        prefetched: the columns that the batch has.
    """
    layers = hops(batch, cumulative=False)
    if isinstance(batch, Data):
        (kind,), (relation,) = g.ntypes, g.canonical_etypes
        stores, edges = {kind: batch}, {relation: batch}
        found: list[dict[Relation, Hop]] = [{relation: hop} for hop in layers]
    else:
        stores = {kind: batch[kind] for kind in g.ntypes}
        edges = {relation: batch[relation] for relation in g.canonical_etypes}
        found = [sampled_relations(g, {relation: of_layer[relation] for relation in edges}) for of_layer in layers]
    ends = {kind: list(accumulate(store.num_sampled_nodes)) for kind, store in stores.items()}
    blocks = []
    for left, of_layer in zip(range(len(layers), 0, -1), found, strict=True):
        src, dst = ({kind: store.n_id[: ends[kind][left - back]] for kind, store in stores.items()} for back in (0, 1))
        ids: dict[Relation, Tensor] = {relation: edges[relation].e_id[hop.edges] for relation, hop in of_layer.items()}
        made = block(g, of_layer, src, dst, ids)
        for relation in of_layer:
            for name, there in prefetched.edges.get(relation, {}).items():
                made.edges[relation].data[name] = edges[relation][there][of_layer[relation].edges]
        blocks.append(made)
    for kind, names in prefetched.nodes.items():
        for name, there in names.items():
            blocks[0].srcnodes[kind].data[name] = stores[kind][there]
    seeds = {kind: blocks[-1].dstnodes[kind].data[NID] for kind in stores}
    named = {kind: ids for kind, ids in seeds.items() if len(ids)} if len(stores) > 1 else seeds[next(iter(seeds))]
    return blocks[0].srcdata[NID], named, blocks
