"""A cache of rows that other hosts own: what was fetched lately and is needed often stays here, within some bytes."""

import math
import os
import threading
from dataclasses import dataclass

import torch
from torch import Tensor

from halohop import ops
from halohop.cluster.merging import Rows
from halohop.errors import InputError
from halohop.memory import parse_size
from halohop.ops.cache import MOST_COLUMNS, PLACE_BYTES, WAYS
from halohop.store.schema import Schema, TableSpec
from halohop.telemetry import Gauge
from halohop.typing import RESERVED, TableKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Cached:
    """What a cache has of some rows: which (positions, int64), the rows, and which it does not have."""

    here: Tensor
    rows: Rows
    missing: Tensor


class RowCache:
    """Rows of nodes, whichever columns were fetched of each. One for all threads of a process.

    Only what never changes is kept: stored and given columns, ids, blocks and degrees; never a column that clients write. Sparse
    columns, and rows of edges, which batches hardly need twice, are fetched anew.

    The room is divided among the node types by the size of their rows; a type's part is taken when its first rows come. A process
    that was forked keeps nothing of its own: a lock may be held, and its parent's rows are not its own.

    Args:
        schema: of the graph.
        room: bytes for all rows, and what finds them.
        pool: where the memory of answers comes from.
    """

    def __init__(self, schema: Schema, room: int, pool: ops.Pool) -> None:
        self._pool = pool
        self._process = os.getpid()
        self._dense = {
            name: frozenset(column for column, spec in table.columns.items() if not spec.sparse)
            for name, table in schema.nodes.items()
        }
        sizes = {name: table.count * _bytes_of_row(table) for name, table in schema.nodes.items()}
        total = max(sum(sizes.values()), 1)
        self._tables = {name: _Table(room=room * sizes[name] // total, count=table.count) for name, table in schema.nodes.items()}

    def take(self, table: TableKey, columns: tuple[str, ...], gid: Tensor) -> Cached | None:
        """Rows that are here; None where such rows are never kept."""
        kept = self._kept(table, columns)
        if kept is None:
            return None
        with kept.lock:
            places = kept.find(columns, gid, self._pool)
            here = ops.known_places(places)
            at = ops.gather_rows(places, here, pool=self._pool)
            rows = tuple(ops.gather_rows(kept.columns[name], at, pool=self._pool) for name in columns) if len(here) else ()
        return Cached(here=here, rows=(rows, {}), missing=ops.missing_places(places))

    def keep(self, table: TableKey, columns: tuple[str, ...], gid: Tensor, rows: Rows) -> None:
        """Takes rows that were fetched."""
        kept = self._kept(table, columns)
        if kept is not None and len(gid):
            with kept.lock:
                kept.put(columns, gid, rows[0], self._pool)

    def statistics(self) -> dict[str, float]:
        """How many rows are here now."""
        return {"cache_kept_rows": Gauge(sum(table.num_kept for table in self._tables.values()))}

    def _kept(self, table: TableKey, columns: tuple[str, ...]) -> "_Table | None":
        if not isinstance(table, str) or os.getpid() != self._process:
            return None
        unchanging = all(name in self._dense[table] or name.startswith(RESERVED) for name in columns)
        return self._tables[table] if columns and unchanging else None


def cache_of(size: str | int | None, schema: Schema, pool: ops.Pool) -> RowCache | None:
    """The cache that a user asks for: none, or one of so many bytes.

    Raises:
        InputError: it is no size.
    """
    if size is None:
        return None
    if isinstance(size, bool) or (room := parse_size(size)) < 1:
        raise InputError(f"cache={size!r} is no size of a cache; give bytes, such as '512MB', or None for no cache")
    return RowCache(schema, room, pool)


class _Table:
    """Rows of one node type. Their memory is taken for the columns that were asked for so far, anew when there is another."""

    def __init__(self, *, room: int, count: int) -> None:
        self.room, self.count = room, count
        self.lock = threading.Lock()
        self.columns: dict[str, Tensor] = {}
        self.index: ops.CacheIndex | None = None

    @property
    def num_kept(self) -> int:
        return 0 if self.index is None else self.index.num_kept

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
        self.index = ops.CacheIndex(places)
        self.columns = {name: column.new_empty((self.index.num_places, *column.shape[1:])) for name, column in like.items()}

    def _bits(self, columns: tuple[str, ...]) -> int:
        numbers = {name: number for number, name in enumerate(self.columns)}
        return sum(1 << numbers[name] for name in {*columns})


def _row_bytes(column: Tensor) -> int:
    return column.element_size() * column.shape[1:].numel()


def _bytes_of_row(table: TableSpec) -> int:
    """Of all columns and the id."""
    itemsizes: dict[str, int] = {spec.stored_dtype: getattr(torch, spec.stored_dtype).itemsize for spec in table.columns.values()}
    return 8 + sum(itemsizes[spec.stored_dtype] * math.prod(spec.shape) for spec in table.columns.values())
