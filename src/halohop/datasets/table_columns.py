"""Columns of text and Parquet tables as tensors: numbers, lists, times, classes and splits."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from halohop.datasets.arrow import Column, first_null, is_text, pyarrow, read_columns
from halohop.datasets.splits import index_masks
from halohop.errors import InputError, SchemaError

SPLITS = {"train": "train", "training": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}
"""What a split may be called, and what it is called here."""


def split_name(text: str) -> str:
    """What a split is called here.

    Raises:
        SchemaError: it is none.
    """
    if text not in SPLITS:
        raise SchemaError(f"unknown split {text!r}; known: {list(SPLITS)}")
    return SPLITS[text]


def stacked(paths: list[Path], names: tuple[str, ...], dtype: str) -> Tensor:
    """Columns side by side as a matrix."""
    kind = getattr(torch, dtype, None)
    if not isinstance(kind, torch.dtype):
        raise InputError(f"dtype {dtype!r} is no torch dtype; known are float32, float16, bfloat16, float64, int64, ...")
    blocks = []
    for path in paths:
        table = read_columns(path, names, floats=names if kind == torch.float32 else ())
        values = [_tensor(table.pop(name), path, name).to(kind) for name in dict.fromkeys(names)]
        blocks.append(torch.cat([part.reshape(len(part), -1) if len(part) else part.reshape(0, 1) for part in values], dim=1))
    return _joined(blocks, ", ".join(names))


def column_of(paths: list[Path], name: str) -> Tensor:
    """One column of all files under its own dtype; decimal fractions in text, which has no widths, as float32."""
    tensors = []
    for path in paths:
        values = _tensor(read_columns(path, [name])[name], path, name)
        tensors.append(values.float() if is_text(path) and values.dtype == torch.float64 else values)
    return _joined(tensors, name)


def _joined(tensors: list[Tensor], name: str) -> Tensor:
    filled = [values for values in tensors if len(values)] or tensors[:1]
    if len({(values.dtype.is_floating_point, values.shape[1:]) for values in filled}) > 1:
        raise InputError(f"column {name!r} has other kinds or numbers of values in one file than in another")
    return torch.cat(filled)


def _tensor(column: Column, path: Path, name: str) -> Tensor:
    """Numbers, bools, times or lists of numbers of one length as a tensor."""
    pa, pc = pyarrow(), pyarrow("compute")
    refuse_null(column, path, name)
    kind = column.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        lengths = np.unique(pc.list_value_length(column).to_numpy()).tolist() or [0]
        if len(lengths) > 1:
            raise InputError(f"{path}: lists in column {name!r} have {lengths[0]} to {lengths[-1]} entries, expected one length")
        return _tensor(pc.list_flatten(column), path, name).view(len(column), lengths[0])
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        try:
            column = column.cast(pa.timestamp("s", getattr(kind, "tz", None))).cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise InputError(f"{path}: times in column {name!r} are finer than seconds; store them as integers") from error
    elif pa.types.is_null(kind):  # a text file without rows
        column = column.cast(pa.float32())
    elif pa.types.is_unsigned_integer(kind) and kind.bit_width > 8:
        try:
            column = column.cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise InputError(f"{path}: column {name!r} holds a number over 2**63 - 1: {error}") from error
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise InputError(f"{path}: column {name!r} holds {kind}, expected numbers")
    return torch.from_numpy(np.require(column.to_numpy(), requirements="W"))


def labels(paths: list[Path], name: str) -> tuple[Tensor, tuple[str, ...]]:
    """Classes as int64, -1 where there is none, and their names where these were strings."""
    pa, pc = pyarrow(), pyarrow("compute")
    columns = [_undictionary(read_columns(path, [name])[name]) for path in paths]
    if all(pa.types.is_string(column.type) or pa.types.is_large_string(column.type) for column in columns):
        names = pa.chunked_array(
            [chunk.cast(pa.large_string()) for column in columns for chunk in column.chunks], pa.large_string()
        )
        classes = pc.unique(names).drop_null()
        classes = classes.take(pc.array_sort_indices(classes))
        numbers = pc.index_in(names, classes, skip_nulls=True).fill_null(-1).to_numpy()
        return torch.from_numpy(np.require(numbers, np.int64, "W")), tuple(classes.to_pylist())
    parts = []
    for path, column in zip(paths, columns, strict=True):
        if pa.types.is_floating(column.type):  # what a data frame makes of integers with gaps
            column = pc.if_else(pc.is_nan(column), None, column)
        try:
            parts.append(column.cast(pa.int64()).fill_null(-1).to_numpy())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InputError(
                f"{path}: labels in column {name!r} must be whole numbers, or strings everywhere: {error}"
            ) from error
    return torch.from_numpy(np.concatenate(parts)), ()


def split_masks(paths: list[Path], name: str) -> dict[str, Tensor]:
    values: list[str | None] = []
    pc = pyarrow("compute")
    for path in paths:
        column = _undictionary(read_columns(path, [name])[name])
        for value in pc.unique(column).to_pylist():
            if value is not None and value not in SPLITS:
                raise SchemaError(f"{path}: column {name!r} holds {value!r}, which is no split; known: {list(SPLITS)}")
        values += column.to_pylist()
    folds = np.array([SPLITS.get(value or "", "") for value in values], dtype="U5")
    return index_masks(len(folds), {split: np.flatnonzero(folds == split) for split in ("train", "val", "test")})


def _undictionary(column: Column) -> Column:
    return column.cast(column.type.value_type) if pyarrow().types.is_dictionary(column.type) else column


def refuse_null(column: Column, path: Path, name: str) -> None:
    row = first_null(column)
    if row is not None and not pyarrow().types.is_null(column.type):
        raise InputError(f"{path}: column {name!r} is empty in row {row} (counting from 0, below the header)")
    if row is not None:
        raise InputError(f"{path}: column {name!r} is empty in every row")
