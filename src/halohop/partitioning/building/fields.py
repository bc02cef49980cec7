"""What is stored of a table: its columns, the files that they become in each partition, and how rows get there."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field

import torch
from torch import Tensor

from halohop.partitioning.building.columns import Column, Given, Numbers, Rows, Shifted, row_bytes
from halohop.partitioning.building.edges import EdgeColumns
from halohop.partitioning.building.nodes import NodeColumns
from halohop.store.filling import ArraySpec, Filler
from halohop.store.manifest import (
    BLOCK_FILE,
    EDGE_ID_FILE,
    INDICES,
    INDPTR,
    RAW_ID_FILE,
    column_file,
    halo_file,
    structure_file,
)
from halohop.typing import EDGE_ID, RESERVED, NodeType, Relation, TableKey

PIECE_BYTES = 16 << 20
"""About how much of a column is copied before it is written."""

Paths = Callable[[int], str]
"""The path of a partition's file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A column of a table that is stored in the partitions.

    Args:
        name: of it, unique in the table.
        path: of its files.
        column: in the order of the table.
    """

    name: str
    path: Paths
    column: Column

    def array(self, part: int, bounds: Sequence[int]) -> ArraySpec:
        """Its file in a partition; `bounds` are those of the partitions' rows."""
        shape = (bounds[part + 1] - bounds[part], *self.column.shape)
        return ArraySpec(path=self.path(part), dtype=self.column.dtype, shape=shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table that is to be stored.

    Args:
        key: of the table.
        num_rows: how many it has.
        bounds: gids of the partitions' nodes, by which rows are ordered.
        by: the gid by which each row is ordered; rows of one gid keep the order of the table.
        fields: what is stored.
        times: names of fields of which it is noted whether they fall within the list of a gid.
        lists: whether a gid has a list of rows, and not one row.
        halo: names and dtypes of fields that are another node's.
    """

    key: TableKey
    num_rows: int
    bounds: tuple[int, ...]
    by: Column
    fields: tuple[Field, ...]
    times: frozenset[str] = frozenset()
    lists: bool = False
    halo: dict[str, torch.dtype] = dataclass_field(default_factory=dict)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row, with its gid."""
        return row_bytes(self.by) + sum(row_bytes(field.column) for field in self.fields)

    @property
    def widest(self) -> int:
        """Bytes of the longest row of a field."""
        return max((row_bytes(field.column) for field in self.fields), default=0)

    def part(self, first: int, last: int) -> "Table":
        """The rows from `first` to ``last - 1`` as a table."""
        fields = tuple(replace(own, column=Shifted(column=own.column, first=first)) for own in self.fields)
        return replace(self, num_rows=last - first, by=Shifted(column=self.by, first=first), fields=fields)

    def ends(self, part: int) -> ArraySpec:
        """The file that says where the lists of a partition begin: the first one at 0."""
        count = self.bounds[part + 1] - self.bounds[part]
        return ArraySpec(path=structure_file(part, self.key, INDPTR), dtype=torch.int64, shape=(count + 1,), zeros=1)

    def arrays(self, bounds: Sequence[int], *, with_id: bool = True) -> Iterator[tuple[int, ArraySpec]]:
        """Partition and file of everything that is stored.

        Args:
            bounds: of the partitions' rows.
            with_id: whether the numbers of rows are.
        """
        for part in range(len(bounds) - 1):
            if self.lists:
                yield part, self.ends(part)
            for field in self.fields:
                if with_id or field.name != EDGE_ID:
                    yield part, field.array(part, bounds)


def node_table(name: NodeType, own: NodeColumns) -> Table:
    """The dense columns of the nodes of a type."""
    structure = {RAW_ID_FILE: own.raw_id, BLOCK_FILE: own.block}
    fields = [
        Field(name=f"{RESERVED}{file}", path=_structure(name, file), column=column)
        for file, column in structure.items()
        if column is not None
    ]
    fields += [Field(name=key, path=_column(name, key), column=column) for key, column in own.columns.items()]
    by: Column = Numbers(dtype=torch.int64) if own.order.gid is None else Given(tensor=own.order.gid)
    return Table(key=name, num_rows=own.num_nodes, bounds=own.order.bounds, by=by, fields=tuple(fields))


def edge_table(relation: Relation, own: EdgeColumns) -> Table:
    """The edges of a relation."""
    structure = {INDICES: own.indices, EDGE_ID_FILE: own.edge_id}
    fields = [
        Field(name=f"{RESERVED}{file}", path=_structure(relation, file), column=column) for file, column in structure.items()
    ]
    fields += [Field(name=key, path=_column(relation, key), column=column) for key, column in own.columns.items()]
    fields += [Field(name=key, path=_halo(relation, key), column=column) for key, column in own.halo.items()]
    return Table(
        key=relation,
        num_rows=own.num_edges,
        bounds=own.bounds,
        by=own.key,
        fields=tuple(fields),
        times=own.times,
        lists=True,
        halo={key: column.dtype for key, column in own.halo.items()},
    )


def cut(first: int, last: int, bounds: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """The partitions of the gids from `first` to ``last - 1``, and their gids among these: first and end."""
    for part in range(len(bounds) - 1):
        low, high = max(first, bounds[part]), min(last, bounds[part + 1])
        if low < high:
            yield part, low, high


def place(
    field: Field,
    rows: Rows,
    order: Tensor | None,
    run: tuple[int, int, int],
    bounds: Sequence[int],
    filler: Filler,
) -> None:
    """Writes a run of rows: those at the places from `begin` to ``end - 1`` have consecutive numbers in the data set.

    Args:
        field: which column.
        rows, order: its rows, see `halohop.partitioning.building.columns.Rows`.
        run: the number of the first row, and its places `begin` and `end`.
        bounds: of the partitions' rows.
        filler: writes them.
    """
    first, begin, end = run
    step = max(PIECE_BYTES // max(row_bytes(field.column), 1), 1)
    for part, low, high in cut(first, first + end - begin, bounds):
        array = field.array(part, bounds)
        for at in range(low, high, step):
            stop = min(at + step, high)
            filler.write(array, at - bounds[part], rows(begin + at - first, begin + stop - first, order))


def _structure(key: TableKey, file: str) -> Paths:
    return lambda part: structure_file(part, key, file)


def _column(key: TableKey, name: str) -> Paths:
    return lambda part: column_file(part, key, name)


def _halo(relation: Relation, name: str) -> Paths:
    return lambda part: halo_file(part, relation, name)
