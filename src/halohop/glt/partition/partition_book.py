"""GLT's books: which partition has a node or an edge."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from halohop.errors import InputError
from halohop.glt.typing import EdgeType, NodeType


class PartitionBook:
    """``book[ids]`` is the partition of each of some ids, from `offset` on."""

    offset = 0

    def __getitem__(self, indices: Any) -> Tensor:
        raise NotImplementedError


class GLTPartitionBook(PartitionBook, Tensor):
    """A tensor with the partition of every id, int64 ``[n]``."""

    def __new__(cls, data: Any) -> "GLTPartitionBook":
        return torch.as_tensor(data).as_subclass(cls)

    def __getitem__(self, indices: Any) -> Tensor:
        return self.as_subclass(Tensor)[indices]


@dataclass(frozen=True, slots=True)
class OffsetId2Index:
    """``id2index[ids]`` is where ids from an offset on stand."""

    offset: int

    def __getitem__(self, ids: Tensor) -> Tensor:
        return ids - self.offset


class RangePartitionBook(PartitionBook):
    """Partitions that own one range of ids each.

    Args:
        partition_ranges: the first id of each, and the one after its last; they begin at 0 and follow each other.
        partition_idx: the partition here.

    Raises:
        InputError: ranges with gaps, or no such partition.

    Example:
        >>> RangePartitionBook([(0, 10), (10, 20)], 1)[torch.tensor([3, 10])].tolist()
        [0, 1]
    """

    def __init__(self, partition_ranges: Sequence[tuple[int, int]], partition_idx: int) -> None:
        ends = [0, *(end for _, end in partition_ranges)]
        if [begin for begin, _ in partition_ranges] != ends[:-1] or sorted(ends) != ends or len(ends) < 2:
            raise InputError(f"partition_ranges={partition_ranges} must begin at 0 and follow each other, as [(0, 10), (10, 20)]")
        if not 0 <= partition_idx < len(partition_ranges):
            raise InputError(f"partition_idx={partition_idx}, but there are {len(partition_ranges)} ranges")
        self.partition_ranges, self.partition_idx = partition_ranges, partition_idx
        self.partition_bounds = torch.tensor(ends[1:])

    def __getitem__(self, indices: Any) -> Tensor:
        ids = torch.as_tensor(indices)
        if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < int(self.partition_bounds[-1]):
            raise InputError(f"ids from {int(ids.min())} to {int(ids.max())} are not all below {int(self.partition_bounds[-1])}")
        return torch.searchsorted(self.partition_bounds.to(ids.device), ids.contiguous(), right=True)

    device = property(lambda self: self.partition_bounds.device)
    id2index = property(lambda self: OffsetId2Index(self.partition_ranges[self.partition_idx][0]))

    def id_filter(self, node_pb: "RangePartitionBook", partition_idx: int) -> Tensor:
        """The ids of a partition."""
        return torch.arange(*node_pb.partition_ranges[partition_idx])


HeteroNodePartitionDict = dict[NodeType, PartitionBook]
HeteroEdgePartitionDict = dict[EdgeType, PartitionBook]
