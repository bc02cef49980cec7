"""A new table of an owner's partitions: what is asked for is checked, then its arrays are made."""

from contextlib import ExitStack
from pathlib import Path

from torch import Tensor

from halohop.errors import InputError, SchemaError
from halohop.partitioning.book import Book
from halohop.store.part import EdgePart, NodePart, Part
from halohop.tables.arrays import make_arrays
from halohop.tables.beginnings import Begins, beginnings_of
from halohop.tables.held import Piece
from halohop.tables.spec import MAX_NAME, TableSpec
from halohop.tables.table import Table


def make_table(spec: TableSpec, book: Book, parts: dict[int, Part], folder: Path | None) -> Table:
    """The table's rows in these partitions, as they begin.

    Raises:
        SchemaError: no such node type, relation or stored column.
        InputError: another number of rows than nodes or edges, a shape or dtype that cannot be, no folder for a table on disk.
        WriteError: the disk has no room for it. Nothing is left then.
    """
    _check(spec, book)
    bounds = spec.bounds(book)
    pieces = []
    with ExitStack() as undo:
        for number, part in parts.items():
            count = bounds[number + 1] - bounds[number]
            begins = begins_of(spec, book, number, part)
            arrays = make_arrays(spec, count, folder=folder)
            undo.callback(arrays.close)
            pieces.append(Piece(part=number, arrays=arrays, begins=begins))
        table = Table(spec, bounds, tuple(pieces))
        undo.pop_all()
        return table


def begins_of(spec: TableSpec, book: Book, number: int, part: Part | None) -> Begins | None:
    """What a partition's rows are before they are written, as of `beginnings_of`.

    Args:
        number: of the partition.
        part: the partition; None will do for rows of their own.
    """
    offset = spec.bounds(book)[number]
    if part is None:
        return beginnings_of(spec, raw=None, offset=offset, column=None)
    return beginnings_of(spec, raw=ids_of(spec, part), offset=offset, column=_column(spec, part))


def ids_of(spec: TableSpec, part: Part) -> Tensor | None:
    """The user's ids of a partition's rows, by lid; None where they are the gids."""
    rows = _rows_of(spec, part)
    return rows.raw_id if isinstance(rows, NodePart) else rows.edge_id if isinstance(rows, EdgePart) else None


def _check(spec: TableSpec, book: Book) -> None:
    known = (*book.nodes, *book.edges)
    if spec.key is not None and spec.key not in known:
        raise SchemaError(f"table {spec.name!r} is to have the rows of {spec.key!r}; the graph has {list(known)}")
    count = spec.num_rows if spec.key is None else book.bounds(spec.key)[-1]
    if not 0 < len(spec.name) <= MAX_NAME or not spec.name.isprintable():
        raise InputError(f"{spec.name!r} is no name of a table: 1 to {MAX_NAME} characters that can be printed")
    if spec.num_rows != count or count < 0:
        raise InputError(f"table {spec.name!r} is to have {spec.num_rows} rows; {spec.key!r} has {count}")
    if any(size < 0 for size in spec.shape):
        raise InputError(f"table {spec.name!r} is to have rows of shape {spec.shape}; no size may be negative")
    assert spec.torch_dtype is not None


def _rows_of(spec: TableSpec, part: Part) -> NodePart | EdgePart | None:
    """What the rows belong to; None: to themselves."""
    if spec.key is None:
        return None
    return part.nodes[spec.key] if isinstance(spec.key, str) else part.edges[spec.key]


def _column(spec: TableSpec, part: Part) -> Tensor | None:
    """What the table begins with."""
    if spec.begin.kind != "column":
        return None
    rows = _rows_of(spec, part)
    columns = {} if rows is None else rows.columns
    if spec.begin.name not in columns:
        raise SchemaError(
            f"table {spec.name!r} is to begin with column {spec.begin.name!r} of {spec.key!r}; it has {list(columns)}"
        )
    return columns[spec.begin.name]
