"""One table at its owner: the rows of the partitions that are here, read and changed as a whole."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import product

import numpy as np
import torch
from torch import Tensor

from halohop import ops
from halohop.errors import ClusterError, IdError, SchemaError
from halohop.tables.filling import Filling
from halohop.tables.held import Held, Piece
from halohop.tables.messages import SharedPart, TableListing
from halohop.tables.rules import Rule
from halohop.tables.spec import TableSpec

_READS = 2  # tries without the lock
_CHILD_SECONDS, _PAUSE = 10.0, 0.001  # of a forked process, which has no lock


class Table:
    """The rows of a table in some partitions.

    Changes are made with `lock` held, within `changing`. Reads need no lock unless a change comes between: a read that met one
    is made again.

    Args:
        spec: what it is.
        bounds: of all partitions.
        pieces: those that are here, at least one.

    Attributes:
        spec: what it is.
        digest: of the spec.
        lock: held by those who change it.
        pieces: its partitions that are here.
        optimizer, rule: what trains it; empty and None: nothing does.
        steps: of the optimiser, so far.
        is_dropped: it is no table of the owner's any more.
        filling: of a table whose rows a client makes.
    """

    def __init__(self, spec: TableSpec, bounds: tuple[int, ...], pieces: tuple[Piece, ...]) -> None:
        self.spec = spec
        self.digest = spec.digest
        self.lock = threading.RLock()
        self.pieces = pieces
        self.optimizer = ""
        self.rule: Rule | None = None
        self.steps = 0
        self.is_dropped = False
        self.filling: Filling | None = None
        self._held = Held(spec, bounds, pieces)
        self._broken = ""  # why what is here cannot be read any more
        self._counts = [piece.arrays.counts.numpy() for piece in pieces]
        self._process = os.getpid()
        self._arrays: dict[str, ops.Pieces] = {"": self._held.joined([piece.arrays.rows for piece in pieces])}
        touched = [piece.arrays.touched for piece in pieces if piece.arrays.touched is not None]
        self._touched = self._held.joined(touched) if touched else None

    # ---- reading

    def read(self, gid: Tensor, state: str = "", *, pool: ops.Pool | None = None) -> tuple[Tensor, int]:
        """Rows, or an array of the state; and how many steps they have seen.

        Raises:
            SchemaError: no such state.
            IdError: a row that is not here.
            ClusterError: the table was dropped, or a change of it failed half-way.
        """
        for _ in range(_READS):
            if (found := self._read_between_changes(gid, state, pool)) is not None:
                return found
        if os.getpid() == self._process:
            with self.lock:
                return self._read(gid, state, pool), self.steps
        ends, pause = time.monotonic() + _CHILD_SECONDS, threading.Event()
        while (found := self._read_between_changes(gid, state, pool)) is None:
            if time.monotonic() > ends:
                raise ClusterError(
                    f"table {self.spec.name!r} could not be read for {_CHILD_SECONDS:g} s: it is always being changed"
                )
            pause.wait(_PAUSE)
        return found

    def _read_between_changes(self, gid: Tensor, state: str, pool: ops.Pool | None) -> tuple[Tensor, int] | None:
        """What is read without the lock; None if rows were written meanwhile. The counts are those of the process that changes
        them, in a process forked from it, too."""
        before = [int(counts[0]) for counts in self._counts]
        if any(count % 2 for count in before):
            return None
        rows, steps = self._read(gid, state, pool), int(self._counts[0][1])
        return (rows, steps) if before == [int(counts[0]) for counts in self._counts] else None

    def _read(self, gid: Tensor, state: str, pool: ops.Pool | None) -> Tensor:
        self.require_whole()
        source = self._arrays.get(state)
        if source is None:
            known = [name for name in self._arrays if name]
            raise SchemaError(f"table {self.spec.name!r} has no state {state!r}; it has {known}")
        try:
            rows = ops.gather_rows(source, gid, pool=pool)
            if self._touched is None or state:
                return rows
            fresh = np.flatnonzero(ops.gather_rows(self._touched, gid, pool=pool).numpy() == 0)
        except IdError as error:
            raise IdError(f"table {self.spec.name!r}: {error}") from error
        if len(fresh):
            at = torch.from_numpy(fresh)
            for piece, lid, order in self._held.divided(ops.gather_rows(gid, at)):
                ops.scatter_rows(self._beginnings(piece, lid), ops.gather_rows(at, order), rows)
        return rows

    def require_whole(self) -> None:
        """
        Raises:
            ClusterError: the table was dropped, or a change of it failed half-way.
        """
        if self.is_dropped:
            raise ClusterError(f"table {self.spec.name!r} was dropped")
        if self._broken:
            raise ClusterError(
                f"table {self.spec.name!r} cannot be used: a change of it failed half-way ({self._broken}); drop it, and make it "
                "again or load it from a checkpoint"
            )

    def require_here(self, gid: Tensor) -> None:
        """
        Raises:
            IdError: a row that is not here.
        """
        self._held.divided(gid)

    # ---- changing

    @contextmanager
    def changing(self, *, anew: bool = False) -> Iterator[None]:
        """While rows are written; the lock is held. What fails within leaves a table that is refused until all rows are written
        `anew`."""
        self._mark()
        self._broken = "" if anew else self._broken
        try:
            yield
        except BaseException as error:
            self._broken = f"{type(error).__name__}: {error}"
            raise
        finally:
            self._mark()

    def _mark(self) -> None:
        for counts in self._counts:
            counts[0] += 1

    def put(self, gid: Tensor, rows: Tensor, *, add: bool) -> None:
        """Writes rows, of equal ones the last; or adds to them."""
        for piece, lid, order in self._windows(gid):
            given = ops.pick_rows(rows, order)
            if add:
                lid, row = _distinct(lid)
                self._touch(piece, lid)
                given = ops.gather_rows(piece.arrays.source(), lid).index_add_(0, row, given)
            ops.scatter_rows(given, lid, piece.arrays.rows)
            if piece.arrays.touched is not None:
                piece.arrays.touched[lid] = 1

    def step(self, gid: Tensor, grads: ops.SummedRows, *, lr: float, scale: float) -> None:
        """A step of the optimiser; each row occurs once."""
        assert self.rule is not None
        for piece, lid, order in self._windows(gid):
            self._touch(piece, lid)
            own = grads.pick(order)
            self.rule.apply(piece.arrays.rows, piece.arrays.states, lid, own, lr=lr, step=self.steps + 1, scale=scale)
        self.set_steps(self.steps + 1)

    def _windows(self, gid: Tensor) -> Iterator[tuple[Piece, Tensor, Tensor]]:
        """Lids of a piece and their positions, ascending; so many at a time as the pages on disk allow."""
        for piece, lid, order in self._held.divided(gid):
            for window in piece.arrays.windows(lid):
                yield piece, lid[window], order[window]

    def set_steps(self, steps: int) -> None:
        """From now on the table has had so many; the lock is held."""
        self.steps = steps
        for counts in self._counts:
            counts[1] = steps

    def make_states(self, rule: Rule) -> ExitStack:
        """Makes the state of a rule where it is not there, all of it or none; what comes back takes it away when it is closed.

        Raises:
            WriteError, InputError: there is no room for it.
            ClusterError: as of `require_whole`.
        """
        with self.lock, ExitStack() as undo:
            self.require_whole()
            for piece, (name, kept) in product(self.pieces, rule.states().items()):
                if name not in piece.arrays.states:
                    piece.arrays.add_state(name, kept.row_shape, kept.dtype, kept.fill)
                    undo.callback(piece.arrays.drop_state, name)
            return undo.pop_all()

    def train(self, optimizer: str, rule: Rule) -> None:
        """From now on the table has this optimiser, and its state."""
        with self.lock:
            self.make_states(rule)
            for name in rule.states():
                self._arrays[name] = self._held.joined([piece.arrays.states[name] for piece in self.pieces])
            self.optimizer, self.rule = optimizer, rule

    def drop(self) -> None:
        """Gives the memory back, after a change that is under way. Those who wait for its rows hear that it is gone."""
        with self.lock:
            self.is_dropped = True
            for piece in self.pieces:
                piece.arrays.close()
        if self.filling is not None:
            self.filling.end()

    def listing(self) -> TableListing:
        """What it is, and what it takes here."""
        with self.lock:
            return TableListing(
                spec=self.spec,
                steps=self.steps,
                optimizer=self.optimizer,
                state={name: pieces.row_shape for name, pieces in self._arrays.items() if name},
                num_bytes=sum(piece.arrays.num_bytes for piece in self.pieces),
                shared=self.shared(),
            )

    def shared(self) -> tuple[SharedPart, ...]:
        """Where other processes of this machine find the rows."""
        return tuple(place for piece in self.pieces if (place := piece.arrays.shared(piece.part)) is not None)

    # ---- partitions

    def first_of(self, part: int) -> int:
        """The gid of a partition's first row."""
        return self._held.bounds[part]

    def _touch(self, piece: Piece, lid: Tensor) -> None:
        """Writes what rows begin with that were never written; each row occurs once."""
        touched = piece.arrays.touched
        if touched is None:
            return
        fresh = lid[ops.gather_rows(touched, lid) == 0]
        if len(fresh):
            ops.scatter_rows(self._beginnings(piece, fresh), fresh, piece.arrays.rows)
            touched[fresh] = 1

    def _beginnings(self, piece: Piece, lid: Tensor) -> Tensor:
        rows = torch.zeros((len(lid), *self.spec.shape), dtype=self.spec.torch_dtype)
        if piece.begins is not None:
            piece.begins.fill(rows, lid)
        return rows


def _distinct(lid: Tensor) -> tuple[Tensor, Tensor]:
    """Each row once, ascending, and which of these each one is."""
    places, row = np.unique(lid.numpy(), return_inverse=True)
    return torch.from_numpy(places), torch.from_numpy(row)
