"""From which seeds the batches of a partition are made."""

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from halohop.errors import InputError
from halohop.partitioning.book import Book
from halohop.typing import NodeType

Locality = Literal["none", "owner"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batches:
    """The batches of an epoch: each takes its seeds from one group.

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

    def number(self, group: Tensor) -> int:
        """How many batches an epoch makes of a group."""
        return -(-len(group) // self.batch_size)


def dealt(book: Book, node_type: NodeType, seeds: Tensor, *, batch_size: int, locality: Locality) -> tuple[Batches, ...]:
    """The batches of each partition's host.

    Args:
        book: who owns what.
        node_type, seeds: the nodes that batches are about, by gid (int64 ``[n]``).
        batch_size: seeds of a batch.
        locality: "none": every batch takes its seeds from all, so it is the same for all partitions; "owner": from those that
            the partition owns.

    Raises:
        InputError: no such locality, or batch_size < 1.

    Example:
        >>> book = Book(nodes={"node": (0, 3, 6)}, edges={})
        >>> [batches.groups for batches in dealt(book, "node", torch.tensor([4, 1]), batch_size=2, locality="owner")]
        [(tensor([1]),), (tensor([4]),)]
    """
    if locality not in get_args(Locality):
        raise InputError(f"locality={locality!r} is none of {list(get_args(Locality))}")
    if locality == "none":
        return (Batches(node_type=node_type, groups=(seeds,), batch_size=batch_size),) * book.num_parts
    owner = torch.bucketize(seeds, torch.tensor(book.bounds(node_type)[1:-1], dtype=torch.int64), right=True)
    return tuple(
        Batches(node_type=node_type, groups=(seeds[owner == part],), batch_size=batch_size) for part in range(book.num_parts)
    )
