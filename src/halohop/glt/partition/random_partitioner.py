"""GLT's `RandomPartitioner`."""

import torch

import halohop
from halohop.glt.partition.base import Owned, PartitionerBase, owned
from halohop.glt.typing import NodeType


class RandomPartitioner(PartitionerBase):
    """Deals the nodes of each type to the partitions at random, evenly; arguments are those of `PartitionerBase`.

    `torch.manual_seed` has its effect.
    """

    def _partition_node(self, ntype: NodeType | None = None) -> Owned:
        return owned(
            halohop.placement.place_at_random(self.count(ntype), self.num_parts, seed=torch.initial_seed()), self.num_parts
        )
