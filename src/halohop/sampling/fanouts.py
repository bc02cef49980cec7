"""How many neighbours to draw: one number per relation and hop."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from halohop.errors import InputError
from halohop.store.schema import Schema
from halohop.typing import Relation


@dataclass(frozen=True, slots=True, kw_only=True)
class Fanouts:
    """Fanouts of every relation; -1 draws all neighbours, 0 none.

    Raises:
        InputError: the relations differ in their number of hops, or a fanout is not a whole number >= -1.

    Example:
        >>> Fanouts(per_relation={("a", "to", "b"): (10, 5), ("b", "to", "a"): (10, 0)}).num_hops
        2
    """

    per_relation: dict[Relation, tuple[int, ...]]

    def __post_init__(self) -> None:
        hops = {relation: len(fanouts) for relation, fanouts in self.per_relation.items()}
        if len(set(hops.values())) > 1:
            raise InputError(f"every relation needs the same number of hops (fill up with 0), got {hops}")
        for relation, fanouts in self.per_relation.items():
            for fanout in fanouts:
                whole_fanout(fanout, relation)

    @classmethod
    def uniform(cls, fanouts: Sequence[int], schema: Schema) -> "Fanouts":
        """The same fanouts for every relation."""
        return cls(per_relation=dict.fromkeys(schema.edges, tuple(fanouts)))

    @classmethod
    def by_relation(cls, fanouts: Mapping[Relation, Sequence[int]], schema: Schema) -> "Fanouts":
        """Each relation's own, in the schema's order.

        Raises:
            SchemaError: an unknown relation.
            InputError: a relation has no fanouts.
        """
        given = {schema.relation(relation): tuple(values) for relation, values in fanouts.items()}
        missing = [relation for relation in schema.edges if relation not in given]
        if missing:
            raise InputError(f"no fanouts for {missing}; give every relation its own, zeros to leave it out")
        return cls(per_relation={relation: given[relation] for relation in schema.edges})

    @property
    def sampled(self) -> list[Relation]:
        """The relations whose neighbors are sampled."""
        return [relation for relation, fanouts in self.per_relation.items() if any(fanouts)]

    @property
    def num_hops(self) -> int:
        return max((len(fanouts) for fanouts in self.per_relation.values()), default=0)


def whole_fanout(fanout: object, relation: Relation) -> int:
    """A fanout of a relation, if it is one.

    Raises:
        InputError: it is none.
    """
    if isinstance(fanout, bool) or not isinstance(fanout, int) or fanout < -1:
        raise InputError(f"fanout {fanout!r} of {relation} is not a whole number >= -1 (-1 draws all neighbours)")
    return fanout
