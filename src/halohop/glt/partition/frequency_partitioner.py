"""GLT's `FrequencyPartitioner`: nodes lie where they are needed most, and what is needed most of the others is copied."""

from typing import Any

import torch
from torch import Tensor

import halohop
from halohop.errors import InputError
from halohop.glt.partition.base import Owned, PartitionerBase, by_type, owned
from halohop.glt.typing import NodeType
from halohop.glt.utils.units import parse_size
from halohop.typing import NODE


class FrequencyPartitioner(PartitionerBase):
    """Places nodes where batches need them most; other arguments are those of `PartitionerBase`.

    Args:
        probs: for each partition, how probable its batches have each node, float ``[num_nodes]``; or such lists by type.
        cache_memory_budget: bytes, or text such as "1GB", of copies of other partitions' features in each; also by type.
        cache_ratio: the same as a share of the nodes of a type. Of both, the smaller counts.

    Raises:
        InputError: no probability for each partition and node, or a cache without features.
    """

    def __init__(
        self,
        output_dir: Any,
        num_parts: int,
        num_nodes: int | dict[NodeType, int],
        edge_index: Any,
        probs: Any,
        node_feat: Any = None,
        node_feat_dtype: torch.dtype = torch.float32,
        edge_feat: Any = None,
        edge_feat_dtype: torch.dtype = torch.float32,
        edge_weights: Any = None,
        edge_assign_strategy: str = "by_src",
        cache_memory_budget: Any = None,
        cache_ratio: Any = None,
        chunk_size: int = 10000,
        device: Any = None,
    ) -> None:
        features = node_feat, node_feat_dtype, edge_feat, edge_feat_dtype, edge_weights
        super().__init__(output_dir, num_parts, num_nodes, edge_index, *features, edge_assign_strategy, chunk_size, device)
        self.probs = probs
        self.cache_memory_budget, self.cache_ratio = cache_memory_budget, cache_ratio
        for name in by_type(num_nodes, NODE):
            self._hotness(name)
            self._cache_size(name)

    def _hotness(self, ntype: NodeType | None) -> Tensor:
        """What each partition needs of each node, ``[num_parts, num_nodes]``."""
        given = [torch.as_tensor(probs).cpu() for probs in by_type(self.probs, NODE).get(ntype or NODE, [])]
        shapes, count = [tuple(probs.shape) for probs in given], self.count(ntype)
        if shapes != [(count,)] * self.num_parts:
            raise InputError(f"probs of {ntype or NODE!r} have shapes {shapes}; give {self.num_parts} of {count} nodes each")
        return torch.stack(given)

    def _cache_size(self, ntype: NodeType | None) -> int:
        """How many nodes a partition copies."""
        given = self.cache_ratio, self.cache_memory_budget
        ratio, budget = (by_type(one, ntype or NODE).get(ntype or NODE) or 0 for one in given)
        rows = self.get_node_feat(ntype)
        if not 0 <= ratio <= 1 or (rows is None and (ratio or budget)):
            raise InputError(f"cache_ratio={ratio}: a cache holds node features; give node_feat, and a share from 0 to 1")
        sizes = [int(ratio * self.count(ntype))] if ratio else []
        if budget:
            sizes.append(parse_size(budget) // max(torch.as_tensor(rows)[:1].numel() * self.node_feat_dtype.itemsize, 1))
        return min(*sizes, self.count(ntype)) if sizes else 0

    def _partition_node(self, ntype: NodeType | None = None) -> Owned:
        return owned(halohop.placement.place_by_hotness(self._hotness(ntype)), self.num_parts)

    def _cache_node(self, ntype: NodeType | None = None) -> list[Tensor | None]:
        """The nodes that are needed most of those that each partition does not own."""
        size, hot = self._cache_size(ntype), self._hotness(ntype)
        wanted = [probs.masked_fill(self.owner[ntype or NODE] == part, 0).topk(size) for part, probs in enumerate(hot)]
        return [nodes.indices[nodes.values > 0] for nodes in wanted] if size else [None] * self.num_parts
