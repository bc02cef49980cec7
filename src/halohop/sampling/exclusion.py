"""The edges that a batch is about, left out of what is sampled around them: a model must not read what it is to predict."""

from dataclasses import dataclass, replace

import torch

from halohop.cluster.graph import Graph
from halohop.errors import SchemaError
from halohop.sampling.links import LinkSeeds
from halohop.store.schema import Schema
from halohop.typing import Relation

_REVERSE = "rev_"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedEdges:
    """Excludes the seed edges of a batch with all their copies, and their reverses; others are drawn in their place.

    Args:
        graph: where the edges are.
        relation: of the seed edges.
        reverse: the relation that holds the same edges the other way round; None if there is none.
    """

    graph: Graph
    relation: Relation
    reverse: Relation | None

    def __call__(self, links: LinkSeeds) -> LinkSeeds:
        src_gid, dst_gid = (gid[: links.num_pos] for gid in (links.src_gid, links.dst_gid))
        pairs = [(self.relation, src_gid, dst_gid)]
        if self.reverse is not None:
            pairs.append((self.reverse, dst_gid, src_gid))
        found = zip((relation for relation, _, _ in pairs), self.graph.find(pairs), strict=True)
        excluded = dict.fromkeys((relation for relation, _, _ in pairs), torch.empty(0, dtype=torch.int64))
        for relation, answer in found:
            excluded[relation] = torch.cat([excluded[relation], answer.edge_gid]).unique()
        return replace(links, excluded=excluded)


def reverse_of(schema: Schema, relation: Relation) -> Relation | None:
    """The relation with the ends changed over and "rev_" before the name, or without it; between nodes of one type else itself.

    Raises:
        SchemaError: the graph has no such relation.

    Example:
        >>> from halohop.store.schema import Schema, TableSpec
        >>> nothing = TableSpec(count=0, columns={})
        >>> reverse_of(Schema(nodes={"n": nothing}, edges={("n", "to", "n"): nothing}), ("n", "to", "n"))
        ('n', 'to', 'n')
    """
    src_type, name, dst_type = schema.relation(relation)
    for reverse in (_REVERSE + name, name.removeprefix(_REVERSE)):
        key = (dst_type, reverse, src_type)
        if reverse != name and key in schema.edges:
            return key
    return relation if src_type == dst_type else None


def check_reverse(schema: Schema, relation: Relation, reverse: Relation) -> Relation:
    """`reverse`, if it joins the same types the other way round.

    Raises:
        SchemaError: it does not, or there is no such relation.
    """
    reverse = schema.relation(reverse)
    if (reverse[0], reverse[2]) != (relation[2], relation[0]):
        raise SchemaError(f"{reverse} cannot be the reverse of {relation}: it must lead from {relation[2]!r} to {relation[0]!r}")
    return reverse
