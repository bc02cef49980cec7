"""From which seeds the batches of a partition are made."""

from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor

from halohop.cluster.lookups import Lookups
from halohop.errors import InputError
from halohop.loading.locality import Locality
from halohop.typing import NodeType


@dataclass(frozen=True, slots=True, kw_only=True)
class Batches:
    """The batches of an epoch: each takes its seeds from one group, full batches as far as there are seeds.

    Args:
        node_type: of the seeds.
        groups: their gids, int64 ``[n]`` each, in any order.
        batch_size: seeds of a batch.

    Raises:
        InputError: batch_size < 1.
    """

    node_type: NodeType
    groups: tuple[Tensor, ...]
    batch_size: int

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise InputError(f"batch_size={self.batch_size} must be at least 1")

    def number(self, group: Tensor) -> float:
        """How many full batches a group makes; one that is smaller than a batch is a part of one, with others."""
        return len(group) / self.batch_size

    def chance(self, group: Tensor) -> float:
        """How probable it is that a batch of the group has a given seed."""
        return min(1.0, self.batch_size / len(group))


def dealt(graph: Lookups, node_type: NodeType, seeds: Tensor, *, batch_size: int, locality: Locality) -> tuple[Batches, ...]:
    """The batches of each partition's host.

    Args:
        graph: who owns what, and the blocks of nodes.
        node_type, seeds: the nodes that batches are about, by gid (int64 ``[n]``).
        batch_size: seeds of a batch.
        locality: as of the loaders. "none": every batch takes its seeds from all, so it is the same for all partitions; "owner":
            from those that the partition owns; "blocks": from those of one of the partition's blocks.

    Raises:
        InputError: no such locality, a graph without blocks, or batch_size < 1.

    Example:
        >>> from halohop.testing.graphs import ring
        >>> from halohop.testing.worlds import partitioned
        >>> graph = partitioned(ring(4), 2)
        >>> [len(batches.groups) for batches in dealt(graph, "node", torch.tensor([3, 1]), batch_size=2, locality="owner")]
        [1, 1]
    """
    if locality not in get_args(Locality):
        raise InputError(f"locality={locality!r} is none of {list(get_args(Locality))}")
    num_parts = graph.book.num_parts
    if locality == "none":
        return (Batches(node_type=node_type, groups=(seeds,), batch_size=batch_size),) * num_parts
    owner = graph.owners_of(node_type, seeds)
    blocks = graph.blocks_of(node_type, seeds).long() if locality == "blocks" else torch.zeros_like(owner)
    groups = [
        tuple(seeds[(owner == part) & (blocks == block)] for block in blocks[owner == part].unique()) for part in range(num_parts)
    ]
    return tuple(Batches(node_type=node_type, groups=group, batch_size=batch_size) for group in groups)
