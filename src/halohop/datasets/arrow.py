"""The one place that reads text and Parquet tables, through pyarrow: columns in, checked columns out."""

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from halohop.errors import HalohopError, IncompleteDatasetError, InputError

BLOCK_BYTES = 16 * 2**20
"""How much of a text file is read at a time, by default."""

_PARQUET = (".parquet", ".pq")
_TEXT = (".csv", ".csv.gz", ".tsv", ".tsv.gz")

_MISFIT = re.compile(r"In CSV column #(\d+):.*CSV conversion error to ([^:]+): invalid (?:value '(.*)'|UTF8 data)", re.DOTALL)

Column = Any
"""A pyarrow.Array or ChunkedArray."""


def pyarrow(module: str = "") -> ModuleType:
    """The package pyarrow, or one of its modules.

    Raises:
        InputError: it is not installed.
    """
    from importlib import import_module

    try:
        return import_module(f"pyarrow.{module}" if module else "pyarrow")
    except ImportError as error:
        raise InputError('reading tables needs pyarrow: pip install "halohop[io]"') from error


def read_columns(path: Path, names: Sequence[str], types: Mapping[str, Any]) -> dict[str, Column]:
    """Some columns of a ``.csv``, ``.tsv`` (each also ``.gz``) or ``.parquet`` file.

    Text files begin with a header line; types are inferred, an empty field is a null.

    Args:
        path: the file.
        names: which columns.
        types: of the columns of a text file; the others are inferred from all rows.

    Raises:
        IncompleteDatasetError: there is no such file.
        InputError: an unknown kind of file, a column that it lacks, or content that cannot be read.
    """
    wanted = list(dict.fromkeys(names))
    with reading(path, wanted):
        if is_text(path):
            parse, convert = text_options(path, wanted, types)
            table = pyarrow("csv").read_csv(str(path), _reads(BLOCK_BYTES), parse, convert)
        else:
            table = pyarrow("parquet").read_table(path, columns=wanted, partitioning=None)
    return {name: table.column(name) for name in wanted}


def stream_columns(path: Path, names: Sequence[str], types: Mapping[str, Any], num_bytes: int) -> Iterator[dict[str, Column]]:
    """The same some rows at a time, of about so many bytes; at least one time.

    Args:
        path, names: as of `read_columns`.
        types: of the columns of a text file, see `halohop.datasets.text_types`; the others are as in the first rows.
        num_bytes: see above.

    Raises:
        IncompleteDatasetError, InputError: as `read_columns`.
    """
    wanted = list(dict.fromkeys(names))
    with reading(path, wanted):
        if is_text(path):
            with pyarrow("csv").open_csv(str(path), _reads(num_bytes), *text_options(path, wanted, types)) as reader:
                yield from _tables(reader, reader.schema)
            return
        with pyarrow("parquet").ParquetFile(path, pre_buffer=False, buffer_size=1 << 20) as file:
            size = sum(file.metadata.row_group(group).total_byte_size for group in range(file.num_row_groups))
            rows = max(num_bytes * file.metadata.num_rows // max(size, 1), 1)
            schema = pyarrow().schema([file.schema_arrow.field(name) for name in wanted])
            yield from _tables(file.iter_batches(rows, columns=wanted), schema)


def text_options(path: Path, names: Sequence[str], types: Mapping[str, Any]) -> tuple[Any, Any]:
    """How a text file is parsed, and how its fields are converted."""
    csv = pyarrow("csv")
    parse = csv.ParseOptions(delimiter="\t" if ".tsv" in path.suffixes else ",")
    convert = csv.ConvertOptions(
        include_columns=names,
        column_types={name: kind for name, kind in types.items() if name in names},
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    return parse, convert


@contextmanager
def reading(path: Path, names: Sequence[str]) -> Iterator[None]:
    """Looks whether a table has some columns, and gives what fails inside the block the file's name."""
    pa = pyarrow()
    try:
        if not path.is_file():  # which raises where it may not look, or the name is too long
            raise IncompleteDatasetError(f"there is no file {path}")
        _require(path, names, column_types(path))
        yield
    except (pa.ArrowException, OSError, EOFError, zlib.error) as error:
        if isinstance(error, HalohopError):
            raise
        raise InputError(_misfit(path, str(error)) or f"{path} cannot be read: {error}") from error


def _misfit(path: Path, reason: str) -> str | None:
    """The column, row and value of a text file that pyarrow could not convert, if that is the reason."""
    found = _MISFIT.search(reason)
    if found is None or not is_text(path):
        return None
    name, kind, value = column_types(path).names[int(found[1])], found[2], found[3]
    if value is None:
        return f"{path}: column {name!r} holds bytes that are not UTF-8; store the file as UTF-8"
    row = 0
    for columns in stream_columns(path, [name], {name: pyarrow().string()}, BLOCK_BYTES):
        place = pyarrow("compute").index(columns[name], value).as_py()
        if place >= 0:
            return f"{path}: column {name!r} holds {value!r} in row {row + place}, expected a value of type {kind}"
        row += len(columns[name])
    return f"{path}: column {name!r} holds {value!r}, expected a value of type {kind}"


def column_types(path: Path, num_bytes: int = 1 << 20) -> Any:
    """The schema of a table; in a text file types are those of the first rows, of about so many bytes.

    Raises:
        InputError: an unknown kind of file.
    """
    if path.name.endswith(_PARQUET):
        return pyarrow("parquet").read_schema(path)
    if not is_text(path):
        raise InputError(f"{path}: unknown kind of table; known: {', '.join(_TEXT + _PARQUET)}")
    with pyarrow("csv").open_csv(str(path), _reads(num_bytes), *text_options(path, (), {})) as reader:
        return reader.schema


def is_text(path: Path) -> bool:
    """Whether the file is a text table, by its name."""
    return path.name.endswith(_TEXT)


def read_matrix(path: Path, dtype: Any) -> np.ndarray:
    """All of a small comma-separated file without a header; see `matrix_blocks`."""
    parts = list(matrix_blocks(path, dtype))
    return np.concatenate(parts) if parts else np.empty((0, 0), dtype)


def matrix_blocks(path: Path, dtype: Any, num_rows: int | None = None, block_bytes: int = BLOCK_BYTES) -> Iterator[np.ndarray]:
    """A comma-separated file without a header, some rows at a time; an empty or ``nan`` field is NaN.

    Args:
        path: ``.csv`` or ``.csv.gz``.
        dtype: NumPy dtype of the result.
        num_rows: how many rows there must be; None takes what there is.
        block_bytes: about how much of the text is read at a time.

    Raises:
        IncompleteDatasetError: there is no such file.
        InputError: another number of rows, or a field that is not a number.
    """
    if not path.is_file():
        raise IncompleteDatasetError(f"there is no file {path}")
    found = 0
    for block in _numeric_blocks(path, np.dtype(dtype), block_bytes):
        found += len(block)
        if num_rows is None or found <= num_rows:
            yield block
    if num_rows is not None and found != num_rows:
        raise InputError(f"{path} has {found} rows, expected {num_rows}")


def first_null(column: Column) -> int | None:
    """Row of the first null, counting from 0; None if there is none."""
    if not column.null_count:
        return None
    return int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])


def _numeric_blocks(path: Path, dtype: np.dtype[Any], block_bytes: int) -> Iterator[np.ndarray]:
    pa, csv = pyarrow(), pyarrow("csv")
    try:
        with pa.input_stream(str(path), compression="gzip" if path.suffix == ".gz" else None) as stream:
            first_line = stream.read(2**20).split(b"\n", 1)[0]
        if not first_line.strip():
            return
        names = [str(number) for number in range(first_line.count(b",") + 1)]
        convert = csv.ConvertOptions(
            column_types={name: pa.from_numpy_dtype(dtype) for name in names}, null_values=["", "nan", "NaN", "NAN"]
        )
        reader = csv.open_csv(str(path), csv.ReadOptions(block_size=block_bytes, column_names=names), None, convert)
        for batch in reader:
            if dtype.kind != "f" and any(column.null_count for column in batch.columns):
                raise InputError(f"{path} has an empty field where a whole number must be")
            yield np.column_stack([column.to_numpy(zero_copy_only=False) for column in batch.columns])
    except (pa.ArrowException, OSError, EOFError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error


def _reads(num_bytes: int) -> Any:
    return pyarrow("csv").ReadOptions(block_size=num_bytes)


def _tables(batches: Iterable[Any], schema: Any) -> Iterator[dict[str, Column]]:
    empty = True
    for batch in batches:
        empty = False
        yield {name: batch.column(name) for name in schema.names}
    if empty:
        table = schema.empty_table()
        yield {name: table.column(name) for name in schema.names}


def _require(path: Path, wanted: Sequence[str], schema: Any) -> None:
    known = list(schema.names)
    for name in wanted:
        if name not in known:
            raise InputError(f"{path} has no column {name!r}; it has {known}")
        if known.count(name) > 1:
            raise InputError(f"{path} has two columns {name!r}")
