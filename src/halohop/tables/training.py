"""An optimiser at an owner: the tables that it trains, its ranks, and the session in which they train."""

import secrets
from collections import deque
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial

from halohop import ops
from halohop.errors import ClusterError, InputError
from halohop.tables.change_messages import Moment, Training, TrainRequest
from halohop.tables.changes import Ledger
from halohop.tables.deadlines import Deadlines
from halohop.tables.rules import Rule
from halohop.tables.table import Table
from halohop.tables.turns import InRounds

_REMEMBERED = 1024
"""Sessions and processes that are over, and are refused."""


class Optimizer:
    """What trains some tables. Its methods are called by one thread at a time.

    A session is that of some processes, one for each rank. It ends when another process comes for a rank that is taken.

    Args:
        name: of the optimiser.
        deadlines: of its steps.
        pool: where the memory of sums comes from.

    Attributes:
        ledger: of the steps of the present session.
        session: its name; empty before the first.
    """

    def __init__(self, name: str, deadlines: Deadlines, pool: ops.Pool | None = None) -> None:
        self.name = name
        self.session = ""
        self._deadlines, self._pool = deadlines, pool
        self._size = 0
        self._senders: dict[int, str] = {}
        self._over: deque[str] = deque(maxlen=_REMEMBERED)
        self.ledger = self._new_ledger(0)

    def join(self, request: TrainRequest, tables: Mapping[str, Table]) -> Training:
        """A rank comes to train these tables: all of them, or none.

        Raises:
            WriteError: there is no room for the state of one.
            InputError: a table has another optimiser, or this one by another rule, or cannot be trained.
            ClusterError: the session, or the process, is over: others have begun to train since.
        """
        moment = request.moment
        rules = {name: self._rule_for(table, request) for name, table in tables.items()}
        if moment.session in self._over or request.sender in self._over:
            raise self._replaced(moment)
        with ExitStack() as undo:
            for name, table in tables.items():
                undo.enter_context(table.make_states(rules[name]))
            undo.pop_all()
        begins = self._senders.get(moment.rank, request.sender) != request.sender or self._size != moment.size
        if begins if not moment.session else moment.session != self.session:
            self._begin(moment.session or secrets.token_hex(8), moment.size)
        for name, table in sorted(tables.items()):
            if (table.optimizer, table.rule and table.rule.spec) != (self.name, rules[name].spec):
                table.train(self.name, rules[name])
        self._senders[moment.rank] = request.sender
        return Training(session=self.session, steps={name: table.steps for name, table in tables.items()})

    def ledger_of(self, moment: Moment) -> Ledger:
        """The ledger of the steps that these processes make.

        Raises:
            ClusterError: others have begun to train since, or their number differs.
        """
        if moment.session != self.session:
            raise self._replaced(moment)
        if moment.size != self._size:
            raise ClusterError(f"optimizer {self.name!r} is trained by {self._size} ranks, not by {moment.size}")
        return self.ledger

    def end(self, reason: str) -> None:
        """No step is taken any more."""
        self.ledger.end(partial(ClusterError, reason))

    def _begin(self, session: str, size: int) -> None:
        if self.session:
            self._over.append(self.session)
            self._over.extend(sender for rank, sender in self._senders.items() if rank in self.ledger.ranks)
            self.end(f"other processes have begun to train with optimizer {self.name!r}; these are not its trainers any more")
        self.session, self._size, self._senders = session, size, {}
        self.ledger = self._new_ledger(size)

    def _new_ledger(self, size: int) -> Ledger:
        return Ledger(f"step of optimizer {self.name!r}, number", size, InRounds(size), self._deadlines, self._pool)

    def _rule_for(self, table: Table, request: TrainRequest) -> Rule:
        name, spec = table.spec.name, request.rules[table.spec.name]
        if table.optimizer not in ("", self.name):
            raise InputError(
                f"table {name!r} is trained by optimizer {table.optimizer!r}, and cannot be trained by {self.name!r}, too; "
                "use one optimizer, or drop the table"
            )
        if table.rule is not None and table.rule.spec != spec:
            raise InputError(
                f"table {name!r} is trained by {table.rule.spec}, not by {spec}; use the same rule, or drop the table and "
                "make it again"
            )
        return Rule(spec, table.spec.shape, table.spec.torch_dtype)

    def _replaced(self, moment: Moment) -> ClusterError:
        return ClusterError(
            f"rank {moment.rank} of optimizer {self.name!r} is of session {moment.session or 'none'!r}, and the owner knows "
            f"session {self.session or 'none'!r}: other processes have begun to train since, or the owner was started again; "
            "begin again, from the last checkpoint"
        )
