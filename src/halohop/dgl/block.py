"""DGL's block: the edges that one layer reads, from sources of its own to destinations of its own."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from halohop.dgl.convert import adjacencies, check_counts, least_counts, relations_of
from halohop.dgl.graph import DEFAULT_ETYPE, DEFAULT_NTYPE, EID, NID, DGLGraph
from halohop.errors import InputError
from halohop.nn import Adjacency, Hop
from halohop.typing import Relation


class DGLBlock(DGLGraph):
    """Lists of in-edges from sources to destinations, which are the first of the sources.

    Args:
        hops: by relation. The ids of edges are `Hop.edges`; those of a part of a batch's edges (`Hop.whole`), their places.
        src_ids, dst_ids: by type, the nodes' ids, which become the column `NID`; or how many there are.
        edge_ids: by relation, the ids of its edges in the graph ``[E]``, which become the column `EID`.

    Example:
        >>> hop = Hop(src=torch.tensor([1, 2, 0]), begins=torch.tensor([0, 2, 3]), num_src=3, num_dst=2, edges=slice(0, 3))
        >>> block = DGLBlock({("_N", "_E", "_N"): hop}, {"_N": torch.tensor([7, 5, 9])}, {"_N": torch.tensor([7, 5])})
        >>> block.srcdata["_ID"].tolist(), block.num_dst_nodes(), block.in_degrees().tolist()
        ([7, 5, 9], 2, [2, 1])
    """

    is_block = True

    def __init__(
        self,
        hops: dict[Relation, Hop],
        src_ids: dict[str, Tensor] | dict[str, int],
        dst_ids: dict[str, Tensor] | dict[str, int],
        edge_ids: dict[Relation, Tensor] | None = None,
    ) -> None:
        sources, destinations = (
            {kind: ids if isinstance(ids, int) else len(ids) for kind, ids in given.items()} for given in (src_ids, dst_ids)
        )
        for relation, hop in hops.items():
            if (sources.get(relation[0]), destinations.get(relation[2])) != (hop.num_src, hop.num_dst):
                raise InputError(
                    f"edges {relation} go from {hop.num_src} sources to {hop.num_dst} destinations, but there are "
                    f"{sources.get(relation[0])} and {destinations.get(relation[2])}"
                )
        edges = {relation: Adjacency(hop.num_src, hop.num_dst, _alone(hop)) for relation, hop in hops.items()}
        super().__init__(sources, destinations, edges)
        for given, kept in ((src_ids, self._own.src), (dst_ids, self._own.dst)):
            for kind, ids in given.items():
                if isinstance(ids, Tensor):
                    kept[kind][NID] = ids
        for relation, numbers in (edge_ids or {}).items():
            self.edge_frame(relation)[EID] = numbers


def create_block(
    data_dict: Any, num_src_nodes: Any = None, num_dst_nodes: Any = None, idtype: torch.dtype | None = None, device: Any = None
) -> DGLBlock:
    """A block of pairs of ids: of one relation, or a dict of relations.

    Args:
        data_dict: sources and destinations ``[E]`` each, or by relation.
        num_src_nodes, num_dst_nodes: how many nodes there are, or by type; by default, as many as the largest id says.
        idtype: of ids, int64 or int32.
        device: where the block lies.

    Raises:
        InputError: an id that is not below the count, or what `graph` refuses.

    Example:
        >>> create_block(([0, 1, 2], [0, 0, 1]), num_src_nodes=3, num_dst_nodes=2)
        Block(num_src_nodes={'_N': 3}, num_dst_nodes={'_N': 2}, num_edges={('_N', '_E', '_N'): 3})
    """
    one = not isinstance(data_dict, dict)
    ends = relations_of({DEFAULT_ETYPE: data_dict} if one else data_dict, idtype, device)
    sides: list[dict[str, int]] = []
    for side, given, name in ((0, num_src_nodes, "num_src_nodes"), (2, num_dst_nodes, "num_dst_nodes")):
        needed = least_counts(ends, side)
        counts = needed if given is None else {DEFAULT_NTYPE: given} if one else given
        check_counts(counts, needed, name)
        sides.append({kind: counts[kind] for kind in sorted(counts)})
    sources, destinations = sides
    hops = {relation: edges.hop for relation, edges in adjacencies(ends, sources, destinations).items()}
    return DGLBlock(hops, sources, destinations)


def _alone(hop: Hop) -> Hop:
    """A hop whose edges are numbered by themselves, not as those of a batch."""
    part = hop.whole is not None or hop.num_whole is not None
    return replace(hop, edges=slice(0, hop.num_edges), whole=None, num_whole=None) if part else hop
