"""Rows of one column, whatever holds them."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from halohop import ops


class Feature(Protocol):
    """A column of the partitions that are here: in memory or mapped from disk (`Stored`), on disk with copies of some rows in
    memory (`halohop.ops.HotRows`), or of entries that are not zero (`halohop.ops.SparsePieces`). Rows come as they are stored."""

    def take(self, rows: Tensor, *, padded: bool = False, pool: ops.Pool | None = None) -> Tensor | ops.SparseRows:
        """Some rows, int64 ``[n]``, in any order and number; if `padded`, -1 is none: zeros.

        Raises:
            IdError: a row that is not here.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A dense column; rows of pieces on disk are asked for before they are read."""

    pieces: ops.Pieces

    def take(self, rows: Tensor, *, padded: bool = False, pool: ops.Pool | None = None) -> Tensor:
        gather = ops.gather_known if padded else ops.gather_rows
        return gather(self.pieces, rows, pool=pool)
