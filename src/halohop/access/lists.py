"""Lists of neighbours read from end to end, some at a time, wherever they lie."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from halohop.cluster.lookups import Lookups
from halohop.store.draw import TAKE_ALL
from halohop.store.requests import HopAnswer, HopQuery, SampleRequest
from halohop.typing import Relation

_EDGES_AT_ONCE = 1 << 21
_NODES_AT_ONCE = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Lists:
    """Some whole lists: those of the nodes `gid` (int64 ``[n]``)."""

    gid: Tensor
    answer: HopAnswer


def read_lists(graph: Lookups, relation: Relation, gid: Tensor, *, edges_at_once: int = _EDGES_AT_ONCE) -> Iterator[Lists]:
    """The lists of some nodes, in this order, in pieces of about so many edges (at least a list), so that no graph is too large.

    Args:
        graph: where they lie; on other hosts they are asked for.
        relation: whose edges.
        gid: int64 ``[n]``; ascending ones are read from the disk in its order.
    """
    for nodes in gid.split(_NODES_AT_ONCE):
        piece = graph.degrees(relation, nodes).cumsum(0) // edges_at_once
        for some in nodes.split(torch.unique_consecutive(piece, return_counts=True)[1].tolist()):
            query = HopQuery(relation=relation, fanout=-1, dst_gid=some)
            yield Lists(gid=some, answer=graph.sample(SampleRequest(draw=TAKE_ALL, queries=(query,))).answers[0])
