"""Columns of text and Parquet tables as tensors: numbers, lists, times, classes and splits."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from halohop.datasets.arrow import Column, is_text, pyarrow
from halohop.datasets.kinds import DECIMALS, Kind, plain
from halohop.datasets.staging import Staging
from halohop.datasets.table_parts import Part, characters, parts_of
from halohop.errors import InputError, SchemaError
from halohop.ops import TIME_DTYPES, WEIGHT_DTYPES
from halohop.store.schema import SPLITS

SAMPLED_OF_NODES = {"time": TIME_DTYPES}
SAMPLED_OF_EDGES = {"time": TIME_DTYPES, "weight": WEIGHT_DTYPES}
"""Columns that sampling reads, and the dtypes that it takes of them."""


def split_name(text: str) -> str:
    """What a split is called here.

    Raises:
        SchemaError: it is none.
    """
    if text not in SPLITS:
        raise SchemaError(f"unknown split {text!r}; known: {list(SPLITS)}")
    return SPLITS[text]


def stacked(
    staging: Staging, table: str, paths: list[Path], names: tuple[str, ...], dtype: str, *, missing: bool = False
) -> Tensor:
    """Columns side by side as a matrix of finite numbers.

    Args:
        staging: where the matrix is collected.
        table: begins the name of what is staged.
        paths, names: which columns of which files.
        dtype: of the matrix, as torch names it.
        missing: whether empty fields and NaN are kept as NaN.

    Raises:
        InputError: a value is missing, infinite or does not fit the dtype; names its row.
    """
    kind = getattr(torch, dtype, None)
    if not isinstance(kind, torch.dtype) or kind.is_complex:
        raise InputError(
            f"dtype {dtype!r} is not a torch dtype of real numbers; use float32, float16, bfloat16, float64, int64, ..."
        )
    distinct, title = list(dict.fromkeys(names)), ", ".join(names)
    remedy = "" if missing else "; set allow_missing = true in graph.toml to keep missing values as NaN"

    def blocks() -> Iterator[tuple[Part, dict[str, Tensor]]]:
        floats = dict.fromkeys(distinct if kind == torch.float32 else (), pyarrow().float32())
        for part in parts_of(staging, paths, names, floats):
            values = [_fitting(numbers_in(staging, part, name, missing=missing), kind, part, name, remedy) for name in distinct]
            flat = [rows.reshape(len(rows), -1) if len(rows) else rows.reshape(0, 1) for rows in values]
            yield part, {title: torch.cat(flat, dim=1)}

    return staging.columns(f"{table}.{title}", lambda: alike(staging, blocks(), distinct))[title]


def columns_of(
    staging: Staging,
    table: str,
    paths: list[Path],
    named: Mapping[str, str],
    dtype: torch.dtype | None = None,
    *,
    sampled: Mapping[str, Sequence[torch.dtype]] = {},
) -> dict[str, Tensor]:
    """Columns of all files, by what they are called here, under their own dtypes or a common one; decimal fractions in text
    are float64. Columns that are `sampled` hold a finite number in each row, in one of some dtypes.
    """
    if not named:
        return {}
    allowed = {name: sampled[target] for target, name in named.items() if target in sampled}

    def numbers(part: Part, name: str) -> Tensor:
        rows = numbers_in(staging, part, name)
        kind = _sampled_dtype(rows, part, name, allowed[name]) if name in allowed else dtype
        return rows if kind is None else _fitting(rows, kind, part, name)

    def blocks() -> Iterator[tuple[Part, dict[str, Tensor]]]:
        for part in parts_of(staging, paths, list(named.values())):
            yield part, {name: numbers(part, name) for name in dict.fromkeys(named.values())}

    columns = staging.columns(f"{table}.{','.join(named)}", lambda: alike(staging, blocks(), list(named.values())))
    return {target: columns[name] for target, name in named.items()}


def _sampled_dtype(rows: Tensor, part: Part, name: str, allowed: Sequence[torch.dtype]) -> torch.dtype:
    """The dtype of times or weights: as they are, or the next larger one that sampling takes."""
    if rows.dim() == 1 and rows.dtype in allowed:
        return rows.dtype
    if rows.dim() > 1 or rows.dtype == torch.bool:
        found = "lists" if rows.dim() > 1 else "true and false"
        raise InputError(f"{part.path}: column {name!r} holds {found}, expected one number in each row: a time or a weight")
    return torch.float32 if rows.is_floating_point() else torch.int64


def _fitting(
    rows: Tensor, kind: torch.dtype, part: Part, name: str, remedy: str = "; fill it in, or leave the row out"
) -> Tensor:
    """Numbers as a dtype; without a `remedy` for NaN it is kept.

    Raises:
        InputError: one is not finite, or does not fit; names its row.
    """
    found = rows.to(kind)
    if found.is_floating_point():
        wide = found.float() if kind.itemsize == 1 else found
        wrong = ~(wide.isfinite() if remedy else wide.isfinite() | rows.isnan())
    else:
        wrong = found.to(rows.dtype) != rows
    expected = "0 or 1" if kind == torch.bool else f"a finite number that fits {str(kind).removeprefix('torch.')}"
    refuse_rows(wrong, rows, part, name, expected, remedy)
    return found


def refuse_rows(wrong: Tensor, rows: Tensor, part: Part, name: str, expected: str, remedy: str = "") -> None:
    """
    Raises:
        InputError: one of the rows is wrong; names the first, its value, and the remedy if the value is NaN.
    """
    places = wrong.flatten().nonzero()
    if len(places):
        place = int(places[0])
        value = rows.flatten()[place].item()
        row = part.row(place // (rows[:1].numel() or 1))
        raise InputError(
            f"{part.path}: column {name!r} holds {value} in row {row}, expected {expected}{remedy if value != value else ''}"
        )


def split_masks(staging: Staging, table: str, paths: list[Path], name: str) -> dict[str, Tensor]:
    """Masks from a column that names the split of each row; null is none of them."""
    pa, pc = pyarrow(), pyarrow("compute")
    known = pa.array(list(SPLITS), pa.large_string())

    def masks() -> Iterator[dict[str, Tensor]]:
        for part in parts_of(staging, paths, [name], characters(name)):
            column = plain(part.columns[name])
            folds = pc.index_in(column.cast(pa.large_string()), known, skip_nulls=True)
            unknown = np.flatnonzero(pc.and_(folds.is_null(), column.is_valid()).to_numpy(zero_copy_only=False))
            if len(unknown):
                value, row = column[int(unknown[0])].as_py(), part.row(int(unknown[0]))
                raise SchemaError(
                    f"{part.path}: column {name!r} holds {value!r} in row {row}, which is not a split; known: {list(SPLITS)}"
                )
            numbers = folds.fill_null(-1).to_numpy(zero_copy_only=False)
            yield {
                f"{split}_mask": torch.from_numpy(
                    np.isin(numbers, [k for k, word in enumerate(SPLITS.values()) if word == split])
                )
                for split in ("train", "val", "test")
            }

    return staging.columns(f"{table}.{name}", masks)


def alike(
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


def numbers_in(staging: Staging, part: Part, name: str, *, missing: bool = False) -> Tensor:
    """Numbers, bools, times or lists of numbers of one length as a tensor.

    Args:
        staging: how files are read.
        part, name: which column.
        missing: whether nulls become NaN.

    Raises:
        InputError: a null, values of another kind, or lists of several lengths.
    """
    pa, pc = pyarrow(), pyarrow("compute")
    column, path = part.columns[name], part.path
    kind = column.type
    if _is_list(kind):
        lengths = _lengths(part.column(name)) or [0]
        if len(lengths) > 1:
            _refuse_uneven(staging, path, name)
        entries = Part(path=path, first=part.first, columns={name: pc.list_flatten(column)}, entries=lengths[0])
        return numbers_in(staging, entries, name, missing=missing).view(len(column), lengths[0])
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        try:
            column = column.cast(pa.timestamp("s", getattr(kind, "tz", None))).cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise InputError(f"{path}: times in column {name!r} are finer than seconds; store them as integers") from error
    elif pa.types.is_null(kind):  # a text file without rows, or a column without values
        column = column.cast(pa.float64())
    elif pa.types.is_unsigned_integer(kind) and kind.bit_width > 8:
        try:
            column = column.cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise InputError(f"{path}: column {name!r} holds a number over 2**63 - 1: {error}") from error
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        if is_text(path):
            for rows in parts_of(staging, [path], [name], characters(name)):
                Kind(name=DECIMALS).column(rows, name, "a number")  # raises, and names the row, unless another file holds text
        raise InputError(f"{path}: column {name!r} holds {kind}, expected numbers")
    if column.null_count and missing:
        column = column.cast(pa.float64())
    elif column.null_count:
        part.column(name)  # raises
    return torch.from_numpy(np.require(_numbers(column), requirements="W"))


def _numbers(column: Column) -> np.ndarray:
    values: np.ndarray = column.to_numpy(zero_copy_only=False) if isinstance(column, pyarrow().Array) else column.to_numpy()
    return values
