"""What columns side by side are, in plain Python: the specification of `halohop.ops.records`."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from halohop.ops.records import Field


def packed(columns: Sequence[Sequence[int]], fields: Sequence[Field]) -> list[int]:
    """A word for each row, of columns as whole numbers."""
    rows = zip(*columns, strict=True)
    return [sum(value - field.low << field.shift for value, field in zip(row, fields, strict=True)) for row in rows]


def unpacked(words: Sequence[int], field: Field) -> list[int]:
    """A column as whole numbers."""
    return [(word >> field.shift) % 2**field.bits + field.low for word in words]


def taken(columns: Mapping[str, Tensor], names: Sequence[str], rows: Sequence[int]) -> dict[str, Tensor]:
    """Some rows of some columns; where a row is -1, zeros."""
    found = {}
    for name in names:
        column = columns[name]
        found[name] = torch.stack([column[row] if row >= 0 else column.new_zeros(()) for row in rows])
    return found
