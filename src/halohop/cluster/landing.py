"""Where the rows of a query arrive: each shard's are written once, straight to the places that the batch has for them."""

from dataclasses import dataclass

import torch
from torch import Tensor

from halohop import ops
from halohop.store.requests import RowQuery


class Landing:
    """The dense columns of a query whose rows come from several shards, or that has places for no row.

    Args:
        asked: the query, with ids -1 where it is padded.
        known: where it has other ids, int64; None where it is not padded.
        pool: where the memory comes from.

    Attributes:
        padded: whether it has places for no row.
    """

    def __init__(self, asked: RowQuery, known: Tensor | None, pool: ops.Pool) -> None:
        self._asked, self._known, self._pool = asked, known, pool
        self.padded = known is not None
        self._columns: dict[int, Tensor] = {}

    def column(self, number: int, dtype: torch.dtype, row_shape: tuple[int, ...]) -> Tensor:
        """The whole of a dense column, by its place among these: ``[n, *row_shape]``, made when it is first asked for."""
        if number not in self._columns:
            self._columns[number] = self._pool.empty((len(self._asked.gid), *row_shape), dtype)
        return self._columns[number]

    def at(self, rows: Tensor) -> "Site":
        """The places of some rows, by their positions among the known ids (int64 ``[n]``)."""
        places = rows if self._known is None else ops.gather_rows(self._known, rows, pool=self._pool)
        return Site(landing=self, places=places)

    @property
    def used(self) -> bool:
        """Whether rows have come here."""
        return bool(self._columns)

    def columns(self) -> tuple[Tensor, ...]:
        """All dense columns, when every row has come; zeros where there is none."""
        whole = tuple(self._columns[number] for number in sorted(self._columns))
        if self._known is not None:
            for column in whole:
                ops.fill_missing(column, self._asked.gid)
        return whole

    @property
    def row_bytes(self) -> int:
        """What a row of the columns weighs that are there so far."""
        return sum(column.element_size() * column.shape[1:].numel() for column in self._columns.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where some rows of a query go.

    Args:
        landing: the whole columns.
        places: in them, int64 ``[n]``.
    """

    landing: Landing
    places: Tensor

    def of(self, some: Tensor, pool: ops.Pool) -> "Site":
        """The places of some of its rows, by position."""
        return Site(landing=self.landing, places=ops.gather_rows(self.places, some, pool=pool))

    def gather(self, number: int, source: Tensor | ops.Pieces, rows: Tensor) -> None:
        """Copies rows of a source (int64 ``[n]``) to the places, in the dense column of a number."""
        row_shape = source.row_shape if isinstance(source, ops.Pieces) else tuple(source.shape[1:])
        ops.gather_rows_to(source, rows, self.places, self.landing.column(number, source.dtype, row_shape))

    def put(self, number: int, rows: Tensor) -> None:
        """Copies rows ``[n, ...]`` there."""
        ops.scatter_rows(rows, self.places, self.landing.column(number, rows.dtype, tuple(rows.shape[1:])))
