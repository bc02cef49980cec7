"""The tables of an owner, by name."""

import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from halohop.errors import ClusterError, InputError, SchemaError
from halohop.partitioning.book import Book
from halohop.store.part import Part
from halohop.tables.deadlines import Deadlines
from halohop.tables.filling import Filling
from halohop.tables.kept import KeptTable, replaced, unchanged
from halohop.tables.making import make_table
from halohop.tables.messages import SavedTable
from halohop.tables.rules import Rule
from halohop.tables.spec import TableSpec
from halohop.tables.table import Table

_MOST = 4096


class Catalog:
    """Makes, finds and forgets tables. All methods may be called from any thread.

    Args:
        book: who owns what.
        parts: the partitions that are here, by number.
        folder: where tables on disk lie.
        deadlines: of those who wait until a table's rows are written.
    """

    def __init__(self, book: Book, parts: dict[int, Part], folder: Path | None, deadlines: Deadlines) -> None:
        self._book = book
        self._parts = parts
        self._folder = folder
        self._deadlines = deadlines
        self._lock = threading.Lock()
        self._tables: dict[str, Table] = {}

    def get(self, name: str, digest: str = "") -> Table:
        """
        Raises:
            SchemaError: there is none, or not the one of this digest.
        """
        table = self._tables.get(name)
        if table is None:
            raise SchemaError(f"no table {name!r} is here; there are {sorted(self._tables)}: make it, or load it")
        if digest not in ("", table.digest):
            raise SchemaError(f"table {name!r} was dropped and made anew, as {table.spec}; attach it again")
        return table

    def all(self) -> list[Table]:
        """By name."""
        with self._lock:
            return [self._tables[name] for name in sorted(self._tables)]

    def new(self, spec: TableSpec, parts: Sequence[int] = ()) -> Table:
        """A table that is not in the catalog, of the rows of some partitions here; of all, if none are named.

        Raises:
            SchemaError, InputError, WriteError: as of `make_table`.
        """
        if absent := sorted(set(parts) - set(self._parts)):
            raise InputError(f"table {spec.name!r} is to have the rows of partitions {absent}, which are not here")
        chosen = {part: held for part, held in self._parts.items() if not parts or part in parts}
        return make_table(spec, self._book, chosen, self._folder)

    def make(self, spec: TableSpec, sender: str, parts: Sequence[int] = ()) -> tuple[Table, bool]:
        """A table, new or found, of the rows of some partitions here; and whether this client is to write its rows.

        Raises:
            InputError: there is another one of this name.
            ClusterError: it has the rows of other partitions.
            SchemaError, InputError, WriteError: as of `make_table`.
        """
        with self._lock:
            table = self._tables.get(spec.name)
            if table is None and len(self._tables) >= _MOST:
                raise InputError(f"{_MOST} tables are here, the most that an owner has; drop some, then make {spec.name!r}")
            if table is None:
                table = self.new(spec, parts)
                if spec.begin.kind == "given":
                    table.filling = Filling(spec.name, sender, self._deadlines)
                self._tables[spec.name] = table
        if table.digest != spec.digest:
            raise InputError(f"table {spec.name!r} is here as {table.spec}, not as {spec}; take another name, or drop it")
        owned = sorted(piece.part for piece in table.pieces)
        if parts and owned != sorted(parts):
            raise ClusterError(
                f"table {spec.name!r} has the rows of partitions {owned} here, and a client takes this owner for that of "
                f"{sorted(parts)}: servers have come or gone since it was made; drop the table, and make it again"
            )
        return table, table.filling is not None and table.filling.is_by(sender)

    def filled(self, name: str, sender: str) -> None:
        """The client has written all rows; others may use the table.

        Raises:
            SchemaError: there is no such table.
            ClusterError: another client has taken its place.
        """
        filling = self.get(name).filling
        if filling is not None:
            if not filling.is_open_to(sender):
                raise ClusterError(f"another client writes the rows of table {name!r} now: this one was silent for long")
            filling.end()

    def unchanged(self, names: Sequence[str], *, whole: bool) -> AbstractContextManager[Mapping[str, KeptTable]]:
        """Tables for a checkpoint, as of `halohop.tables.kept.unchanged`."""
        return unchanged([self.get(name) for name in names], self._parts, whole=whole)

    def replaced(self, saved: SavedTable) -> AbstractContextManager[KeptTable]:
        """A table for what a checkpoint has of it, as of `halohop.tables.kept.replaced`."""
        spec = saved.spec
        rule = None if saved.rule is None else Rule(saved.rule, spec.shape, spec.torch_dtype)
        return replaced(self.get(spec.name), rule, saved.steps, self._parts)

    def remove(self, name: str) -> Table | None:
        """Forgets a table, if it is there; the caller drops it."""
        with self._lock:
            return self._tables.pop(name, None)


def filling_of(tables: Iterable[Table], by: str = "") -> Filling | None:
    """Of the first table that not all clients may use yet, and this one may not; None if there is none."""
    fillings = (table.filling for table in tables if table.filling is not None)
    return next((filling for filling in fillings if not filling.is_open_to(by)), None)
