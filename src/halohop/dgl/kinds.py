"""What types of nodes and edges are asked, wherever a graph lies."""

from collections.abc import Collection
from typing import Any

from halohop.errors import SchemaError
from halohop.typing import Relation


class Kinds:
    """Types of nodes and edges, by DGL's names.

    Attributes:
        ntypes: the types of nodes; of a block, those of sources and then those of destinations.
        canonical_etypes: the relations: type of the source, name, type of the destination.
    """

    ntypes: Any
    canonical_etypes: Any

    @property
    def etypes(self) -> list[str]:
        """The names of the relations."""
        return [name for _, name, _ in self.canonical_etypes]

    @property
    def is_homogeneous(self) -> bool:
        """Whether there is one type of nodes and one of edges."""
        return len(self.ntypes) == len(self.canonical_etypes) == 1

    def to_canonical_etype(self, etype: str | Relation | None) -> Relation:
        """A relation by its name or its three parts, of which ``:`` is any, or None for the only one.

        Raises:
            SchemaError: there is none of this name, or more than one.
        """
        wanted = tuple(etype) if isinstance(etype, list) else etype
        found: list[Relation] = [known for known in self.canonical_etypes if wanted in (None, known[1]) or _says(wanted, known)]
        if len(found) != 1:
            asked = "no relation is given" if etype is None else f"{etype!r} names {len(found)} relations"
            raise SchemaError(f"{asked}, and there are {self.canonical_etypes}; name one by its three parts")
        return found[0]

    def get_ntype_id(self, ntype: str | None) -> int:
        """The place of a type of nodes among `ntypes`."""
        place: int = self.ntypes.index(only(self.ntypes, ntype))
        return place

    def get_etype_id(self, etype: str | Relation | None) -> int:
        """The place of a relation among `canonical_etypes`."""
        place: int = self.canonical_etypes.index(self.to_canonical_etype(etype))
        return place


def only(counts: Collection[str], ntype: str | None) -> str:
    """A type by its name, or None for the only one.

    Raises:
        SchemaError: there is no such type, or no name and several types.
    """
    if ntype is None and len(counts) == 1:
        return next(iter(counts))
    if ntype is None or ntype not in counts:
        asked = "no type of nodes is given" if ntype is None else f"there is no type {ntype!r} of nodes"
        raise SchemaError(f"{asked}, and there are {list(counts)}; name one")
    return ntype


def _says(etype: Any, relation: Relation) -> bool:
    """Whether three parts are those of a relation; ``:`` is any."""
    parts = etype if isinstance(etype, tuple) and len(etype) == 3 else ()
    return bool(parts) and all(isinstance(part, slice) or part == name for part, name in zip(parts, relation, strict=True))
