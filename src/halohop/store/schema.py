"""What a graph is made of: types, counts and columns, without a single row."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from halohop.errors import InputError, SchemaError
from halohop.ops import Narrow, Pool, fill_missing, widened
from halohop.typing import EDGE, NODE, NodeType, Relation, TableKey

REVERSE = "rev_"
"""What begins the name of a relation that holds the edges of another the other way round, by PyG's convention."""

SPLITS = {"train": "train", "training": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}
"""The standard name of a split, by each name that it may have."""


def find_split(stored: Collection[str], name: str) -> str | None:
    """Finds the stored split that has this name, or a name with the same meaning in `SPLITS`; None if there is none.

    Example:
        >>> find_split(["train", "val"], "valid"), find_split(["train", "valid"], "val"), find_split(["train"], "test")
        ('val', 'valid', None)
    """
    if name in stored:
        return name
    return next((split for split in stored if SPLITS.get(split, split) == SPLITS.get(name, name)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSpec:
    """One column.

    Args:
        dtype: torch's name of it (``"float32"``).
        shape: of one row, ``()`` for a scalar.
        names: of the values 0, 1, 2, ... where the user's were strings: classes.
        sparse: whether only entries that are not zero are stored.
        stored: how its numbers are stored, and sent, where that takes fewer bytes than `dtype`.
    """

    dtype: str
    shape: tuple[int, ...]
    names: tuple[str, ...] = ()
    sparse: bool = False
    stored: Narrow | None = None

    @property
    def is_complex(self) -> bool:
        """True if its numbers have an imaginary part."""
        return bool(getattr(torch, self.dtype).is_complex)

    @property
    def stored_dtype(self) -> str:
        """What its numbers are stored as."""
        return self.dtype if self.stored is None else self.stored.dtype

    def as_given(self, rows: Tensor, pool: Pool, *, places: Tensor | None = None) -> Tensor:
        """Rows in the user's dtype, from rows as they are stored; others stay as they are.

        Args:
            rows: ``[n, ...]``.
            pool: where the memory of the result comes from.
            places: of padded rows, int64 ``[n]``: where one is -1, there is no row, but zeros.
        """
        if self.stored is None or str(rows.dtype) == f"torch.{self.dtype}":
            return rows
        wide = widened(rows, self.stored, getattr(torch, self.dtype), pool=pool)
        if places is not None:
            fill_missing(wide, places)
        return wide

    @classmethod
    def of(cls, column: Tensor, names: tuple[str, ...] = (), stored: Narrow | None = None) -> "ColumnSpec":
        dtype, sparse = str(column.dtype).removeprefix("torch."), column.layout != torch.strided
        return cls(dtype=dtype, shape=tuple(column.shape[1:]), names=names, sparse=sparse, stored=stored)


def specs_of(
    columns: Mapping[str, Tensor], names: Mapping[str, tuple[str, ...]], stored: Mapping[str, Narrow] | None = None
) -> dict[str, ColumnSpec]:
    """Of columns by name; `names` are the texts behind the values of some, `stored` how some are stored in fewer bytes."""
    return {name: ColumnSpec.of(column, names.get(name, ()), (stored or {}).get(name)) for name, column in columns.items()}


def check_numbers(spec: ColumnSpec | None, dtypes: Collection[torch.dtype], what: str, name: str | None, table: TableKey) -> None:
    """
    Raises:
        InputError: a column, if there is one, does not hold a number of one of these dtypes for each row.
    """
    if spec is not None and (spec.shape or getattr(torch, spec.dtype) not in dtypes):
        kinds = ", ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
        raise InputError(
            f"{what} {name!r} of {table!r} are {spec.dtype} with rows of shape {spec.shape}; "
            f"store one number for each row, of {kinds}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSpec:
    """The rows of one node type, or of one relation: how many, and which columns."""

    count: int
    columns: dict[str, ColumnSpec]

    @property
    def given(self) -> dict[str, ColumnSpec]:
        """The columns, however they are stored."""
        return {name: replace(spec, stored=None) for name, spec in self.columns.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """Node types and relations of a graph; their order is the user's and the same on every host."""

    nodes: dict[NodeType, TableSpec]
    edges: dict[Relation, TableSpec]

    @property
    def tables(self) -> tuple[TableKey, ...]:
        """All node types, then all relations."""
        return (*self.nodes, *self.edges)

    @property
    def edge_columns(self) -> dict[Relation, dict[str, ColumnSpec]]:
        """The columns of each relation."""
        return {relation: spec.columns for relation, spec in self.edges.items()}

    def table(self, key: TableKey) -> TableSpec:
        """The rows of a node type or relation that there is."""
        return self.nodes[key] if isinstance(key, str) else self.edges[key]

    def node_type(self, name: str | None) -> NodeType:
        """The node type called `name`; with None the only one there is.

        Raises:
            SchemaError: there is no such type, or None was given and there are several.
        """
        if name is None and len(self.nodes) == 1:
            return next(iter(self.nodes))
        if name is None:
            raise SchemaError(f"this graph has several node types, name one of {list(self.nodes)}")
        if name not in self.nodes:
            raise SchemaError(f"unknown node type {name!r}; known: {list(self.nodes)}")
        return name

    def relation(self, relation: Iterable[str]) -> Relation:
        """The relation equal to `relation`, checked; a string is its three names, joined by two underscores, as PyG writes them.

        Raises:
            SchemaError: the graph has no such relation.
        """
        key = tuple(relation) if isinstance(relation, Iterable) and not isinstance(relation, str) else relation
        found = [known for known in self.edges if key in (known, "__".join(known))]
        if len(found) != 1:
            raise SchemaError(f"unknown relation {key!r}; known: {list(self.edges)}")
        return found[0]

    @property
    def is_homogeneous(self) -> bool:
        """Whether there are one node type and one relation, under their default names: batches are then PyG `Data`."""
        return list(self.nodes) == [NODE] and list(self.edges) == [EDGE]

    @property
    def has_one_relation(self) -> bool:
        """True if there are one node type and one relation, whatever their names."""
        return len(self.nodes) == len(self.edges) == 1

    def reverse_of(self, relation: Relation) -> Relation | None:
        """The relation that holds the same edges the other way round, by PyG's convention: ("b", "rev_to", "a") is the reverse of
        ("a", "to", "b"), and that of it. Between nodes of one type a relation without such a partner is its own reverse; else
        there is none.

        Raises:
            SchemaError: the graph has no such relation.

        Example:
            >>> nothing = TableSpec(count=0, columns={})
            >>> Schema(nodes={"n": nothing}, edges={("n", "to", "n"): nothing}).reverse_of(("n", "to", "n"))
            ('n', 'to', 'n')
        """
        relation = self.relation(relation)
        partners: dict[Relation, Relation] = {}
        for known in sorted(self.edges, key=lambda key: len(key[1])):  # "to" takes "rev_to" before "rev_to" takes "rev_rev_to"
            flipped = (known[2], REVERSE + known[1], known[0])
            if flipped in self.edges and known not in partners:
                partners[known], partners[flipped] = flipped, known
        return partners.get(relation, relation if relation[0] == relation[2] else None)

    def splits(self, table: TableKey) -> tuple[str, ...]:
        """Names of the stored splits of a node type or relation: "train" is the bool column "train_mask" (one bool per row)."""
        return tuple(
            name.removesuffix("_mask")
            for name, spec in self.table(table).columns.items()
            if name.endswith("_mask") and spec.dtype == "bool" and spec.shape == ()
        )

    def has_split(self, table: TableKey, name: str) -> bool:
        """True if `split` finds a stored split."""
        return find_split(self.splits(table), name) is not None

    def split(self, table: TableKey, name: str) -> str:
        """The stored split that a name means, by its own name or another one of `SPLITS`.

        Raises:
            SchemaError: there is none.
        """
        if (split := find_split(self.splits(table), name)) is None:
            raise SchemaError(
                f"node type {table!r} has no split {name!r}; stored splits: {list(self.splits(table))}; to store one, "
                f"set bools per node as data.{name}_mask before partitioning, or pass ids"
            )
        return split
