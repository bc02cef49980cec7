"""How long a batch would take if nothing but memory cost time: the cache lines that sampling must touch, times a line's time.

Counted hop by hop, each line once a hop: the bounds of every expanded node's list (8 bytes at a random place), the neighbours
drawn from it (their places in `indices`), and the entries of the table that numbers the nodes (4 bytes per node of the graph).
Not counted is what is read or written in order: frontier, draws, and the batch itself. A table or graph that fits into the
processor's caches makes the model too pessimistic, so shares mean something on graphs far larger than those only.
"""

from itertools import pairwise

import torch
from torch import Tensor

from halohop.cluster.graph import Graph
from halohop.sampling.batch import Batch, EdgeBlock

LINE = 64  # bytes
_INDPTR, _TABLE = 8, 4  # bytes of an entry
_INT32_MAX = 2**31 - 1


def lines_of(graph: Graph, batch: Batch) -> int:
    """Cache lines that sampling `batch` touches, in a graph of one partition."""
    total = 0
    for relation, block in batch.edges.items():
        src, dst = batch.nodes[relation[0]].gid, batch.nodes[relation[2]].gid
        width = 4 if graph.schema.nodes[relation[0]].count <= _INT32_MAX else 8
        for hop in _hops(block):
            src_bid, dst_bid = block.ends_bid[:, hop]
            rows = dst[torch.unique(dst_bid)]
            total += _distinct(torch.cat([rows, rows + 1]), _INDPTR)
            total += _distinct(block.gid[hop], width)
            total += _distinct(src[src_bid], _TABLE)
    return total


def _hops(block: EdgeBlock) -> list[slice]:
    assert block.num_sampled is not None
    ends = torch.tensor([0, *block.num_sampled]).cumsum(0).tolist()
    return [slice(begin, end) for begin, end in pairwise(ends)]


def _distinct(positions: Tensor, entry_bytes: int) -> int:
    return len(torch.unique(positions.long() * entry_bytes // LINE))
