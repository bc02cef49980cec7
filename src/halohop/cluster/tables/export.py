"""Tables as files for other programs: rows by raw id, as one ``.npy`` array or as a Parquet table."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from halohop.errors import InputError
from halohop.files.aside import writing
from halohop.files.parquet import arrow_column, arrow_type, parquet
from halohop.files.whole import publish, set_aside, whole_file
from halohop.store.npy import ArrayFile, numpy_name
from halohop.tables.spec import TableSpec

Of = Callable[[Tensor], Tensor]

_CHUNK_BYTES = 32 << 20
_IDS = 1 << 20


def export_rows(spec: TableSpec, path: str | Path, *, ids_of: Of, read: Of) -> None:
    """Writes a table's rows by raw id, see `Tables.export`.

    Args:
        spec: of the table.
        path: of the file.
        ids_of, read: raw ids, and rows, by gid.
    """
    path = Path(path)
    write = {".npy": _write_npy, ".parquet": _write_parquet}.get(path.suffix)
    if write is None:
        raise InputError(f"{path} ends neither with .npy nor with .parquet; choose one of them")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    ids = torch.cat([ids_of(gid) for gid in torch.arange(spec.num_rows).split(_IDS)])
    write(spec, path, ids, lambda gid: read(gid).to(_stored_dtype(spec)))


def _write_npy(spec: TableSpec, path: Path, ids: Tensor, read: Of) -> None:
    places, gids = ids.sort()
    if not places.equal(torch.arange(spec.num_rows)):
        raise InputError(
            f"the ids of table {spec.name!r} are not 0 to {spec.num_rows - 1}, so row i of {path} would not be that of id i; "
            "choose .parquet, which has a column of ids"
        )
    dtype, shape = _stored_dtype(spec), (spec.num_rows, *spec.shape)
    with set_aside([path]) as (partial,):
        ArrayFile.reserve(partial, dtype, shape)
        with ArrayFile(partial, dtype, shape) as file:
            begin = 0
            for gid in gids.split(_step(spec)):
                file.write(begin, read(gid))
                begin += len(gid)
            file.sync()
        publish({partial: path})


def _write_parquet(spec: TableSpec, path: Path, ids: Tensor, read: Of) -> None:
    writer_of = parquet().ParquetWriter
    import pyarrow as pa

    def flat(rows: Tensor) -> np.ndarray:
        return rows.reshape(len(rows), math.prod(spec.shape)).numpy() if spec.shape else rows.numpy()

    ids, gids = ids.sort()
    row_type = arrow_type(flat(torch.empty((0, *spec.shape), dtype=_stored_dtype(spec))))
    schema = pa.schema([("id", pa.int64()), ("row", row_type)])
    with whole_file(path) as stream, writer_of(stream, schema) as writer:
        for some, gid in zip(ids.split(_step(spec)), gids.split(_step(spec)), strict=True):
            columns = [pa.array(some.numpy()), arrow_column(flat(read(gid)))]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))


def _step(spec: TableSpec) -> int:
    """How many rows are in memory at a time."""
    return max(_CHUNK_BYTES // max(spec.row_bytes, 1), 1)


def _stored_dtype(spec: TableSpec) -> torch.dtype:
    """The table's own; float32 for floats that NumPy lacks, such as bfloat16."""
    dtype = spec.torch_dtype
    return torch.float32 if dtype.is_floating_point and "u" in numpy_name(dtype) else dtype
