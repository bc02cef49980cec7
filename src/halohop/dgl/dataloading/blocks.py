"""Batches of `halohop.NeighborLoader` as blocks: views, nothing is copied."""

from itertools import accumulate
from typing import Any

from torch import Tensor
from torch_geometric.data import Data, HeteroData

from halohop.dgl.block import DGLBlock
from halohop.dgl.graph import NID
from halohop.dgl.sampling import block
from halohop.nn import Hop, hops
from halohop.typing import Relation


def blocks_of(batch: Data | HeteroData, g: Any) -> tuple[Any, Any, list[DGLBlock]]:
    """Ids of the input nodes, ids of the output nodes, and the blocks.

    Args:
        batch: in which every hop begins at all nodes before it (`expand="all"`), with the edges of `g`.
        g: the graph that names types and columns.
    """
    layers = hops(batch, cumulative=False)
    if isinstance(batch, Data):
        (kind,), (relation,) = g.ntypes, g.canonical_etypes
        stores, edges = {kind: batch}, {relation: batch}
        found: list[dict[Relation, Hop]] = [{relation: hop} for hop in layers]
    else:
        stores = {kind: batch[kind] for kind in g.ntypes}
        edges = {relation: batch[relation] for relation in g.canonical_etypes}
        found = [{relation: of_layer[relation] for relation in edges} for of_layer in layers]
    ends = {kind: list(accumulate(store.num_sampled_nodes)) for kind, store in stores.items()}
    outermost = len(layers)
    blocks = []
    for layer, of_layer in enumerate(found):
        src, dst = (
            {kind: store.n_id[: ends[kind][outermost - layer - back]] for kind, store in stores.items()} for back in (0, 1)
        )
        ids: dict[Relation, Tensor] = {relation: edges[relation].e_id[hop.edges] for relation, hop in of_layer.items()}
        blocks.append(block(g, of_layer, src, dst, ids))
    seeds = {kind: blocks[-1].dstnodes[kind].data[NID] for kind in stores}
    named = {kind: ids for kind, ids in seeds.items() if len(ids)} if len(stores) > 1 else seeds[next(iter(seeds))]
    return blocks[0].srcdata[NID], named, blocks
