"""Rows of tables in the memory of owners on this machine: read there, without the network and without waking the owner.

An owner counts up before and after it writes. A read that met a write is made again, and left to the network when that goes on.
The owner's memory is reached through the owner's process (/proc), so it is gone with that: each read looks at its file first.
"""

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor

from halohop import ops
from halohop.partitioning.book import Book
from halohop.store.part import Part
from halohop.tables.arrays import MappedRows, map_shared
from halohop.tables.beginnings import Begins
from halohop.tables.making import begins_of
from halohop.tables.messages import SharedPart
from halohop.tables.spec import TableSpec
from halohop.telemetry import Counters

_TRIES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """Rows that were read here.

    Args:
        rows: where they were written; those that are missing are undefined.
        missing: positions (int64, ascending) of rows that were never written, and whose beginnings are not known here.
        steps: that they have seen.
    """

    rows: Tensor
    missing: Tensor
    steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A partition's rows in another process's memory.

    Args:
        where: of these rows, as the owner says.
        mapped: the rows.
        begins: what rows are that were never written; None: zeros.
        knows: whether that is known here.
    """

    where: SharedPart
    mapped: MappedRows
    begins: Begins | None
    knows: bool

    @property
    def is_there(self) -> bool:
        """Whether the owner still has these rows."""
        try:
            found = Path(self.where.path).stat()
        except OSError:
            return False
        return f"{found.st_dev}:{found.st_ino}" == self.where.identity


class SharedRows:
    """What this process can read of owners' memory.

    Args:
        book: who owns what.
        parts: partitions that are in this process, too: their ids say what rows begin with.
        pool: where the memory of rows comes from.
        counters: of rows and bytes that were read here ("table_shared_rows", "table_shared_bytes").
    """

    def __init__(self, book: Book, parts: Mapping[int, Part], pool: ops.Pool, counters: Counters) -> None:
        self._book, self._parts, self._pool, self._counters = book, parts, pool, counters
        self._lock = threading.Lock()
        self._where: dict[str, dict[int, SharedPart]] = {}  # by digest of the table, and partition
        self._mapped: dict[str, dict[int, _Part | None]] = {}  # None: cannot be mapped

    def know(self, spec: TableSpec, shared: tuple[SharedPart, ...]) -> None:
        """Where an owner's rows of a table are."""
        with self._lock:
            where, mapped = self._where.setdefault(spec.digest, {}), self._mapped.setdefault(spec.digest, {})
            for one in shared:
                if where.get(one.part) != one:
                    where[one.part] = one
                    mapped.pop(one.part, None)

    def forget(self, spec: TableSpec) -> None:
        """The table is gone."""
        with self._lock:
            self._where.pop(spec.digest, None)
            self._mapped.pop(spec.digest, None)

    def take(self, spec: TableSpec, gid: Tensor, out: Tensor | None = None, positions: Tensor | None = None) -> Taken | None:
        """Rows of one owner; None where they cannot be read here.

        Args:
            spec: of the table.
            gid: int64 ``[n]``.
            out: where they are written, ``[m, *shape]`` in the table's dtype; None: new memory.
            positions: of each row in `out`, int64 ``[n]``; None: in order, and there are no others.
        """
        digest = spec.digest
        if digest not in self._where or not len(gid):
            return None
        shares: list[tuple[_Part, Tensor, Tensor]] = []
        for part, lid, order in self._divided(spec, gid):
            mapped = self._part(spec, part)
            if mapped is None:
                return None
            shares.append((mapped, lid, order))
        whole = self._pool.empty((len(gid), *spec.shape), spec.torch_dtype) if out is None else out
        for _ in range(_TRIES):
            taken = self._taken(spec, shares, whole, positions)
            if taken is not None:
                held = len(gid) - len(taken.missing)
                self._counters.add_all({"table_shared_rows": held, "table_shared_bytes": held * spec.row_bytes})
                return taken
        return None

    def _divided(self, spec: TableSpec, gid: Tensor) -> Iterator[tuple[int, Tensor, Tensor]]:
        """By partition that has some of the rows: its number, their lids, and where they stand."""
        bounds = spec.bounds(self._book)
        if (only := ops.only_part(gid, bounds)) is not None:
            yield only, torch.from_numpy(gid.numpy() - bounds[only]), torch.arange(len(gid))
            return
        buckets = ops.bucket(gid, bounds, range(self._book.num_parts), pool=self._pool)
        for part, (begin, end) in enumerate(pairwise(buckets.starts)):
            if begin < end:
                order = buckets.order[begin:end]
                yield part, torch.from_numpy(ops.gather_rows(gid, order).numpy() - bounds[part]), order

    def _taken(
        self, spec: TableSpec, shares: list[tuple[_Part, Tensor, Tensor]], whole: Tensor, positions: Tensor | None
    ) -> Taken | None:
        """The rows as they were at one moment; None where that did not come about."""
        before = [int(part.mapped.counts[0]) for part, _, _ in shares]
        if any(number % 2 for number in before):  # one of them is being written, or is gone
            return None
        missing = []
        for part, lid, order in shares:
            at = order if positions is None else ops.pick_rows(positions, order)
            ops.gather_rows_to(part.mapped.source, lid, at, whole)
            fresh = _fresh(part.mapped, lid)
            if len(fresh) and part.knows:
                begun = torch.zeros((len(fresh), *spec.shape), dtype=spec.torch_dtype)
                if part.begins is not None:
                    part.begins.fill(begun, lid[fresh])
                ops.scatter_rows(begun, at[fresh], whole)
            elif len(fresh):
                missing.append(order[fresh])
        steps = [int(part.mapped.counts[1]) for part, _, _ in shares]
        after = [int(part.mapped.counts[0]) for part, _, _ in shares]
        if before != after or len(set(steps)) > 1:
            return None
        gone = torch.cat(missing).sort().values if missing else torch.empty(0, dtype=torch.int64)
        return Taken(rows=whole, missing=gone, steps=steps[0])

    def _part(self, spec: TableSpec, part: int) -> _Part | None:
        """A partition's rows, mapped when they are first asked for; None where that cannot be, or the owner is gone."""
        digest = spec.digest
        with self._lock:
            mapped, where = self._mapped.get(digest), self._where.get(digest, {}).get(part)
            if mapped is None or where is None:
                return None
            if part not in mapped:
                mapped[part] = self._map(spec, where)
            found = mapped[part]
            if found is not None and not found.is_there:
                found = mapped[part] = None
            return found

    def _map(self, spec: TableSpec, where: SharedPart) -> _Part | None:
        bounds = spec.bounds(self._book)
        count = bounds[where.part + 1] - bounds[where.part]
        mapped = map_shared(where, spec, count)
        if mapped is None:
            return None
        here = self._parts.get(where.part)
        knows = (here is not None or spec.key is None) and spec.begin.kind != "given"
        begins = begins_of(spec, self._book, where.part, here) if knows else None
        return _Part(where=where, mapped=mapped, begins=begins, knows=knows)


def _fresh(mapped: MappedRows, lid: Tensor) -> Tensor:
    """Positions (int64) of rows that were never written."""
    if mapped.touched is None:
        return torch.empty(0, dtype=torch.int64)
    return (ops.gather_rows(mapped.touched, lid) == 0).nonzero().view(-1)
