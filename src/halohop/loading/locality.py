"""How close together the seeds of a batch lie: what `locality` asks for, looked up once for all seeds of a loader."""

from typing import Literal, get_args

import torch

from halohop.cluster.graph import Graph
from halohop.errors import InputError
from halohop.loading.blocks import SeedBlocks
from halohop.loading.examples import Examples

Locality = Literal["none", "blocks", "owner"]


def seed_blocks(graph: Graph, seeds: Examples, locality: Locality) -> SeedBlocks | None:
    """The block of every seed; with "owner" the partition that owns it takes the place of a block. None with "none".

    Raises:
        InputError: no such locality, a graph without blocks, or seeds that are no nodes and no edges.
    """
    if locality not in get_args(Locality):
        raise InputError(f"locality={locality!r} is none of 'none', 'blocks', 'owner'")
    if locality == "none":
        return None
    if (placed := seeds.placed_by) is None:
        raise InputError(f"locality={locality!r} is for loaders of nodes and edges; clusters and random subgraphs: leave it out")
    node_type, gid = placed
    if locality == "owner":
        owners, count = graph.owners_of(node_type, gid), graph.book.num_parts
        return SeedBlocks(of_seed=owners.to(torch.int16) if count < 2**15 else owners, count=count)
    if not graph.book.num_blocks:
        raise InputError(
            "locality='blocks', but this graph has no blocks: partition it with --method metis "
            "(halohop.partition(..., method='metis')) into 2, 4, 8, ... partitions, or use locality='owner', whose batches "
            "depend on the partitions"
        )
    return SeedBlocks(of_seed=graph.blocks_of(node_type, gid), count=graph.book.num_blocks)
