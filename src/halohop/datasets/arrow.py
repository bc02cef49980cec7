"""The one place that reads text and Parquet tables, through pyarrow: columns in, checked columns out."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from halohop.errors import IncompleteDatasetError, InputError

_BLOCK = 16 * 2**20
_PARQUET = (".parquet", ".pq")
_TEXT = (".csv", ".csv.gz", ".tsv", ".tsv.gz")

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
        raise InputError('reading tables needs pyarrow: pip install "halohop[tables]"') from error


def read_columns(path: Path, names: Sequence[str], *, floats: Sequence[str] = ()) -> dict[str, Column]:
    """Some columns of a ``.csv``, ``.tsv`` (each also ``.gz``) or ``.parquet`` file.

    Text files begin with a header line; types are inferred, an empty field is a null.

    Args:
        path: the file.
        names: which columns.
        floats: those of them to read as float32 where the file is text.

    Raises:
        IncompleteDatasetError: there is no such file.
        InputError: an unknown kind of file, a column that it lacks, or content that cannot be read.
    """
    if not path.is_file():
        raise IncompleteDatasetError(f"there is no file {path}")
    pa, wanted = pyarrow(), list(dict.fromkeys(names))
    try:
        if path.name.endswith(_PARQUET):
            known = pyarrow("parquet").read_schema(path).names
            _require(path, wanted, known)
            table = pyarrow("parquet").read_table(path, columns=wanted, partitioning=None)
        elif is_text(path):
            csv = pyarrow("csv")
            parse = csv.ParseOptions(delimiter="\t" if ".tsv" in path.suffixes else ",")
            _require(path, wanted, _header(path, parse))
            convert = csv.ConvertOptions(
                include_columns=wanted,
                column_types={name: pa.float32() for name in floats},
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            )
            table = csv.read_csv(str(path), csv.ReadOptions(block_size=_BLOCK), parse, convert)
        else:
            raise InputError(f"{path}: unknown kind of table; known: {', '.join(_TEXT + _PARQUET)}")
    except (pa.ArrowException, OSError, EOFError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    return {name: table.column(name) for name in wanted}


def is_text(path: Path) -> bool:
    """Whether the file is a text table, by its name."""
    return path.name.endswith(_TEXT)


def read_matrix(path: Path, dtype: Any, num_rows: int | None = None) -> np.ndarray:
    """All of a comma-separated file without a header, as a matrix; an empty or ``nan`` field is NaN.

    Read in blocks, so that no second copy of the file is in memory where `num_rows` is known.

    Args:
        path: ``.csv`` or ``.csv.gz``.
        dtype: NumPy dtype of the result.
        num_rows: how many rows there must be; None takes what there is.

    Raises:
        IncompleteDatasetError: there is no such file.
        InputError: another number of rows, or a field that is not a number.
    """
    if not path.is_file():
        raise IncompleteDatasetError(f"there is no file {path}")
    blocks = _numeric_blocks(path, np.dtype(dtype))
    if num_rows is None:
        parts = list(blocks)
        return np.concatenate(parts) if parts else np.empty((0, 0), dtype)
    matrix, filled = None, 0
    for block in blocks:
        if matrix is None:
            matrix = np.empty((num_rows, block.shape[1]), dtype)
        if filled + len(block) <= num_rows:
            matrix[filled : filled + len(block)] = block
        filled += len(block)
    if filled != num_rows:
        raise InputError(f"{path} has {filled} rows, expected {num_rows}")
    return np.empty((0, 0), dtype) if matrix is None else matrix


def first_null(column: Column) -> int | None:
    """Row of the first null, counting from 0; None if there is none."""
    if not column.null_count:
        return None
    return int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])


def _numeric_blocks(path: Path, dtype: np.dtype[Any]) -> Iterator[np.ndarray]:
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
        reader = csv.open_csv(str(path), csv.ReadOptions(block_size=_BLOCK, column_names=names), None, convert)
        for batch in reader:
            if dtype.kind != "f" and any(column.null_count for column in batch.columns):
                raise InputError(f"{path} has an empty field where a whole number must be")
            yield np.column_stack([column.to_numpy(zero_copy_only=False) for column in batch.columns])
    except (pa.ArrowException, OSError, EOFError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error


def _header(path: Path, parse: Any) -> list[str]:
    csv = pyarrow("csv")
    with csv.open_csv(str(path), csv.ReadOptions(block_size=2**20), parse) as reader:
        names: list[str] = reader.schema.names
    return names


def _require(path: Path, wanted: Sequence[str], known: Sequence[str]) -> None:
    for name in wanted:
        if name not in known:
            raise InputError(f"{path} has no column {name!r}; it has {list(known)}")
        if known.count(name) > 1:
            raise InputError(f"{path} has two columns {name!r}")
