"""Tables as files for other programs: rows by raw id, as one ``.npy`` array or as a Parquet table."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from halohop.errors import InputError
from halohop.files.aside import writing
from halohop.files.parquet import arrow_column, arrow_type, parquet
from halohop.files.whole import publish, set_aside, whole_file
from halohop.store.npy import ArrayFile, numpy_name
from halohop.tables.spec import TableSpec

_CHUNK_BYTES = 32 << 20


class ReadsTables(Protocol):
    """What is asked of a graph's tables."""

    def spec(self, name: str) -> TableSpec: ...

    def locate(self, spec: TableSpec, ids: Tensor) -> Tensor: ...

    def read(self, name: str, gid: Tensor) -> Tensor: ...


def export_table(tables: ReadsTables, name: str, path: str | Path) -> None:
    """Writes a table's rows by raw id: row i of the file is that of the node, or edge, or row of its own, with the id i.

    Args:
        tables: of the graph.
        name: of the table.
        path: ends with ``.npy`` (an array ``[n, *shape]``; of float32 where NumPy lacks the dtype) or ``.parquet`` (columns "id"
            and "row", which is a list of a row's entries, unless it has but one; needs pyarrow).

    Raises:
        SchemaError: no such table.
        InputError: another ending, or pyarrow is not installed.
        WriteError: it cannot be written; what was there remains.
    """
    spec, path = tables.spec(name), Path(path)
    write = {".npy": _write_npy, ".parquet": _write_parquet}.get(path.suffix)
    if write is None:
        raise InputError(f"{path} ends neither with .npy nor with .parquet; choose one of them")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write(tables, spec, path)


def _write_npy(tables: ReadsTables, spec: TableSpec, path: Path) -> None:
    dtype, shape = _stored_dtype(spec), (spec.num_rows, *spec.shape)
    with set_aside([path]) as (partial,):
        ArrayFile.reserve(partial, dtype, shape)
        with ArrayFile(partial, dtype, shape) as file:
            for ids, rows in _by_id(tables, spec):
                file.write(int(ids[0]), rows)
            file.sync()
        publish({partial: path})


def _write_parquet(tables: ReadsTables, spec: TableSpec, path: Path) -> None:
    writer_of = parquet().ParquetWriter
    import pyarrow as pa

    width = math.prod(spec.shape)

    def flat(rows: Tensor) -> np.ndarray:
        return rows.reshape(len(rows), width).numpy() if spec.shape else rows.numpy()

    row_type = arrow_type(flat(torch.empty((0, *spec.shape), dtype=_stored_dtype(spec))))
    schema = pa.schema([("id", pa.int64()), ("row", row_type)])
    with whole_file(path) as stream, writer_of(stream, schema) as writer:
        for ids, rows in _by_id(tables, spec):
            writer.write_table(pa.Table.from_arrays([pa.array(ids.numpy()), arrow_column(flat(rows))], schema=schema))


def _by_id(tables: ReadsTables, spec: TableSpec) -> Iterator[tuple[Tensor, Tensor]]:
    """All rows, some at a time: their ids, from 0 on, and what is stored of them."""
    step = max(_CHUNK_BYTES // max(spec.row_bytes, 1), 1)
    for begin in range(0, spec.num_rows, step):
        ids = torch.arange(begin, min(begin + step, spec.num_rows))
        yield ids, tables.read(spec.name, tables.locate(spec, ids)).to(_stored_dtype(spec))


def _stored_dtype(spec: TableSpec) -> torch.dtype:
    """The table's own; float32 for floats that NumPy lacks, such as bfloat16."""
    dtype = spec.torch_dtype
    return torch.float32 if dtype.is_floating_point and "u" in numpy_name(dtype) else dtype
