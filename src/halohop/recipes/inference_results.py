"""The files that inference leaves: a row per node, ascending by raw id, as ``.npy`` files or as one Parquet table."""

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from halohop.errors import InputError
from halohop.store.schema import ColumnSpec

RAW_IDS, IDS, CLASSES = "raw_ids", "ids", "classes"
PREDICTED = "predictions"
PARQUET = "predictions.parquet"
ROWS = 65_536
"""Rows that are in memory at a time."""


def npy_files(out: Path, names: list[str]) -> list[Path]:
    """The files of `write_npy`."""
    return [out / f"{name}.npy" for name in (RAW_IDS, *names)]


def write_npy(
    out: Path, raw: Tensor, columns: dict[str, ColumnSpec], read: Callable[[int, int], dict[str, Tensor]]
) -> Generator[int, None, None]:
    """Writes the files of some columns; each appears under its name when all are complete. Says how many rows a step wrote.

    Args:
        out: an existing folder.
        raw: ids of the rows, int64 ``[n]``.
        columns: what is written, by name.
        read: gives the rows from one position to another.
    """
    files = npy_files(out, list(columns))
    partial = [file.with_name(f"{file.name}.new") for file in files]
    with partial[0].open("wb") as stream:
        np.save(stream, raw.numpy())
    arrays = {
        name: np.lib.format.open_memmap(file, mode="w+", dtype=_numpy_dtype(spec), shape=(len(raw), *spec.shape))
        for (name, spec), file in zip(columns.items(), partial[1:], strict=True)
    }
    for begin in range(0, len(raw), ROWS):
        end = min(begin + ROWS, len(raw))
        for name, values in read(begin, end).items():
            arrays[name][begin:end] = values.numpy()
        yield end - begin
    for array in arrays.values():
        array.flush()
    for new, file in zip(partial, files, strict=True):
        new.replace(file)


def write_parquet(target: Path, files: list[Path]) -> Generator[int, None, None]:
    """One Parquet file from the arrays, a row group at a time; the arrays are removed. Says how many rows a step wrote.

    Where classes have names, these make a column "class".
    """
    import pyarrow as pa

    arrays = {file.stem: np.load(file, mmap_mode="r", allow_pickle=False) for file in files}
    classes = arrays.pop(CLASSES, None)
    schema = pa.schema([(name, _arrow_type(array)) for name, array in arrays.items()])
    if classes is not None:
        schema = schema.append(pa.field("class", pa.string()))
    part = target.with_name(f"{target.name}.new")
    with parquet().ParquetWriter(part, schema) as writer:
        total = len(arrays[RAW_IDS])
        for begin in range(0, total, ROWS):
            end = min(begin + ROWS, total)
            rows = [_arrow_column(array[begin:end]) for array in arrays.values()]
            if classes is not None:
                rows.append(_arrow_column(classes[arrays[PREDICTED][begin:end]]))
            writer.write_table(pa.Table.from_arrays(rows, schema=schema))
            yield end - begin
    part.replace(target)
    for file in files:
        file.unlink()


def parquet() -> Any:
    """The library that writes Parquet.

    Raises:
        InputError: it is not installed.
    """
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise InputError('writing Parquet needs pyarrow: pip install "halohop[tables]"; or use form="npy"') from error
    return parquet


def _numpy_dtype(spec: ColumnSpec) -> Any:
    return torch.empty(0, dtype=getattr(torch, spec.dtype)).numpy().dtype


def _arrow_type(array: np.ndarray) -> Any:
    import pyarrow as pa

    if array.dtype.kind == "U":
        return pa.string()
    return pa.list_(pa.float32(), array.shape[1]) if array.ndim == 2 else pa.from_numpy_dtype(array.dtype)


def _arrow_column(rows: np.ndarray) -> Any:
    import pyarrow as pa

    if rows.dtype.kind == "U":
        return pa.array(rows.tolist(), pa.string())
    values = np.ascontiguousarray(rows)
    return (
        pa.array(values) if values.ndim == 1 else pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])
    )
