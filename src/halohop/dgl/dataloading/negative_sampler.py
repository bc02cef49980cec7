"""Pairs of nodes that a model is to tell from edges: `dgl.dataloading.negative_sampler`."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from torch import Tensor

import halohop
from halohop.dgl.ids import edge_ids
from halohop.dgl.sampling import batch_of
from halohop.typing import Relation

Pairs = tuple[Tensor, Tensor]
"""Ids of sources and of destinations."""


class NegativeSampler(ABC):
    """Draws pairs for the edges of a batch; they are a function of seed, epoch and batch."""

    def __call__(self, g: Any, eids: Any) -> Any:
        """Sources and destinations, or by relation.

        Args:
            g: the graph.
            eids: ids of the edges of a batch ``[n]``, or by relation.
        """
        found = {relation: self._generate(g, ids, relation) for relation, ids in edge_ids(g, eids).items()}
        return found if isinstance(eids, Mapping) else next(iter(found.values()))

    @abstractmethod
    def _generate(self, g: Any, eids: Tensor, canonical_etype: Relation) -> Pairs:
        """The pairs for some edges of a relation."""


class PerSourceUniform(NegativeSampler):
    """For each edge, pairs of its source with nodes that are drawn uniformly. A pair may be an edge.

    Args:
        k: how many for each edge.

    Example:
        >>> import halohop.dgl as dgl
        >>> g = dgl.graph(([0, 1, 2, 3], [1, 2, 3, 0]))
        >>> dgl.dataloading.negative_sampler.Uniform(2)(g, [3, 1])[0].tolist()
        [3, 3, 1, 1]
    """

    def __init__(self, k: int) -> None:
        self.k = k

    def _generate(self, g: Any, eids: Tensor, canonical_etype: Relation) -> Pairs:
        draws = batch_of(g).draws(g)
        src, _ = ends_of(g, {canonical_etype: eids})[canonical_etype]
        kind = None if draws.graph.schema.is_homogeneous else canonical_etype[2]
        return src.repeat_interleave(self.k), draws.uniform(self.k * len(src), kind).to(g.idtype)


Uniform = PerSourceUniform


class GlobalUniform(NegativeSampler):
    """Pairs that are no edges, drawn uniformly.

    Args:
        k: how many for each edge of a batch; fewer, where pairs that are left out were drawn.
        exclude_self_loops: leaves out pairs of a node with itself.
        replace: whether a pair may be drawn more than once.

    Raises (when called):
        InputError: every pair is an edge.
    """

    def __init__(self, k: int, exclude_self_loops: bool = True, replace: bool = False) -> None:
        self.k, self.exclude_self_loops, self.replace = k, exclude_self_loops, replace

    def _generate(self, g: Any, eids: Tensor, canonical_etype: Relation) -> Pairs:
        draws = batch_of(g).draws(g)
        relation = None if draws.graph.schema.is_homogeneous else canonical_etype
        sampler = halohop.HalohopSampler(draws.graph, [], seed=draws.seed)
        sampler.set_epoch(draws.epoch)
        pairs = sampler.sample_negatives(self.k * len(eids), relation, batch=draws.batch)
        if self.exclude_self_loops and canonical_etype[0] == canonical_etype[2]:
            pairs = pairs[:, pairs[0] != pairs[1]]
        if not self.replace:
            pairs = pairs.unique(dim=1)
        src, dst = pairs.to(g.idtype)
        return src, dst


def ends_of(g: Any, eids: Mapping[Relation, Tensor]) -> dict[Relation, Pairs]:
    """Sources and destinations of edges by relation, in the dtype of the graph's ids; of all relations in one request."""
    draws = batch_of(g).draws(g)
    if draws.graph.schema.is_homogeneous:
        found = {relation: draws.edges(ids) for relation, ids in eids.items()}
    else:
        found = draws.edges(eids)
    return {relation: (found[relation].src.to(g.idtype), found[relation].dst.to(g.idtype)) for relation in eids}
