"""Columns of Parquet files from arrays."""

from typing import Any

import numpy as np

from halohop.errors import InputError


def parquet() -> Any:
    """The library that writes Parquet.

    Raises:
        InputError: it is not installed.
    """
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise InputError('writing Parquet needs pyarrow: pip install "halohop[io]"; or use form="npy"') from error
    return parquet


def arrow_type(array: np.ndarray) -> Any:
    """The type of a column of texts or numbers ``[n]``, or of lists of one length ``[n, k]``."""
    import pyarrow as pa

    if array.dtype.kind == "U":
        return pa.string()
    kind = pa.from_numpy_dtype(array.dtype)
    return pa.list_(kind, array.shape[1]) if array.ndim == 2 else kind


def arrow_column(rows: np.ndarray) -> Any:
    """Rows as a column of that type."""
    import pyarrow as pa

    if rows.dtype.kind == "U":
        return pa.array(rows.tolist(), pa.string())
    values = np.ascontiguousarray(rows)
    return (
        pa.array(values) if values.ndim == 1 else pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])
    )
