"""What a table is: rows that lie with the partitions, and what they are before anybody has written them."""

import hashlib
import math
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal

import torch

from halohop.errors import InputError
from halohop.partitioning.book import Book
from halohop.typing import TableKey

Storage = Literal["memory", "disk"]
BeginningKind = Literal["constant", "uniform", "normal", "column", "given"]

MAX_NAME = 200
"""Characters of a table's name; it is part of names of files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """What the rows of a table are before they are written: a function of the seed, the table's name and the row's raw id.

    Args:
        kind: "constant" (every entry is `low`), "uniform" (from `low` to `high`), "normal" (mean `low`, standard deviation
            `high`), "column" (the rows of a stored column), or "given" (a client writes them all, from a callable of ids).
        low, high: see `kind`.
        seed: of "uniform" and "normal".
        name: of the stored column; of the callable, which another client's must equal; or what random numbers are named by
            instead of the table's name, so that tables of two names begin alike.
    """

    kind: BeginningKind = "constant"
    low: float = 0.0
    high: float = 0.0
    seed: int = 0
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSpec:
    """A table: its rows belong to the nodes of a type, to the edges of a relation, or to themselves.

    Args:
        name: unique in the graph.
        key: the node type or relation whose rows it has; None for rows of its own, which are numbered from 0.
        num_rows: how many.
        shape: of a row.
        dtype: as torch calls it, without "torch.".
        begin: what rows are that were never written.
        storage: whether owners keep it in memory, or in files that they map.
    """

    name: str
    key: TableKey | None
    num_rows: int
    shape: tuple[int, ...]
    dtype: str
    begin: Beginning = field(default_factory=Beginning)
    storage: Storage = "memory"

    @property
    def torch_dtype(self) -> torch.dtype:
        """
        Raises:
            InputError: torch has no such dtype.
        """
        dtype = getattr(torch, self.dtype, None)
        if not isinstance(dtype, torch.dtype):
            raise InputError(f"table {self.name!r} is to be of dtype {self.dtype!r}, which torch does not have")
        return dtype

    @property
    def row_bytes(self) -> int:
        """Of one row."""
        return self.torch_dtype.itemsize * math.prod(self.shape)

    @property
    def digest(self) -> str:
        """The same for equal specs, and for no others."""
        return _digest(self)

    def bounds(self, book: Book) -> tuple[int, ...]:
        """Rows bounds[p] to bounds[p + 1] - 1, by gid, lie with partition p. Rows of their own are divided evenly; a gid is
        their number."""
        if self.key is not None:
            return tuple(book.bounds(self.key))
        return tuple(part * self.num_rows // book.num_parts for part in range(book.num_parts + 1))


@lru_cache(maxsize=1024)
def _digest(spec: TableSpec) -> str:
    begin = replace(spec.begin, low=float(spec.begin.low), high=float(spec.begin.high))  # as they are after a journey
    return hashlib.blake2b(repr(replace(spec, begin=begin)).encode(), digest_size=8).hexdigest()
