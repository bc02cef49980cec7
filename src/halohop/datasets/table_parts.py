"""Tables in files, some rows at a time: whole files in memory, or parts of them where their columns are staged."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from halohop.datasets.arrow import BLOCK_BYTES, Column, first_null, is_text, pyarrow, read_columns, stream_columns
from halohop.datasets.staging import Staging
from halohop.datasets.text_types import text_types, type_of
from halohop.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Some rows of a table.

    Args:
        path: its file.
        first: the number of the first row in the file, counting from 0.
        columns: by name.
        entries: how many entries a row of the file has: more than 1 if its lists are flattened.
    """

    path: Path
    first: int
    columns: dict[str, Column]
    entries: int = 1

    def row(self, number: int) -> int:
        """The number of the row in the file that an entry belongs to."""
        return self.first + number // max(self.entries, 1)

    def column(self, name: str) -> Column:
        """A column without nulls.

        Raises:
            InputError: it has one; names its row.
        """
        column = self.columns[name]
        row = first_null(column)
        if row is not None and not pyarrow().types.is_null(column.type):
            raise InputError(f"{self.path}: column {name!r} is empty in row {self.row(row)} (counting from 0, below the header)")
        if row is not None:
            raise InputError(f"{self.path}: column {name!r} is empty in every row")
        return column


def parts_of(
    staging: Staging, paths: Sequence[Path], names: Sequence[str], types: Mapping[str, Any] | None = None
) -> Iterator[Part]:
    """Some columns of the files of a table; at least one part of each file.

    A column has one type in all text files: the first that pyarrow could infer from all of their rows.

    Args:
        staging: where the columns go, which decides how much is read at a time.
        paths, names: which columns of which files.
        types: of columns of text files; the others are inferred.

    Raises:
        IncompleteDatasetError, InputError: as `halohop.datasets.arrow.read_columns`.
    """
    given = dict(types or {})
    read = _whole(paths, names, given) if staging.folder is None else _in_chunks(staging, paths, names, given)
    for path, chunks in zip(paths, read, strict=True):
        first = 0
        for columns in chunks:
            yield Part(path=path, first=first, columns=columns)
            first += len(next(iter(columns.values())))


def characters(*names: str) -> dict[str, Any]:
    """The `types` of columns of text files that are read as they are written."""
    return dict.fromkeys(names, pyarrow().large_string())


def _whole(paths: Sequence[Path], names: Sequence[str], types: dict[str, Any]) -> Iterator[list[dict[str, Column]]]:
    """Each file at once; files whose types differ are read again with one that fits all."""
    tables = [read_columns(path, names, types) for path in paths]
    texts = [path for path in paths if is_text(path)]
    for name in dict.fromkeys(names):
        found = {table[name].type for path, table in zip(paths, tables, strict=True) if is_text(path)}
        if len(found) > 1:
            types[name] = type_of(text_types(texts, [name], BLOCK_BYTES)[0])
            for path, table in zip(paths, tables, strict=True):
                table |= read_columns(path, [name], types) if is_text(path) else {}
    return iter([table] for table in tables)


def _in_chunks(
    staging: Staging, paths: Sequence[Path], names: Sequence[str], types: dict[str, Any]
) -> Iterator[Iterator[dict[str, Column]]]:
    """Each file some rows at a time."""
    texts, rest = [path for path in paths if is_text(path)], [name for name in dict.fromkeys(names) if name not in types]
    if texts and rest:
        fact = f"types.{','.join(map(str, texts))}.{','.join(rest)}"
        found = staging.fact(fact, lambda: text_types(texts, rest, staging.text_bytes), list[str])
        types |= zip(rest, map(type_of, found), strict=True)
    for path in paths:
        yield stream_columns(path, names, types, staging.text_bytes if is_text(path) else staging.chunk_bytes)
        pyarrow().default_memory_pool().release_unused()
