"""What a table consists of while it is moved: columns that are read a range of rows at a time, never as a whole."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from halohop import ops
from halohop.files.pages import give_back, is_mapped
from halohop.store.tables import is_dense

_SMALL = 1 << 20  # bytes: to look at the process's mappings costs as much as to copy so many

Rows = Callable[[int, int, Tensor | None], Tensor]
"""Some rows of a column: those at the places from the first number to the second, in an order (int64 or int32, the row at each
place) or in their own (None). What comes is not to be written to."""

_NARROWED_BYTES = 1 << 20  # of rows that are narrowed at a time


class Column(Protocol):
    """One column of a table: `shape` is that of a row."""

    @property
    def dtype(self) -> torch.dtype: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def mapped(self) -> bool:
        """Whether its rows are read from a mapped file."""
        ...

    def rows(self, first: int, last: int) -> Rows:
        """The rows from `first` to ``last - 1``, which are the places 0, 1, ... here."""
        ...

    def release(self, first: int, last: int) -> None:
        """These rows are not read again soon: what is a file's memory is given back."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A tensor of the user's, in memory or mapped over a file."""

    tensor: Tensor
    mapped: bool = False

    @classmethod
    def of(cls, tensor: Tensor) -> "Given":
        """The tensor, which may be mapped."""
        return cls(tensor=tensor, mapped=in_file(tensor))

    @property
    def dtype(self) -> torch.dtype:
        return self.tensor.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.tensor.shape[1:])

    def rows(self, first: int, last: int) -> Rows:
        some = self.tensor.detach()[first:last]
        return lambda begin, end, order: some[begin:end] if order is None else ops.gather_rows(some, order[begin:end])

    def release(self, first: int, last: int) -> None:
        if self.mapped:
            rows = self.tensor[first:last]
            give_back(rows.data_ptr(), rows.nbytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """0, 1, 2, ...: the number of each row."""

    dtype: torch.dtype
    shape: tuple[int, ...] = field(default=(), init=False)
    mapped: bool = field(default=False, init=False)

    def rows(self, first: int, last: int) -> Rows:
        def numbers(begin: int, end: int, order: Tensor | None) -> Tensor:
            if order is None:
                return torch.arange(first + begin, first + end, dtype=self.dtype)
            return order[begin:end].to(self.dtype) + first if first else order[begin:end].to(self.dtype)

        return numbers

    def release(self, first: int, last: int) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LookedUp:
    """Rows of another table: row i is ``table[places[i]]``.

    Args:
        places: which.
        table: in memory; None where the numbers themselves are meant.
        dtype: of the result.
    """

    places: Column
    table: Tensor | None
    dtype: torch.dtype
    shape: tuple[int, ...] = field(default=(), init=False)

    @property
    def mapped(self) -> bool:
        return self.places.mapped

    def rows(self, first: int, last: int) -> Rows:
        table, places = self.table, self.places.rows(first, last)
        if table is None:
            return lambda begin, end, order: places(begin, end, order).to(self.dtype)
        return lambda begin, end, order: ops.gather_rows(table, places(begin, end, order)).to(self.dtype)

    def release(self, first: int, last: int) -> None:
        self.places.release(first, last)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Derived:
    """What is made of a column has its rows' shape and its file."""

    column: Column

    @property
    def shape(self) -> tuple[int, ...]:
        return self.column.shape

    @property
    def mapped(self) -> bool:
        return self.column.mapped


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowed(_Derived):
    """A column of floats that is stored in fewer bytes than it has.

    Args:
        column: as it is given.
        how: it is stored.
    """

    how: ops.Narrow

    @property
    def dtype(self) -> torch.dtype:
        found: torch.dtype = getattr(torch, self.how.dtype)
        return found

    def rows(self, first: int, last: int) -> Rows:
        rows, step = self.column.rows(first, last), max(_NARROWED_BYTES // max(row_bytes(self.column), 1), 1)

        def narrow(begin: int, end: int, order: Tensor | None) -> Tensor:
            out = torch.empty((end - begin, *self.shape), dtype=self.dtype)
            for at in range(begin, end, step):  # as they are given they take several times as much
                stop = min(at + step, end)
                out[at - begin : stop - begin] = ops.narrowed(rows(at, stop, order), self.how)
            return out

        return narrow

    def release(self, first: int, last: int) -> None:
        self.column.release(first, last)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shifted(_Derived):
    """The rows of a column from `first` on."""

    first: int

    @property
    def dtype(self) -> torch.dtype:
        return self.column.dtype

    def rows(self, first: int, last: int) -> Rows:
        return self.column.rows(self.first + first, self.first + last)

    def release(self, first: int, last: int) -> None:
        self.column.release(self.first + first, self.first + last)


def given(columns: Mapping[str, Tensor], stored: Mapping[str, ops.Narrow]) -> dict[str, Column]:
    """Columns of a table by name; `stored` says how some are stored in fewer bytes."""
    found: dict[str, Column] = {name: Given.of(column) for name, column in columns.items()}
    return found | {name: Narrowed(column=found[name], how=how) for name, how in stored.items()}


def row_bytes(column: Column) -> int:
    """What a row of a column weighs."""
    return column.dtype.itemsize * math.prod(column.shape)


def in_file(column: Tensor) -> bool:
    """Whether a dense column is mapped over a file, row after row; small ones are taken for being in memory."""
    return is_dense(column) and column.nbytes >= _SMALL and column.is_contiguous() and is_mapped(column.data_ptr())


def resident(column: Tensor) -> Tensor:
    """A column of a few bytes a node that is looked up in any order: in memory, if it is mapped over a file."""
    column = column.detach()
    return column.clone() if in_file(column) else column
