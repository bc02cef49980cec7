"""Columns of text and Parquet tables as tensors: numbers, lists, times, classes and splits."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from halohop.datasets.arrow import Column, is_text, pyarrow
from halohop.datasets.staging import Staging
from halohop.datasets.table_parts import Part, parts_of
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


def stacked(staging: Staging, table: str, paths: list[Path], names: tuple[str, ...], dtype: str) -> Tensor:
    """Columns side by side as a matrix; `table` begins the name of what is staged."""
    kind = getattr(torch, dtype, None)
    if not isinstance(kind, torch.dtype):
        raise InputError(f"dtype {dtype!r} is no torch dtype; known are float32, float16, bfloat16, float64, int64, ...")
    distinct, title = list(dict.fromkeys(names)), ", ".join(names)

    def blocks() -> Iterator[tuple[Part, dict[str, Tensor]]]:
        for part in parts_of(staging, paths, names, floats=distinct if kind == torch.float32 else ()):
            values = [_tensor(staging, part.column(name), part, name).to(kind) for name in distinct]
            flat = [rows.reshape(len(rows), -1) if len(rows) else rows.reshape(0, 1) for rows in values]
            yield part, {title: torch.cat(flat, dim=1)}

    return staging.columns(f"{table}.{title}", lambda: _alike(staging, blocks(), distinct))[title]


def columns_of(
    staging: Staging, table: str, paths: list[Path], named: Mapping[str, str], dtype: torch.dtype | None = None
) -> dict[str, Tensor]:
    """Columns of all files, by what they are called here, under their own dtypes or a common one; decimal fractions in text,
    which has no widths, as float32."""
    if not named:
        return {}

    def blocks() -> Iterator[tuple[Part, dict[str, Tensor]]]:
        for part in parts_of(staging, paths, list(named.values())):
            values = {name: _tensor(staging, part.column(name), part, name) for name in dict.fromkeys(named.values())}
            if is_text(part.path):
                values = {name: rows.float() if rows.dtype == torch.float64 else rows for name, rows in values.items()}
            yield part, values if dtype is None else {name: rows.to(dtype) for name, rows in values.items()}

    columns = staging.columns(f"{table}.{','.join(named)}", lambda: _alike(staging, blocks(), list(named.values())))
    return {target: columns[name] for target, name in named.items()}


def labels(staging: Staging, table: str, paths: list[Path], name: str) -> tuple[Tensor, tuple[str, ...]]:
    """Classes as int64, -1 where there is none, and their names where these were strings."""
    pa, pc = pyarrow(), pyarrow("compute")
    parts = staging.again(lambda: parts_of(staging, paths, [name]))
    if staging.fact(f"{table}.{name}.strings", lambda: _are_strings(parts(), name), bool):
        classes = staging.fact(f"{table}.{name}.classes", lambda: _classes(parts(), name), list[str])
        known = pa.array(classes, pa.large_string())

        def numbers() -> Iterator[Tensor]:
            for part in parts():
                column = plain(part.columns[name]).cast(pa.large_string())
                found = pc.index_in(column, known, skip_nulls=True).fill_null(-1).to_numpy(zero_copy_only=False)
                yield torch.from_numpy(np.require(found, np.int64, "W"))

        return staging.column(f"{table}.{name}", numbers), tuple(classes)

    def whole() -> Iterator[Tensor]:
        for part in parts():
            column = plain(part.columns[name])
            if pa.types.is_floating(column.type):  # what a data frame makes of integers with gaps
                column = pc.if_else(pc.is_nan(column), None, column)
            try:
                values = column.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise InputError(
                    f"{part.path}: labels in column {name!r} must be whole numbers, or strings everywhere: {error}"
                ) from error
            yield torch.from_numpy(np.require(values, requirements="W"))

    return staging.column(f"{table}.{name}", whole), ()


def split_masks(staging: Staging, table: str, paths: list[Path], name: str) -> dict[str, Tensor]:
    """Masks from a column that names the split of each row; null is none of them."""
    pa, pc = pyarrow(), pyarrow("compute")
    known = pa.array(list(SPLITS), pa.large_string())

    def masks() -> Iterator[dict[str, Tensor]]:
        for part in parts_of(staging, paths, [name]):
            column = plain(part.columns[name])
            for value in pc.unique(column).to_pylist():
                if value is not None and value not in SPLITS:
                    raise SchemaError(f"{part.path}: column {name!r} holds {value!r}, which is no split; known: {list(SPLITS)}")
            folds = pc.index_in(column.cast(pa.large_string()), known, skip_nulls=True).fill_null(-1)
            numbers = folds.to_numpy(zero_copy_only=False)
            yield {
                f"{split}_mask": torch.from_numpy(
                    np.isin(numbers, [k for k, word in enumerate(SPLITS.values()) if word == split])
                )
                for split in ("train", "val", "test")
            }

    return staging.columns(f"{table}.{name}", masks)


def plain(column: Column) -> Column:
    """A column whose values are not numbered in a dictionary."""
    return column.cast(column.type.value_type) if pyarrow().types.is_dictionary(column.type) else column


def _are_strings(parts: Iterable[Part], name: str) -> bool:
    types, kinds = pyarrow().types, (plain(part.columns[name]).type for part in parts)
    return all(types.is_string(kind) or types.is_large_string(kind) for kind in kinds)


def _classes(parts: Iterable[Part], name: str) -> list[str]:
    """The different names, in order."""
    found: set[str] = set()
    for part in parts:
        found.update(pyarrow("compute").unique(plain(part.columns[name])).drop_null().to_pylist())
    return sorted(found)


def _alike(
    staging: Staging, blocks: Iterable[tuple[Part, dict[str, Tensor]]], names: Sequence[str]
) -> Iterator[dict[str, Tensor]]:
    """The columns of some parts, which have one width each, and are whole numbers everywhere or nowhere."""
    seen: dict[str, tuple[bool, torch.Size]] = {}
    for part, columns in blocks:
        for title, rows in columns.items():
            kind = rows.dtype.is_floating_point, rows.shape[1:]
            if len(rows) and seen.setdefault(title, kind) != kind:
                for name in names:
                    _refuse_uneven(staging, part.path, name)
                raise InputError(f"column {title!r} has other kinds or numbers of values in one file than in another")
        yield columns


def _refuse_uneven(staging: Staging, path: Path, name: str) -> None:
    """
    Raises:
        InputError: lists in a column of a file are of several lengths.
    """
    lengths = {length for part in parts_of(staging, [path], [name]) for length in _lengths(part.columns[name])}
    if len(lengths) > 1:
        raise InputError(f"{path}: lists in column {name!r} have {min(lengths)} to {max(lengths)} entries, expected one length")


def _lengths(column: Column) -> list[int]:
    """Different numbers of entries; none of a column that does not hold lists."""
    return pyarrow("compute").list_value_length(column).unique().to_pylist() if _is_list(column.type) else []


def _is_list(kind: object) -> bool:
    types = pyarrow().types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _tensor(staging: Staging, column: Column, part: Part, name: str) -> Tensor:
    """Numbers, bools, times or lists of numbers of one length as a tensor."""
    pa, pc = pyarrow(), pyarrow("compute")
    kind, path = column.type, part.path
    if _is_list(kind):
        lengths = _lengths(column) or [0]
        if len(lengths) > 1:
            _refuse_uneven(staging, path, name)
        entries = Part(path=path, first=part.first * lengths[0], columns={name: pc.list_flatten(column)})
        return _tensor(staging, entries.column(name), entries, name).view(len(column), lengths[0])
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
    return torch.from_numpy(np.require(_numbers(column), requirements="W"))


def _numbers(column: Column) -> np.ndarray:
    values: np.ndarray = column.to_numpy(zero_copy_only=False) if isinstance(column, pyarrow().Array) else column.to_numpy()
    return values
