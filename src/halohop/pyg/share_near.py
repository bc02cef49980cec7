"""`halohop.placement.share_near`: the ids that a rank trains on, most of them in partitions near it."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop.cluster.graph import Graph
from halohop.errors import InputError
from halohop.flags import checks_flags
from halohop.loading.nearness import dealt, groups_of
from halohop.process_group import world_of
from halohop.pyg.asked import whole_ids
from halohop.pyg.inputs import InputNodes, as_tensor, seed_dataset
from halohop.typing import EDGE_ID, RAW_ID, NodeType, Relation, TableKey
from halohop.world import World

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class NearShare:
    """The ids of one rank.

    Args:
        ids: of nodes or edges, int64 ``[n]``: those near it, then the others.
        near: how many of them lie in partitions of this rank's host, from 0 to 1; of no ids, 1.
    """

    ids: Tensor
    near: float


@checks_flags
def share_near(
    graph: Graph,
    ids: InputNodes = None,
    world: World | None = None,
    *,
    node_type: NodeType | None = None,
    relation: Relation | None = None,
    even: bool = True,
) -> NearShare:
    """Divides ids among ranks so that each has many in the partitions near it; for loaders with ``own_seeds=True``.

    Every id goes to one rank. All ranks compute the same division, without asking each other, and no generator of random numbers
    is read. It depends on the partitions, and so do batches of it: a loader with ``locality="blocks"`` has near seeds, too, and
    its batches do not.

    Where several hosts have opened the graph, the partitions of its host are near a rank (hosts have as many ranks each);
    otherwise, as of servers, partitions and ranks correspond in their order.

    Args:
        graph: from `halohop.open`, `halohop.connect` or `halohop.graph`.
        ids: of nodes as of `halohop.NeighborLoader`: None for all, integers ``[n]``, a bool mask, the name of a stored split. Of
            edges None, integers ``[n]`` or a bool mask.
        world: the ranks; None: those of torch's process group, or of the launcher.
        node_type: the type of the nodes; None where there is one.
        relation: of the edges, if these are to be divided.
        even: numbers of ids of two ranks differ by one at most, and what is missing near a rank comes from others. False: each
            rank has its part of those near it, many or few.

    Raises:
        SchemaError: an unknown type, relation or split.
        IdError: an id that the graph does not have.
        InputError: both a node type and a relation, or anything else that names no ids.

    Example:
        >>> import halohop, torch
        >>> from torch_geometric.data import Data
        >>> graph = halohop.graph(Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=5))
        >>> [share_near(graph, world=halohop.World(rank=rank, size=2)).ids.tolist() for rank in range(2)]
        [[0, 1, 2], [3, 4]]
    """
    world = world_of(world)
    table, lists = _by_owner(graph, ids, node_type, relation)
    groups = groups_of(len(lists), world.size, graph.parts_of_hosts)
    near, far = dealt([len(listed) for listed in lists], groups, even=even)
    pieces = [*near[world.rank], *far[world.rank]]
    gids = [np.asarray(lists[piece.part][piece.begin : piece.end], np.int64) for piece in pieces]
    mine = torch.from_numpy(np.concatenate([np.empty(0, np.int64), *gids]))
    (found,) = graph.fetch_rows(table, [RAW_ID if isinstance(table, str) else EDGE_ID], mine)
    here = graph.parts_here or next(group.parts for group in groups if world.rank in group.ranks)
    num_here = sum(piece.end - piece.begin for piece in pieces if piece.part in here)
    return NearShare(ids=found, near=num_here / len(mine) if len(mine) else 1.0)


def _by_owner(
    graph: Graph, ids: InputNodes, node_type: NodeType | None, relation: Relation | None
) -> tuple[TableKey, list[Sequence[int] | Ids]]:
    """The gids of what is to be divided, by the partition that owns it, and of what they are."""
    if relation is None:
        dataset = seed_dataset(graph, ids, node_type=None if node_type is None else graph.schema.node_type(node_type))
        return dataset.node_type, _divided(dataset.gid, graph.book.bounds(dataset.node_type))
    if node_type is not None:
        raise InputError(f"node_type={node_type!r} and relation={relation!r}: ids are of one of them; leave the other out")
    relation = graph.schema.relation(relation)
    bounds = graph.book.bounds(relation)
    if ids is None:
        return relation, [range(begin, end) for begin, end in pairwise(bounds)]
    listed = as_tensor(ids, "ids", flat=True)
    if listed.dtype == torch.bool:
        if len(listed) != bounds[-1]:
            raise InputError(f"the mask has {len(listed)} entries, but there are {bounds[-1]} edges {relation}")
        listed = listed.nonzero().view(-1)
    return relation, _divided(graph.locate_edges(relation, whole_ids(listed, "ids")), bounds)


def _divided(gid: Tensor, bounds: Sequence[int]) -> list[Sequence[int] | Ids]:
    owner = np.searchsorted(np.asarray(bounds[1:]), gid.numpy(), side="right")
    counts = np.bincount(owner, minlength=len(bounds) - 1)
    return [*np.split(gid.numpy()[np.argsort(owner, kind="stable")], np.cumsum(counts)[:-1])]
