"""Tables in files, some rows at a time: whole files in memory, or parts of them where their columns are staged."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from halohop.datasets.arrow import Column, first_null, is_text, pyarrow, read_columns, stream_columns
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
    """

    path: Path
    first: int
    columns: dict[str, Column]

    def column(self, name: str) -> Column:
        """A column without nulls.

        Raises:
            InputError: it has one; names its row.
        """
        column = self.columns[name]
        row = first_null(column)
        if row is not None and not pyarrow().types.is_null(column.type):
            raise InputError(
                f"{self.path}: column {name!r} is empty in row {self.first + row} (counting from 0, below the header)"
            )
        if row is not None:
            raise InputError(f"{self.path}: column {name!r} is empty in every row")
        return column


def parts_of(staging: Staging, paths: Sequence[Path], names: Sequence[str], *, floats: Sequence[str] = ()) -> Iterator[Part]:
    """Some columns of the files of a table; at least one part of each file.

    Args:
        staging: where the columns go, which decides how much is read at a time.
        paths, names: which columns of which files.
        floats: those of them to read as float32 where a file is text.

    Raises:
        IncompleteDatasetError, InputError: as `halohop.datasets.arrow.read_columns`.
    """
    for path in paths:
        first = 0
        for columns in _columns(staging, path, names, floats):
            yield Part(path=path, first=first, columns=columns)
            first += len(next(iter(columns.values())))


def _columns(staging: Staging, path: Path, names: Sequence[str], floats: Sequence[str]) -> Iterator[dict[str, Column]]:
    if staging.folder is None:
        yield read_columns(path, names, floats=floats)
        return
    types = dict.fromkeys(floats, pyarrow().float32())
    if is_text(path):
        inferred = [name for name in dict.fromkeys(names) if name not in floats]
        name = f"types.{path}.{','.join(inferred)}"
        texts = staging.fact(name, lambda: text_types(path, inferred, staging.text_bytes) if inferred else [], list[str])
        types |= zip(inferred, map(type_of, texts), strict=True)
    yield from stream_columns(path, names, types, staging.text_bytes if is_text(path) else staging.chunk_bytes)
    pyarrow().default_memory_pool().release_unused()
