"""Rows that lie in several pieces, brought into the order of their ids."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from halohop import ops
from halohop.datasets.staging import Staging
from halohop.errors import IdError, InputError

_CHUNK_ROWS = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """The rows of one piece by id: `ids` ascending, and where in the piece each is (None: at its own place)."""

    ids: Tensor
    position: Tensor | None

    @classmethod
    def of(cls, ids: Tensor) -> Self:
        rising = all(bool((chunk.diff() >= 0).all()) for chunk in _overlapping(ids))
        if rising:
            return cls(ids=ids, position=None)
        order = torch.argsort(ids, stable=True)
        return cls(ids=ids[order], position=order)

    def between(self, first: int, last: int) -> tuple[Tensor, Tensor]:
        """The ids from `first` to `last` that are here, and where they are."""
        low, high = torch.searchsorted(self.ids, torch.tensor([first, last], dtype=self.ids.dtype)).tolist()
        return self.ids[low:high], torch.arange(low, high) if self.position is None else self.position[low:high]


class Order:
    """Where the rows 0, 1, 2, ... of a table are among several pieces.

    Pieces whose ids ascend take no memory, others 16 bytes a row.

    Args:
        ids: of each piece, the id of each of its rows, int64.
        num_rows: how many ids there are.
        what: of what, for errors: "node of type 'user'".

    Raises:
        IdError: an id is in no piece, or occurs twice, or is not from 0 to num_rows - 1.

    Example:
        >>> order = Order([torch.tensor([2, 0]), torch.tensor([1])], 3, "node")
        >>> order.restored([torch.tensor([[20.0], [0.0]]), torch.tensor([[10.0]])], "x", Staging()).flatten().tolist()
        [0.0, 10.0, 20.0]
    """

    def __init__(self, ids: Sequence[Tensor], num_rows: int, what: str) -> None:
        self._pieces, self._num_rows, self._what = [_Piece.of(piece) for piece in ids], num_rows, what
        self._check()

    def restored(self, pieces: Sequence[Tensor], name: str, staging: Staging) -> Tensor:
        """The rows of a column in the order of their ids; the column itself where there is one piece, in order.

        Args:
            pieces: its rows in each piece, ``[rows, ...]``.
            name: of the column, for errors, and for files of the staging.
            staging: where the rows are collected.

        Raises:
            InputError: a piece has another number of rows than ids, or the pieces differ in dtype or shape.
        """
        for number, (piece, rows) in enumerate(zip(self._pieces, pieces, strict=True)):
            if len(rows) != len(piece.ids):
                raise InputError(f"{name} of partition {number} has {len(rows)} rows, but {len(piece.ids)} ids; write it again")
            if (rows.dtype, rows.shape[1:]) != (pieces[0].dtype, pieces[0].shape[1:]):
                raise InputError(f"{name} is {_form(pieces[0])} in partition 0, but {_form(rows)} in partition {number}")
        if len(pieces) == 1 and self._pieces[0].position is None:
            return pieces[0]
        return staging.column(name, lambda: self._chunks(pieces, staging.chunk_bytes), self._num_rows)

    def _chunks(self, pieces: Sequence[Tensor], chunk_bytes: int) -> Iterator[Tensor]:
        row_bytes = pieces[0].dtype.itemsize * math.prod(pieces[0].shape[1:])
        step = max(chunk_bytes // max(row_bytes, 1), 1)
        for first in range(0, max(self._num_rows, 1), step):
            rows = pieces[0].new_empty((min(step, self._num_rows - first), *pieces[0].shape[1:]))
            for piece, column in zip(self._pieces, pieces, strict=True):
                ids, position = piece.between(first, first + len(rows))
                rows[ids - first] = ops.gather_rows(column, position)
            yield rows

    def _check(self) -> None:
        for piece in self._pieces:
            for id in piece.ids[[0, -1]].tolist() if len(piece.ids) else ():
                if not 0 <= id < self._num_rows:
                    raise IdError(f"there is a {self._what} with id {id}, but ids go from 0 to {self._num_rows - 1}")
        for first in range(0, self._num_rows, _CHUNK_ROWS):
            last = min(first + _CHUNK_ROWS, self._num_rows)
            found = torch.cat([piece.between(first, last)[0] for piece in self._pieces])
            times = torch.bincount(found - first, minlength=last - first)
            wrong = torch.nonzero(times != 1).flatten()
            if len(wrong):
                count = int(times[wrong[0]])
                raise IdError(
                    f"{self._what} {int(wrong[0]) + first} is in no partition; copy the whole folder"
                    if count == 0
                    else f"{self._what} {int(wrong[0]) + first} is in the partitions {count} times; "
                    "they were written twice into one folder: write them again into an empty one"
                )


def _overlapping(ids: Tensor) -> Iterator[Tensor]:
    """All ids by chunks, each of which begins with the last id of the one before."""
    for first in range(0, max(len(ids) - 1, 0), _CHUNK_ROWS):
        yield ids[first : first + _CHUNK_ROWS + 1]


def _form(column: Tensor) -> str:
    return f"{column.dtype} {list(column.shape[1:])}"
