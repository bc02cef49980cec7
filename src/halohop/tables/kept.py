"""A table at its owner, as checkpoints see it: arrays by partition, and which raw id each row has."""

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from halohop import ops
from halohop.errors import ClusterError
from halohop.store.npy import bytes_of
from halohop.store.part import Part
from halohop.tables.arrays import TableArrays
from halohop.tables.making import ids_of
from halohop.tables.rule_spec import RuleSpec
from halohop.tables.rules import Rule
from halohop.tables.spec import TableSpec
from halohop.tables.table import Table

Finds = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Of raw ids (int64 ``[n]``): positions (int64, ascending) of those whose rows are here, and the lids of these."""

_CHUNK_BYTES = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPart:
    """The rows of a table in one partition.

    Args:
        arrays: rows and state.
        raw_id: of each row, int64 or int32 ``[n]``; None where it is the gid.
        first: the gid of the first row.
    """

    arrays: TableArrays
    raw_id: Tensor | None
    first: int

    def ids(self, lid: Tensor) -> Tensor:
        """Raw ids of rows, int64."""
        return lid + self.first if self.raw_id is None else ops.gather_rows(self.raw_id, lid).long()

    def changed(self) -> Tensor:
        """Rows that are not as they began: lids, ascending."""
        if self.arrays.touched is not None:
            return torch.from_numpy(np.flatnonzero(self.arrays.touched.numpy()))
        found = [chunk[self._differ(chunk)] for chunk in chunks(torch.arange(len(self.arrays.rows)), self.arrays)]
        return torch.cat(found) if found else torch.empty(0, dtype=torch.int64)

    def _differ(self, lid: Tensor) -> Tensor:
        """Which of these rows are not zeros, or have a state."""
        rows = ops.gather_rows(self.arrays.source(), lid)
        differ = rows.reshape(len(lid), -1).view(torch.uint8).ne(0).any(1)
        for name, fill in self.arrays.fills.items():
            differ |= ops.gather_rows(self.arrays.source(name), lid).reshape(len(lid), -1).ne(fill).any(1)
        return differ

    def finder(self) -> Finds:
        """What finds rows; of ids in no order it sorts them first."""
        if self.raw_id is None:
            return lambda ids: _within(ids - self.first, len(self.arrays.rows))
        raw = self.raw_id.numpy()
        order = None if ops.never_falls(torch.tensor((0, len(raw))), self.raw_id) else np.argsort(raw)

        def find(ids: Tensor) -> tuple[Tensor, Tensor]:
            if not len(raw):
                return _within(ids.new_full(ids.shape, -1), 0)
            at = np.searchsorted(raw, ids.numpy(), sorter=order).clip(max=len(raw) - 1)
            lid = at if order is None else order[at]
            return _within(torch.from_numpy(np.where(raw[lid] == ids.numpy(), lid, -1)), len(raw))

        return find


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptTable:
    """A table at its owner, while nobody else changes it.

    Args:
        spec: of the table.
        optimizer, rule: which trains it; empty and None where none does.
        parts: its rows, by partition.
    """

    spec: TableSpec
    optimizer: str
    rule: RuleSpec | None
    parts: Mapping[int, KeptPart]

    @property
    def steps(self) -> int:
        """Of its optimiser, so far."""
        return max((int(part.arrays.counts[1]) for part in self.parts.values()), default=0)

    @property
    def owns(self) -> str:
        """A number of the raw ids of all its rows, in order."""
        digest = hashlib.blake2b(digest_size=16)
        for _, part in sorted(self.parts.items()):
            count = len(part.arrays.rows)
            digest.update(f"{part.first} {count};".encode() if part.raw_id is None else bytes_of(part.raw_id.contiguous()))
        return digest.hexdigest()


@contextmanager
def unchanged(tables: Sequence[Table], parts: Mapping[int, Part], *, whole: bool) -> Iterator[dict[str, KeptTable]]:
    """Tables by name, of which none is changed within the block: all are as they were at one moment.

    Args:
        tables: at their owner.
        parts: the owner's partitions.
        whole: their rows are to be read.

    Raises:
        ClusterError: one to be read was dropped, a change of it failed half-way, or a client has yet to make its rows.
    """
    with ExitStack() as stack:
        for table in sorted(tables, key=lambda table: table.spec.name):
            stack.enter_context(table.lock)
            if whole:
                table.require_whole()
            if whole and table.filling is not None and not table.filling.is_over:
                raise ClusterError(f"a client is making the rows of table {table.spec.name!r}; save it after that")
        yield {table.spec.name: _kept(table, parts) for table in tables}


@contextmanager
def replaced(table: Table, rule: Rule | None, steps: int, parts: Mapping[int, Part]) -> Iterator[KeptTable]:
    """A table all of whose rows are written within the block, with the state of this rule; nobody reads it meanwhile.

    Args:
        table: at its owner; it may be one that could not be used any more.
        rule: whose state is there; None: what is there of another one begins again.
        steps: how many its optimiser has had then.
        parts: the owner's partitions.
    """
    with table.lock, table.changing(anew=True):
        if rule is not None and table.rule is None:
            table.train("", rule)  # whatever optimiser comes with this rule
        yield _kept(table, parts)
        table.set_steps(steps)
    if table.filling is not None:
        table.filling.end()


def _kept(table: Table, parts: Mapping[int, Part]) -> KeptTable:
    kept = {
        piece.part: KeptPart(arrays=piece.arrays, raw_id=ids_of(table.spec, parts[piece.part]), first=table.first_of(piece.part))
        for piece in table.pieces
    }
    rule = None if table.rule is None else table.rule.spec
    return KeptTable(spec=table.spec, optimizer=table.optimizer, rule=rule, parts=kept)


def chunks(lid: Tensor, arrays: TableArrays) -> Iterator[Tensor]:
    """Some of these rows at a time, so that few of them are in memory twice."""
    yield from lid.split(rows_at_once(arrays)) if len(lid) else ()


def rows_at_once(arrays: TableArrays) -> int:
    """How many are copied at a time."""
    widest = max(array.element_size() * math.prod(array.shape[1:]) for array in (arrays.rows, *arrays.states.values()))
    return max(_CHUNK_BYTES // max(widest, 1), 1)


def _within(lid: Tensor, count: int) -> tuple[Tensor, Tensor]:
    places = torch.from_numpy(np.flatnonzero((lid.numpy() >= 0) & (lid.numpy() < count)))
    return places, ops.gather_rows(lid, places)
