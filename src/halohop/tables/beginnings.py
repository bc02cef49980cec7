"""What rows of a table are before they are written: computed wherever they are read, so nothing is sent or stored for them."""

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from halohop import ops
from halohop.errors import InputError
from halohop.tables.spec import TableSpec


class Begins(Protocol):
    """What the rows of one partition begin with. Several threads may ask at once."""

    def fill(self, out: Tensor, lid: Tensor) -> None:
        """Writes what rows begin with.

        Args:
            out: ``[k, *shape]`` of the table's dtype, contiguous.
            lid: int64 ``[k]``, rows of the partition.
        """


def beginnings_of(spec: TableSpec, *, raw: Tensor | None, offset: int, column: Tensor | None) -> Begins | None:
    """What the rows of a partition begin with: the same for a row wherever it lies and in whatever order rows are asked for.

    Args:
        spec: of the table.
        raw: int64 or int32 ``[n]``, the user's ids of the partition's rows; None where they are numbered, from `offset` on.
        offset: the gid of the partition's first row.
        column: of "column", the rows of that column of this partition, ``[n, *shape]`` of any dtype.

    Returns:
        None where rows begin as zeros, or are all written by a client before anybody reads them.

    Raises:
        InputError: random numbers for a table that is not of floats, a constant that its dtype does not have, bounds that are not
            finite or in the wrong order, a column of other rows.
    """
    begin = spec.begin
    match begin.kind:
        case "given":
            return None
        case "constant":
            value = _constant(spec)
            return None if not value.any() else _Constant(value=value)
        case "column":
            if column is None or tuple(column.shape[1:]) != spec.shape:
                found = "is not there" if column is None else f"has rows of shape {tuple(column.shape[1:])}"
                raise InputError(f"table {spec.name!r} begins with column {begin.name!r}, which {found}; expected {spec.shape}")
            return _Column(rows=column)
        case "uniform" | "normal":
            _check_random(spec)
            key = ops.name_key(seed=begin.seed, name=begin.name or spec.name)
            return _Random(spec=spec, key=key, raw=raw, offset=offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Constant:
    value: Tensor

    def fill(self, out: Tensor, lid: Tensor) -> None:
        out[:] = self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    rows: Tensor

    def fill(self, out: Tensor, lid: Tensor) -> None:
        if self.rows.dtype == out.dtype:
            ops.gather_rows(self.rows, lid, out=out)
        else:
            out.copy_(ops.gather_rows(self.rows, lid))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Random:
    spec: TableSpec
    key: int
    raw: Tensor | None
    offset: int

    def fill(self, out: Tensor, lid: Tensor) -> None:
        ids = lid + self.offset if self.raw is None else ops.gather_rows(self.raw, lid).long()
        begin = self.spec.begin
        fill = ops.fill_uniform if begin.kind == "uniform" else ops.fill_normal
        fill(out, self.key, ids, begin.low, begin.high)


def _constant(spec: TableSpec) -> Tensor:
    """The number that all entries begin with, in the table's dtype."""
    wanted, dtype = spec.begin.low, spec.torch_dtype
    exact = dtype.is_floating_point or dtype.is_complex
    limits = (
        (0, 1) if dtype == torch.bool else (-math.inf, math.inf) if exact else (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
    )
    if not exact and not (float(wanted).is_integer() and limits[0] <= wanted <= limits[1]):
        raise InputError(f"table {spec.name!r} of {spec.dtype} is to begin with {wanted}, which {spec.dtype} does not have")
    return torch.tensor(wanted if exact else int(wanted), dtype=dtype)


def _check_random(spec: TableSpec) -> None:
    begin = spec.begin
    if spec.torch_dtype not in ops.FLOATS:
        raise InputError(f"table {spec.name!r} of {spec.dtype} cannot begin with {begin.kind} numbers; make it of floats")
    if not (math.isfinite(begin.low) and math.isfinite(begin.high)):
        raise InputError(f"table {spec.name!r} is to begin with {begin.kind} numbers of {begin.low} and {begin.high}: not finite")
    if begin.kind == "uniform" and begin.high < begin.low:
        raise InputError(f"table {spec.name!r} is to begin with numbers from {begin.low} to {begin.high}; swap the two")
    if begin.kind == "normal" and begin.high < 0:
        raise InputError(f"table {spec.name!r} is to begin with a standard deviation of {begin.high}; it must be at least 0")
