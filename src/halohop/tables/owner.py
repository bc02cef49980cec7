"""The owner of tables: it answers every request about the rows that lie with its partitions."""

import math
import os
import secrets
import threading
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from halohop import ops
from halohop.errors import ClusterError, InputError, SchemaError
from halohop.leased import Leased
from halohop.partitioning.book import Book
from halohop.store.part import Part
from halohop.store.requests import Reply
from halohop.tables.catalog import Catalog, filling_of
from halohop.tables.change_messages import (
    Aborted,
    AbortRequest,
    ApplyRequest,
    Changed,
    ChangeRequest,
    LeaveRequest,
    Moment,
    RoundLeft,
    Training,
    TrainRequest,
)
from halohop.tables.changes import Ledger
from halohop.tables.checkpoints import Checkpoints
from halohop.tables.checks import checked
from halohop.tables.deadlines import Deadlines
from halohop.tables.messages import (
    ClearCheckpointsRequest,
    DropTableRequest,
    FilledRequest,
    ListTablesRequest,
    LoadTablesRequest,
    MakeTableRequest,
    ReadRowsRequest,
    RowsRead,
    SaveTablesRequest,
    TableDropped,
    TableFilled,
    TableListings,
    TableMade,
    TableRequest,
)
from halohop.tables.table import Table
from halohop.tables.training import Optimizer
from halohop.tables.turns import AnyOrder
from halohop.telemetry import Gauge
from halohop.uninterrupted import uninterrupted

_MOST_CLIENTS = 16_384
_MOST_REASON = 2_000
"""Characters."""


class Owner:
    """The tables of some partitions, and those who change them. All methods may be called from any thread.

    Args:
        book: who owns what.
        parts: the partitions by number, at least one.
        folder: where tables on disk and checkpoints lie; None: there are none.
        anywhere: this process may save and load checkpoints outside of the folder, and its peers may without one, below the
            working directory.
        pool: where the memory of answers comes from.

    Attributes:
        name: as no other process is called.
        catalog: the tables.
    """

    def __init__(
        self,
        book: Book,
        parts: dict[int, Part],
        *,
        folder: Path | None = None,
        anywhere: bool = False,
        pool: ops.Pool | None = None,
    ) -> None:
        self.name = secrets.token_hex(8)
        self._process = os.getpid()
        self._pool = pool
        self._deadlines = Deadlines(name="halohop-deadlines")
        self.catalog = Catalog(book, parts, folder, self._deadlines)
        self._checkpoints = Checkpoints(folder, anywhere=anywhere, tables=self.catalog.unchanged, restores=self.catalog.replaced)
        self._lock = threading.RLock()  # over the optimisers
        self._optimizers: dict[str, Optimizer] = {}
        self._clients: Leased[str, Ledger] = Leased()

    def answer(self, request: TableRequest[Reply], *, peer: bool = False) -> "Reply | Future[Reply]":
        """The reply, or its future where it waits for other ranks.

        Args:
            request: what is asked.
            peer: another process asks: it names folders of checkpoints below the owner's own.

        Raises (here, or in the future):
            SchemaError: no such table.
            InputError: what cannot be done: nothing was changed.
            IdError: rows that are not here.
            ClusterError: a change that will not happen, or whose processes were replaced.
            DeadlineExceededError: names the ranks that did not come.
        """
        return cast("Reply | Future[Reply]", self._answer(request, peer))

    def _answer(self, request: TableRequest[Any], peer: bool) -> object:
        match request:
            case ReadRowsRequest():
                return self._read(request)
        if os.getpid() != self._process:
            raise ClusterError("tables are read in a process forked from their owner, and changed in the owner only")
        match request:
            case ChangeRequest() | ApplyRequest() | AbortRequest() | LeaveRequest() | TrainRequest():
                with uninterrupted():  # Ctrl-C, where this is the main thread, would leave a change half done
                    return self._answer_rank(request)
            case MakeTableRequest():
                return self._make(request)
            case FilledRequest():
                self.catalog.filled(request.name, request.sender)
                return TableFilled()
            case ListTablesRequest():
                return TableListings(tables=tuple(table.listing() for table in self.catalog.all()), owner=self.name)
            case DropTableRequest():
                self._drop(request.name)
                return TableDropped()
            case SaveTablesRequest() | LoadTablesRequest() | ClearCheckpointsRequest():
                return self._checkpoints.answer(request, peer=peer)
        raise SchemaError(f"an owner of tables cannot answer {type(request).__name__}")

    def _answer_rank(self, request: ChangeRequest | ApplyRequest | AbortRequest | LeaveRequest | TrainRequest) -> object:
        moment = request.moment
        if not 0 <= moment.rank < moment.size or moment.round < 0 or moment.index < 0:
            raise InputError(f"{moment}: ranks are 0 to {moment.size - 1}, rounds and indices 0, 1, ...")
        match request:
            case ChangeRequest():
                return self._change(request)
            case ApplyRequest():
                return self._ledger(request.moment).apply(request.moment, request.scale)
            case AbortRequest():
                self._ledger(request.moment).abort(request.moment, request.reason[:_MOST_REASON])
                return Aborted()
            case LeaveRequest():
                self._ledger(request.moment).leave(request.moment)
                return RoundLeft()
            case TrainRequest():
                return self._train(request)

    # ---- tables

    def _make(self, request: MakeTableRequest) -> TableMade:
        ops.warm_up_tables()
        table, fills = self.catalog.make(request.spec, request.sender, request.parts)
        fills_here = tuple(piece.part for piece in table.pieces if fills)
        return TableMade(fills=fills_here, shared=table.shared(), owner=self.name)

    def _drop(self, name: str) -> None:
        table = self.catalog.remove(name)
        if table is None:
            return
        table.drop()
        for ledger in self._ledgers():
            ledger.drop(table)
        with self._lock:
            trained = {other.optimizer for other in self.catalog.all()}
            ended = [self._optimizers.pop(name) for name in set(self._optimizers) - trained]
        for optimizer in ended:
            optimizer.end(f"optimizer {optimizer.name!r} trains no table any more: table {name!r} was dropped")

    def _read(self, request: ReadRowsRequest) -> "RowsRead | Future[RowsRead]":
        tables = [self.catalog.get(query.name, query.spec) for query in request.queries]
        if (filling := filling_of(tables)) is not None:
            return filling.when_over(lambda: self._read(request))
        pairs = zip(tables, request.queries, strict=True)
        read = [table.read(query.gid, query.state, pool=self._pool) for table, query in pairs]
        return RowsRead(rows=tuple(rows for rows, _ in read), steps=tuple(steps for _, steps in read))

    # ---- changes

    def _change(self, request: ChangeRequest) -> "Changed | Future[Changed]":
        ledger = self._ledger(request.moment, seconds=request.seconds)
        known = ledger.known(request.moment)
        if known is not None:
            return known
        try:
            request, tables = self._checked(request)
        except Exception as error:
            ledger.refuse(request.moment, error)
            raise
        if (filling := filling_of(tables.values(), by=request.moment.group)) is not None:
            return filling.when_over(lambda: self._change(request))
        return ledger.share(request, tables)

    def _checked(self, request: ChangeRequest) -> tuple[ChangeRequest, dict[str, Table]]:
        """A change whose shares were checked, and its tables, which they fit."""
        moment, trains = request.moment, request.way == "step"
        if trains != bool(moment.session) or (not trains and (moment.size, moment.rank, moment.round) != (1, 0, 0)):
            raise InputError(f"{moment} is no moment of a {request.way!r}: ranks of a session share steps, one client the others")
        tables = {share.name: self.catalog.get(share.name, share.spec) for share in request.shares}
        if len(tables) != len(request.shares):
            raise InputError(f"a table occurs twice among the shares {[share.name for share in request.shares]}")
        for share in request.shares:
            if trains and tables[share.name].optimizer != moment.group:
                raise InputError(f"table {share.name!r} is not trained by optimizer {moment.group!r}; begin with a TrainRequest")
        shares = tuple(checked(tables[share.name], share, request.way) for share in request.shares)
        return replace(request, shares=shares), tables

    def _train(self, request: TrainRequest) -> Training:
        moment = request.moment
        if not moment.group or not request.rules:
            raise InputError(f"optimizer {moment.group!r} is to train tables {[*request.rules]}; name it, and a table at least")
        with self._lock:
            tables = {name: self.catalog.get(name) for name in request.rules}
            optimizer = self._optimizers.get(moment.group) or Optimizer(moment.group, self._deadlines, self._pool)
            training = optimizer.join(request, tables)
            self._optimizers[moment.group] = optimizer
            return training

    def _ledger(self, moment: Moment, *, seconds: float = 0.0) -> Ledger:
        """Of the optimiser's steps, or of the client's own changes."""
        if moment.session:
            with self._lock:
                optimizer = self._optimizers.get(moment.group)
                if optimizer is None:
                    raise ClusterError(
                        f"no optimizer {moment.group!r} is here: its tables were dropped, or the owner was started again; begin "
                        "again, from the last checkpoint"
                    )
                return optimizer.ledger_of(moment)
        with self._lock:
            ledger = self._clients.get(moment.group, seconds=seconds)
            if ledger is None and len(self._clients) >= _MOST_CLIENTS:
                raise ClusterError(f"{_MOST_CLIENTS} clients have written to tables lately, the most that an owner remembers")
            if ledger is None:
                ledger = Ledger("change", 1, AnyOrder(), self._deadlines)
                self._clients.put(moment.group, ledger, seconds=seconds)
            return ledger

    def _ledgers(self) -> list[Ledger]:
        clients = self._clients.used_within(math.inf)  # without being used by that
        with self._lock:
            return [*(optimizer.ledger for optimizer in self._optimizers.values()), *clients.values()]

    # ---- as long as the process

    def statistics(self) -> dict[str, float]:
        """What is here now."""
        tables = self.catalog.all()
        return {
            "tables": Gauge(len(tables)),
            "table_bytes": Gauge(sum(piece.arrays.num_bytes for table in tables for piece in table.pieces)),
            "kept_senders": Gauge(len(self._clients)),
            "pending_changes": Gauge(sum(ledger.num_pending for ledger in self._ledgers())),
        }

    def sweep(self, lease_seconds: float) -> None:
        """Forgets clients that have changed nothing for a lease, and whose changes can no longer come again; and steps whose
        ranks were not heard of. Tables and optimisers stay."""
        self._clients.sweep(lease_seconds)
        for ledger in self._ledgers():
            ledger.sweep(lease_seconds)

    def close(self) -> None:
        """Those who wait hear that it ends, and the memory is given back. Safe to call twice; a forked process ends nothing."""
        if os.getpid() != self._process:
            return
        self._deadlines.close()
        self._checkpoints.close()
        for ledger in self._ledgers():
            ledger.end(lambda: ClusterError("the owner of the tables has ended"))
        for table in self.catalog.all():
            self.catalog.remove(table.spec.name)
            table.drop()
