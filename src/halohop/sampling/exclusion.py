"""The edges that a batch is about, left out of what is sampled around them: a model must not read what it is to predict."""

from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from halohop.cluster.graph import Graph
from halohop.errors import SchemaError
from halohop.sampling.link_seeds import LinkSeeds
from halohop.sampling.subgraph import Partners
from halohop.store.schema import Schema
from halohop.typing import Relation


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedEdges:
    """Excludes the seed edges of a batch with all their copies, and their reverses; others are drawn in their place.

    Args:
        graph: where the edges are.
        relation: of the seed edges.
        reverse: the relation that holds the same edges the other way round; None if there is none.
        flips: of bidirectional subgraphs, which relation's flips each relation gets. What would come back as a flip is not drawn
            there either.
    """

    graph: Graph
    relation: Relation
    reverse: Relation | None
    flips: Partners = field(default_factory=dict)

    def __call__(self, links: LinkSeeds) -> LinkSeeds:
        pairs = [(relation, *self._ends(links, turned)) for relation, turned in self._excluded()]
        excluded = dict.fromkeys((relation for relation, _, _ in pairs), torch.empty(0, dtype=torch.int64))
        for (relation, _, _), answer in zip(pairs, self.graph.find(pairs), strict=True):
            excluded[relation] = torch.from_numpy(np.union1d(excluded[relation].numpy(), answer.edge_gid.numpy()))
        return replace(links, excluded=excluded)

    def _excluded(self) -> list[tuple[Relation, bool]]:
        """The relations to look into, and whether the seed edges are turned around there."""
        places = [(self.relation, False)]
        if self.reverse is not None:
            places.append((self.reverse, True))
        if self.flips:
            places += [(self.flips[relation], not turned) for relation, turned in places]
        return list(dict.fromkeys(places))

    def _ends(self, links: LinkSeeds, turned: bool) -> tuple[Tensor, Tensor]:
        src_gid, dst_gid = links.src_gid[: links.num_pos], links.dst_gid[: links.num_pos]
        return (dst_gid, src_gid) if turned else (src_gid, dst_gid)


def check_reverse(schema: Schema, relation: Relation, reverse: Relation) -> Relation:
    """`reverse`, if it joins the same types the other way round.

    Raises:
        SchemaError: it does not, or there is no such relation.
    """
    reverse = schema.relation(reverse)
    if (reverse[0], reverse[2]) != (relation[2], relation[0]):
        raise SchemaError(f"{reverse} cannot be the reverse of {relation}: it must lead from {relation[2]!r} to {relation[0]!r}")
    return reverse
