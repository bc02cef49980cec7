"""Columns of labels in tables: one class for each node, or whether it belongs to each of several."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from halohop.datasets.arrow import pyarrow
from halohop.datasets.kinds import DECIMALS, STRINGS, Kind, kind_name
from halohop.datasets.staging import Staging
from halohop.datasets.table_columns import alike, numbers_in, refuse_rows
from halohop.datasets.table_parts import Part, characters, parts_of
from halohop.errors import InputError


def labels(
    staging: Staging, table: str, paths: list[Path], name: str, given: str | None = None
) -> tuple[Tensor, tuple[str, ...]]:
    """Classes as int64, -1 for nodes without one, and the names of the classes if these are text. For `given` see `kind_name`."""
    parts = staging.again(lambda: parts_of(staging, paths, [name], characters(name)))
    found = staging.fact(f"{table}.{name}.kind", lambda: kind_name(lambda: ((part, name) for part in parts()), given), str)
    kind = Kind(name=found, given=given is not None)
    if found == STRINGS:
        classes = staging.fact(f"{table}.{name}.classes", lambda: _classes(parts(), name, kind), list[str])
        known = pyarrow().array(classes, pyarrow().large_string())

        def numbers() -> Iterator[Tensor]:
            for part in parts():
                column = kind.column(part, name, "text")
                codes = pyarrow("compute").index_in(column, known, skip_nulls=True).fill_null(-1)
                yield torch.from_numpy(np.require(codes.to_numpy(zero_copy_only=False), np.int64, "W"))

        return staging.column(f"{table}.{name}", numbers), tuple(classes)
    return staging.column(f"{table}.{name}", lambda: (_class_numbers(part, name, kind) for part in parts())), ()


def _class_numbers(part: Part, name: str, kind: Kind) -> Tensor:
    column = kind.column(part, name, "a whole number")
    if kind.name != DECIMALS:
        numbers = column.cast(pyarrow().int64()).fill_null(-1)
        return torch.from_numpy(np.require(numbers.to_numpy(zero_copy_only=False), requirements="W"))
    values = column.to_numpy(zero_copy_only=False)  # what a data frame makes of integers with gaps; nulls are NaN
    known = ~np.isnan(values)
    odd = np.flatnonzero(known & ((np.floor(values) != values) | (np.abs(values) >= 2**63)))
    if len(odd):
        row = int(odd[0])
        raise InputError(
            f"{part.path}: labels in column {name!r} must be whole numbers that fit int64, or strings everywhere: "
            f"row {part.row(row)} holds {column[row].as_py()!r}"
        )
    return torch.from_numpy(np.where(known, values, -1).astype(np.int64))


def memberships(staging: Staging, table: str, paths: list[Path], names: tuple[str, ...]) -> Tensor:
    """Memberships of nodes in several classes: bool ``[num_nodes, num_classes]``, or int8 if some are not known.

    -1 means not known; fields that are -1, NaN or empty become -1.

    Raises:
        InputError: a value is not 0, 1 or -1; names its row.
    """
    title = ", ".join(names)

    def blocks() -> Iterator[tuple[Part, dict[str, Tensor]]]:
        for part in parts_of(staging, paths, names):
            columns = [_membership(staging, part, name) for name in names]
            yield part, {title: torch.stack(columns, dim=1)}

    return staging.columns(f"{table}.{title}", lambda: alike(staging, blocks(), names))[title]


def _membership(staging: Staging, part: Part, name: str) -> Tensor:
    rows = numbers_in(staging, part, name, missing=True)
    known = rows.nan_to_num(nan=-1.0)
    refuse_rows((known != 0) & (known != 1) & (known != -1), rows, part, name, "0 or 1, or -1 if it is not known")
    return known.bool() if (known >= 0).all() else known.to(torch.int8)


def _classes(parts: Iterable[Part], name: str, kind: Kind) -> list[str]:
    """The different names, in order."""
    found: set[str] = set()
    for part in parts:
        found.update(pyarrow("compute").unique(kind.column(part, name, "text")).drop_null().to_pylist())
    return sorted(found)
