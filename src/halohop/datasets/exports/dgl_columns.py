"""The columns of a partition as DGL has them, a piece at a time."""

import math
from collections.abc import Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from halohop.datasets.exports.dgl_files import Streamed, is_known
from halohop.errors import InputError
from halohop.ops import Pool, SparseRows
from halohop.ops.sparse import SparsePieces
from halohop.partitioning.building.columns import Given
from halohop.store.part import EdgePart, NodePart
from halohop.store.schema import ColumnSpec
from halohop.typing import RESERVED, TableKey

CHUNK_BYTES = 32 << 20
_FORBIDDEN = "/:~"  # what DGL divides names by


def check_columns(table: TableKey, columns: dict[str, ColumnSpec], counts: Sequence[int]) -> None:
    """
    Args:
        table, columns: what there is.
        counts: of rows in each partition.

    Raises:
        InputError: DGL has no columns of such a dtype, or of such a name.
    """
    for word in (table,) if isinstance(table, str) else table:
        _check_name(word, "type")
    for name, spec in columns.items():
        _check_name(name, "column")
        if spec.dtype == "bfloat16" and (
            empty := [part for part, count in enumerate(counts) if not count * math.prod(spec.shape)]
        ):
            raise InputError(
                f"partition {empty[0]} has no numbers of the bfloat16 column {name!r} of {table}, which DGL does not load; "
                "partition the graph with float16 or float32"
            )
        if not is_known(getattr(torch, spec.dtype)):
            raise InputError(
                f"column {name!r} of {table} is {spec.dtype}, which DGL has not; partition the graph with another dtype of it"
            )


def _check_name(name: str, what: str) -> None:
    if found := [sign for sign in _FORBIDDEN if sign in name]:
        raise InputError(
            f"the {what} {name!r} has a {found[0]!r}, by which DGL divides names; partition the graph with another name"
        )


def columns_of(rows: NodePart | EdgePart, specs: dict[str, ColumnSpec]) -> dict[str, Streamed]:
    """All columns of a table in a partition; those that are stored sparse, or narrowed, as the user gave them."""
    count = rows.num_nodes if isinstance(rows, NodePart) else rows.num_edges
    sparse = rows.sparse if isinstance(rows, NodePart) else {}
    return {
        name: Streamed(
            dtype=getattr(torch, spec.dtype),
            shape=(count, *spec.shape),
            pieces=partial(_sparse, sparse[name], spec) if spec.sparse else partial(_dense, rows.columns[name], spec),
        )
        for name, spec in specs.items()
        if not name.startswith(RESERVED)
    }


def old_ids(ids: Tensor | None, first: int, last: int) -> Streamed:
    """The ids that rows have here; from `first` to ``last - 1`` where they are not stored, being the gids themselves."""

    def chunks() -> Iterator[Tensor]:
        if ids is None:
            yield from (torch.arange(first + begin, first + end) for begin, end in spans(last - first))
        else:
            yield from (some.long() for some in pieces(ids))

    return Streamed(dtype=torch.int64, shape=(last - first,), pieces=chunks)


def pieces(column: Tensor) -> Iterator[Tensor]:
    """The rows of a column, some after others; what is mapped is given back to its file."""
    given = Given.of(column)
    for first, last in spans(len(column), column.dtype.itemsize * math.prod(column.shape[1:])):
        yield given.rows(first, last)(0, last - first, None)
        given.release(first, last)


def spans(count: int, row_bytes: int = 8) -> Iterator[tuple[int, int]]:
    """The first row of each piece, and the one behind its last."""
    step = max(CHUNK_BYTES // max(row_bytes, 1), 1)
    for first in range(0, count, step):
        yield first, min(first + step, count)


def _dense(column: Tensor, spec: ColumnSpec) -> Iterator[Tensor]:
    pool = Pool()
    for rows in pieces(column):
        yield spec.as_given(rows, pool)


def _sparse(rows: SparseRows, spec: ColumnSpec) -> Iterator[Tensor]:
    found, pool = SparsePieces([rows], [0, len(rows)]), Pool()
    for first, last in spans(len(rows), 8 * rows.width):
        yield spec.as_given(found.take(torch.arange(first, last)).dense(), pool)
