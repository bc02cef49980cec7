"""Samplers of neighbours: `NeighborSampler` and its kin."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from halohop.dgl.block import DGLBlock
from halohop.dgl.dataloading.base import BlockSampler, Names
from halohop.dgl.graph import NID
from halohop.dgl.ids import as_given, check_name, fanouts_of, node_ids
from halohop.dgl.sampling import block_of, block_of_frontier, drawn
from halohop.errors import InputError
from halohop.typing import Relation


class NeighborSampler(BlockSampler):
    """Draws neighbours of nodes, layer by layer, and their neighbours.

    Two forms: DGL 2.1's, and that of DGL 0.5's example, ``NeighborSampler(g, fanouts, sample_neighbors, device)``, whose fanouts
    count from the seeds, and whose ``sample_blocks(seeds)`` returns the blocks alone.

    Args:
        fanouts: edges of each node, by layer, the input's first; -1 for all. For each layer a number, or a dict by relation.
        edge_dir: "in".
        prob: a column of the edges with weights to draw by.
        mask: a bool column of the edges; those where it is False are not drawn.
        replace: whether an edge may be drawn more than once.
        prefetch_node_feats, prefetch_labels, prefetch_edge_feats, output_device: as of `BlockSampler`.
        fused: changes nothing.

    Raises:
        InputError: both `prob` and `mask`, or `edge_dir` is "out".

    Example:
        >>> import halohop.dgl as dgl
        >>> g = dgl.graph(([0, 1, 2, 3], [1, 2, 3, 0]))
        >>> loader = dgl.dataloading.DataLoader(g, [2, 0], dgl.dataloading.NeighborSampler([5, 5]), batch_size=2)
        >>> input_nodes, output_nodes, blocks = next(iter(loader))
        >>> input_nodes.tolist(), output_nodes.tolist(), [block.num_edges() for block in blocks]
        ([2, 0, 1, 3], [2, 0], [4, 2])
    """

    method = "neighbor"

    def __init__(
        self,
        fanouts: Any,
        edge_dir: Any = "in",
        prob: Any = None,
        mask: Any = None,
        replace: bool = False,
        prefetch_node_feats: Names = None,
        prefetch_labels: Names = None,
        prefetch_edge_feats: Names = None,
        output_device: Any = None,
        fused: bool = True,
    ) -> None:
        self._graph = self._sample_neighbors = None
        if hasattr(fanouts, "ndata"):
            self._graph, from_seeds, self._sample_neighbors, output_device = fanouts, edge_dir, prob, mask or output_device
            fanouts, edge_dir, prob, mask = list(reversed(from_seeds)), "in", None, None
        super().__init__(
            len(fanouts),
            prefetch_node_feats=prefetch_node_feats,
            prefetch_labels=prefetch_labels,
            prefetch_edge_feats=prefetch_edge_feats,
            output_device=output_device,
        )
        check_name(prob)
        if prob is not None and mask is not None:
            raise InputError(f"prob={prob!r} and mask={mask!r} are both given; give one column, of weights that are 0 where not")
        if edge_dir != "in":
            raise InputError(f"edge_dir={edge_dir!r}: blocks lead to the nodes that are asked for; sample from dgl.reverse(g)")
        self.fanouts, self.edge_dir, self.replace = list(fanouts), edge_dir, replace
        self.prob, self.mask = prob, mask

    @property
    def weight(self) -> str | None:
        """The column that is drawn by."""
        column: str | None = self.prob or self.mask
        return column

    @property
    def samples_itself(self) -> bool:
        """Whether it calls a function of the user's (the form of DGL 0.5)."""
        return self._graph is not None

    def by_relation(self, g: Any) -> dict[Relation, list[int]]:
        """For each relation the edges of each node, the seeds' first."""
        named = [fanouts_of(g, fanout) for fanout in reversed(self.fanouts)]
        return {relation: [fanouts.get(relation, 0) for fanouts in named] for relation in g.canonical_etypes}

    def sample_blocks(self, g: Any, seed_nodes: Any = None, exclude_eids: Any = None) -> Any:
        if self._graph is not None and seed_nodes is None:
            return self._blocks_of_frontiers(torch.as_tensor(g))
        blocks: list[DGLBlock] = []
        nodes = node_ids(g, seed_nodes)
        how = {"prob": self.weight, "replace": self.replace, "method": self.method, "exclude": exclude_eids}
        for fanout in reversed(self.fanouts):
            edges = drawn(g, nodes, fanout, **how)
            blocks.insert(0, block_of(g, edges, nodes))
            nodes = {kind: blocks[0].srcnodes[kind].data[NID].long() for kind in blocks[0].srctypes}
        moved = blocks if self.output_device is None else [block.to(self.output_device) for block in blocks]
        return as_given(g, nodes), seed_nodes, moved

    def _blocks_of_frontiers(self, seeds: Any) -> list[DGLBlock]:
        blocks: list[DGLBlock] = []
        assert self._sample_neighbors is not None
        for fanout in reversed(self.fanouts):
            frontier = self._sample_neighbors(self._graph, seeds, fanout, replace=self.replace)
            blocks.insert(0, block_of_frontier(frontier, seeds))
            seeds = blocks[0].srcdata[NID]
        return blocks if self.output_device is None else [block.to(self.output_device) for block in blocks]


class MultiLayerNeighborSampler(NeighborSampler):
    """`NeighborSampler` by its older name, with the column of weights as `prob`."""


class MultiLayerFullNeighborSampler(NeighborSampler):
    """Takes all neighbours, layer by layer.

    Args:
        num_layers: how many blocks a batch has.
        kwargs: as of `NeighborSampler`.

    Example:
        >>> MultiLayerFullNeighborSampler(2).fanouts
        [-1, -1]
    """

    def __init__(self, num_layers: int, **kwargs: Any) -> None:
        super().__init__([-1] * num_layers, **kwargs)


class LaborSampler(NeighborSampler):
    """Draws as many neighbours of each node, but those of a layer choose alike, so that a batch has fewer nodes (LABOR-0).

    Args:
        fanouts, edge_dir, prob, kwargs: as of `NeighborSampler`.
        importance_sampling: 0.
        layer_dependency: False.
        batch_dependency: 1.

    Raises:
        InputError: other ways to draw.
    """

    method = "labor"

    def __init__(
        self,
        fanouts: Sequence[int | Mapping[Any, int]],
        edge_dir: str = "in",
        prob: str | None = None,
        importance_sampling: int = 0,
        layer_dependency: bool = False,
        batch_dependency: int = 1,
        **kwargs: Any,
    ) -> None:
        given = {"importance_sampling": importance_sampling, "batch_dependency": batch_dependency - 1}
        for name, value in {**given, "layer_dependency": layer_dependency}.items():
            if value:
                raise InputError(
                    f"{name} of LaborSampler is not offered; halohop.NeighborLoader(method='labor') has what there is"
                )
        super().__init__(fanouts, edge_dir, prob, **kwargs)
