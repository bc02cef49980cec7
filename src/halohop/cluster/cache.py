"""A cache of rows that other hosts own: what was fetched for the last batches, or is needed often, stays, within some bytes."""

import math
import os
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from halohop import ops
from halohop.cluster.landing import Site
from halohop.cluster.merging import Rows
from halohop.errors import InputError
from halohop.memory import parse_size, spare_bytes
from halohop.ops.cache import MOST_COLUMNS, PLACE_BYTES, WAYS
from halohop.ops.pool import empty
from halohop.partitioning.book import Book
from halohop.store.schema import Schema, TableSpec
from halohop.telemetry import Gauge
from halohop.typing import RESERVED, NodeType, TableKey

AUTO = "auto"
"""A cache of at most the memory that may lie idle (`halohop.memory.spare_bytes`): 1/16 of the machine's, 4 GiB at most."""
_RARE = 8
_ROUNDS = 2  # so many rows for each place are asked for before their use is judged


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """Which of some rows a cache had, and which not: positions, int64."""

    here: Tensor
    missing: Tensor


class RowCache:
    """Rows of nodes, whichever columns were fetched of each. One for all threads of a process.

    Only what never changes is kept: stored and given columns, ids, blocks and degrees; never a column that clients write. Sparse
    columns, and rows of edges, which batches hardly need twice, are fetched anew.

    The room is divided among the node types by the size of their rows; a type's part is taken when its first rows come. A process
    that was forked keeps nothing of its own: a lock may be held, and its parent's rows are not its own.

    It costs little where it does not help: of a type whose rows are hardly ever needed again, only every eighth answer is kept,
    which shows whether that stays so.

    Args:
        schema: of the graph.
        room: bytes for all rows, and what finds them.
        pool: where the memory of answers comes from.
        counts: of each node type, how many nodes other hosts own; None: all.
    """

    def __init__(self, schema: Schema, room: int, pool: ops.Pool, counts: Mapping[NodeType, int] | None = None) -> None:
        self._pool = pool
        self._process = os.getpid()
        self._dense = {
            name: frozenset(column for column, spec in table.columns.items() if not spec.sparse)
            for name, table in schema.nodes.items()
        }
        counts = {name: table.count for name, table in schema.nodes.items()} if counts is None else counts
        sizes = {name: counts[name] * _bytes_of_row(table) for name, table in schema.nodes.items()}
        total = max(sum(sizes.values()), 1)
        self._tables = {name: _Table(room=room * sizes[name] // total, count=counts[name]) for name in schema.nodes}

    def take(self, table: TableKey, columns: tuple[str, ...], gid: Tensor, site: Site) -> Taken | None:
        """Copies the rows that are here to their places; None where such rows are never kept."""
        kept = self._kept(table, columns)
        if kept is None:
            return None
        with kept.lock:
            places = kept.find(columns, gid, self._pool)
            here = ops.known_places(places)
            kept.note(len(gid), len(here))
            if len(here):
                at, site = ops.gather_rows(places, here, pool=self._pool), site.of(here, self._pool)
                for number, name in enumerate(columns):
                    site.gather(number, kept.columns[name], at)
        return Taken(here=here, missing=ops.missing_places(places))

    def keep(self, table: TableKey, columns: tuple[str, ...], gid: Tensor, rows: Rows) -> None:
        """Takes rows that were fetched."""
        kept = self._kept(table, columns)
        if kept is not None and len(gid):
            with kept.lock:
                if kept.takes_more():
                    kept.put(columns, gid, rows[0], self._pool)

    def statistics(self) -> dict[str, float]:
        """How many rows are here now, and their bytes; and how many were looked for in vain so far."""
        tables = self._tables.values()
        return {
            "cache_kept_rows": Gauge(sum(table.num_kept for table in tables)),
            "cache_kept_bytes": Gauge(sum(table.num_kept * table.row_bytes for table in tables)),
            "cache_missed_rows": sum(table.missed for table in tables),
        }

    def _kept(self, table: TableKey, columns: tuple[str, ...]) -> "_Table | None":
        if not isinstance(table, str) or os.getpid() != self._process:
            return None
        unchanging = all(name in self._dense[table] or name.startswith(RESERVED) for name in columns)
        return self._tables[table] if columns and unchanging else None


def cache_of(size: str | int | None, schema: Schema, book: Book, parts: Collection[int], pool: ops.Pool) -> RowCache | None:
    """The cache that a user asks for: none, one of so many bytes, or `AUTO`.

    Args:
        size: as users give it.
        schema: of the graph.
        book: who owns what.
        parts: the partitions that are in this process.
        pool: where the memory of answers comes from.

    Raises:
        InputError: it is no size.
    """
    if size is None:
        return None
    if isinstance(size, bool) or (room := spare_bytes() if size == AUTO else parse_size(size)) < 1:
        raise InputError(f"cache={size!r} is no size of a cache; give bytes, such as '512MB', {AUTO!r}, or None for no cache")
    counts = {name: bounds[-1] - sum(book.count(name, part) for part in parts) for name, bounds in book.nodes.items()}
    return RowCache(schema, room, pool, counts)


class _Table:
    """Rows of one node type. Their memory is taken for the columns that were asked for so far, anew when there is another."""

    def __init__(self, *, room: int, count: int) -> None:
        self.room, self.count = room, count
        self.lock = threading.Lock()
        self.missed = 0
        self.row_bytes = 0
        self._asked = self._found = 0  # rows, of late: those of before count half, again and again
        self._answers = 0
        self.columns: dict[str, Tensor] = {}
        self.index: ops.CacheIndex | None = None

    @property
    def num_kept(self) -> int:
        return 0 if self.index is None else self.index.num_kept

    def note(self, asked: int, found: int) -> None:
        """Takes in how many of some rows were here."""
        self.missed += asked - found
        self._asked, self._found = self._asked + asked, self._found + found
        if self.index is not None and self._asked > 2 * _ROUNDS * self.index.num_places:
            self._asked, self._found = self._asked // 2, self._found // 2

    def takes_more(self) -> bool:
        """Whether an answer is to be kept; called once for each."""
        self._answers += 1
        early = self.index is None or self._asked < _ROUNDS * self.index.num_places
        return early or self._found * _RARE >= self._asked or self._answers % _RARE == 0

    def find(self, columns: tuple[str, ...], gid: Tensor, pool: ops.Pool) -> Tensor:
        if self.index is None or not self.columns.keys() >= set(columns):
            missing = pool.empty((len(gid),), gid.dtype)
            missing.numpy().fill(-1)
            return missing
        return self.index.find(gid, self._bits(columns), pool=pool)

    def put(self, columns: tuple[str, ...], gid: Tensor, rows: tuple[Tensor, ...], pool: ops.Pool) -> None:
        if not self.columns.keys() >= set(columns):
            self._make_room(dict(zip(columns, rows, strict=True)))
        if self.index is not None:
            places = self.index.take_places(gid, self._bits(columns), pool=pool)
            for name, fetched in zip(columns, rows, strict=True):
                ops.scatter_rows(fetched, places, self.columns[name])

    def _make_room(self, more: dict[str, Tensor]) -> None:
        """Memory for the columns that were asked for before, and more; what was kept is forgotten."""
        like = {name: column[:0] for name, column in {**self.columns, **more}.items()}
        row_bytes = PLACE_BYTES + sum(_row_bytes(column) for column in like.values())
        places = min(self.room // row_bytes, -(-self.count // WAYS) * 2 * WAYS)
        if places < WAYS or len(like) > MOST_COLUMNS:
            return
        self.row_bytes = row_bytes
        self.index = ops.CacheIndex(places)
        self.columns = {name: _memory(column, self.index.num_places) for name, column in like.items()}

    def _bits(self, columns: tuple[str, ...]) -> int:
        numbers = {name: number for number, name in enumerate(self.columns)}
        return sum(1 << numbers[name] for name in {*columns})


def _memory(like: Tensor, count: int) -> Tensor:
    """Room for so many rows, in huge pages: rows are read at random places."""
    return empty(None, (count, *like.shape[1:]), like.dtype)


def _row_bytes(column: Tensor) -> int:
    return column.element_size() * column.shape[1:].numel()


def _bytes_of_row(table: TableSpec) -> int:
    """Of all columns and the id."""
    itemsizes: dict[str, int] = {spec.stored_dtype: getattr(torch, spec.stored_dtype).itemsize for spec in table.columns.values()}
    return 8 + sum(itemsizes[spec.stored_dtype] * math.prod(spec.shape) for spec in table.columns.values())
