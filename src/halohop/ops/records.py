"""Narrow columns of one table side by side, so that a row of all of them is read with one cache line."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop.ops import cpu_records
from halohop.ops.missing import fill_missing, gather_known
from halohop.ops.pieces import Pieces
from halohop.ops.pool import Pool, empty
from halohop.ops.rows import gather_rows

_CHUNK = 1 << 16  # rows that are packed at a time
_SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)
_WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """Where a column lies in the words of its records: ``(word >> shift) % 2**bits + low``, as a whole number.

    Args:
        dtype: of the column. Numbers that are no signed integers are their bits, read as one that is not negative.
        shift, bits: of the word.
        low: the least number.
    """

    dtype: torch.dtype
    shift: int
    bits: int
    low: int


class Records:
    """Columns of one number a row, each as many bits as its numbers differ by, in words of 4 or 8 bytes.

    Args:
        words: int32 or int64, in the pieces that the columns lie in.
        fields: by name.

    Example:
        >>> columns = {"y": torch.tensor([7, -1, 40]), "train_mask": torch.tensor([True, False, True])}
        >>> records = Records.of({name: Pieces([column], [0, 3]) for name, column in columns.items()})
        >>> records.fields["y"].bits, records.num_bytes
        (6, 12)
        >>> {name: rows.tolist() for name, rows in records.take(["train_mask", "y"], torch.tensor([2, 1])).items()}
        {'train_mask': [True, False], 'y': [40, -1]}
    """

    def __init__(self, words: Pieces, fields: Mapping[str, Field]) -> None:
        self._words, self.fields = words, fields
        self._numbers = {
            name: (np.uint64(field.shift), np.uint64(2**field.bits - 1), np.uint64(field.low % 2**64))
            for name, field in fields.items()
        }

    @classmethod
    def of(cls, columns: Mapping[str, Pieces], dtypes: Mapping[str, torch.dtype] | None = None) -> "Records | None":
        """Records of those columns that fit into a word, the narrowest first; None if not even two do.

        Args:
            columns: `can_hold` each of them, all with the same bounds.
            dtypes: of what is read, where another one than the column's is asked for: of integers only.
        """
        ranges = {name: _range(pieces) for name, pieces in columns.items()}
        fields: dict[str, Field] = {}
        used = 0
        for name in sorted(columns, key=lambda name: (ranges[name][1] - ranges[name][0]).bit_length()):
            low, high = ranges[name]
            bits = (high - low).bit_length()
            if used + bits > 64:
                break
            dtype = (dtypes or {}).get(name, columns[name].dtype)
            fields[name] = Field(dtype=dtype, shift=min(used, 63), bits=bits, low=low)
            used += bits
        if len(fields) < 2:
            return None
        word = torch.int32 if used <= 32 else torch.int64
        first = columns[next(iter(fields))]
        pieces = [
            None if column is None else _packed({name: columns[name].tensors[number] for name in fields}, fields, word)
            for number, column in enumerate(first.tensors)
        ]
        return cls(Pieces(pieces, first.bounds.tolist()), fields)

    @staticmethod
    def can_hold(column: Pieces) -> bool:
        """Whether it has one number a row, of at most 8 bytes."""
        return column.row_shape == () and column.row_bytes in _WORDS and column.extra == 0

    @property
    def num_bytes(self) -> int:
        """What the words weigh."""
        return sum(piece.nbytes for piece in self._words.tensors if piece is not None)

    def take(self, names: Sequence[str], rows: Tensor, *, padded: bool = False, pool: Pool | None = None) -> dict[str, Tensor]:
        """Rows of some of the columns, each in its dtype.

        Args:
            names: of fields.
            rows: int64 ``[n]``; if `padded`, -1 is none: zeros.
            pool: where the memory of the result comes from.

        Raises:
            IdError: a row that is not here.
        """
        gather = gather_known if padded else gather_rows
        words = gather(self._words, rows, pool=pool).numpy()
        words = words.view(f"u{words.itemsize}")
        found = {}
        for name in names:
            out = empty(pool, (len(rows),), self.fields[name].dtype)
            cpu_records.unpack(words, *self._numbers[name], _unsigned(out))
            if padded:
                fill_missing(out, rows)
            found[name] = out
        return found


def _packed(columns: Mapping[str, Tensor | None], fields: Mapping[str, Field], dtype: torch.dtype) -> Tensor:
    """The words of a piece."""
    words = torch.zeros(len(next(rows for rows in columns.values() if rows is not None)), dtype=dtype)
    into = _unsigned(words)
    for name, column in columns.items():
        assert column is not None, "the columns of a table are here together"
        field = fields[name]
        low, shift = np.uint64(field.low % 2**64), np.uint64(field.shift)
        for begin, values in _chunks(column):
            into[begin : begin + len(values)] |= (values.astype(np.uint64) - low << shift).astype(into.dtype)
    return words


def _range(pieces: Pieces) -> tuple[int, int]:
    """The least and the greatest of a column's numbers."""
    ends = [
        (int(values.min()), int(values.max())) for tensor in pieces.tensors if tensor is not None for _, values in _chunks(tensor)
    ]
    return min((low for low, _ in ends), default=0), max((high for _, high in ends), default=0)


def _chunks(column: Tensor) -> Iterator[tuple[int, NDArray[Any]]]:
    """Where each begins, and its numbers as integers."""
    array = column.view(_WORDS[column.element_size()]).numpy() if column.dtype in _SIGNED else _unsigned(column)
    for begin in range(0, len(array), _CHUNK):
        yield begin, array[begin : begin + _CHUNK]


def _unsigned(column: Tensor) -> NDArray[Any]:
    """The bits of its numbers."""
    size = column.element_size()
    array: NDArray[Any] = column.view(_WORDS[size]).numpy().view(f"u{size}")
    return array
