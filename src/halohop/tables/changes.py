"""Changes that are not done yet: shares of ranks come in, and when all are here and all owners know it, they are applied once."""

import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from functools import partial

from halohop import ops
from halohop.errors import ClusterError, DeadlineExceededError, InputError
from halohop.tables.change_messages import Applied, Changed, ChangeRequest, Moment
from halohop.tables.deadlines import Deadlines
from halohop.tables.pending import Change, Failing, Outcomes, Stage, again, overdue
from halohop.tables.plan import planned
from halohop.tables.table import Table
from halohop.tables.turns import WINDOW, Place, Turns

_MOST_PENDING = 4096


class Ledger:
    """The changes of one client, or of the ranks of one optimiser. Each is applied once, however often it is asked for.

    No lock is held while shares are put together or applied, and none while those who wait are answered.

    Args:
        label: how errors call the changes, "step" of an optimiser for example.
        size: how many ranks share them.
        turns: their order.
        deadlines: of those who wait.
        pool: where the memory of sums comes from.

    Attributes:
        turns: their order; to be read only.
        ranks: those that have sent a share.
    """

    def __init__(self, label: str, size: int, turns: Turns, deadlines: Deadlines, pool: ops.Pool | None = None) -> None:
        self.turns = turns
        self.ranks: set[int] = set()
        self._label = label
        self._size = size
        self._deadlines = deadlines
        self._pool = pool
        self._lock = threading.Lock()
        self._pending: dict[Place, Change] = {}
        self._outcomes = Outcomes()
        self._over: Failing | None = None  # why no change is taken any more
        self._used_until = 0.0

    # ---- what is asked

    def known(self, moment: Moment) -> Changed | None:
        """The answer to a share whose change is past.

        Raises:
            ClusterError: the change will not happen, or the rank has left its round before.
            DeadlineExceededError: the change did not happen in time.
        """
        place = self._place(moment)
        with self._lock:
            if self.turns.has_left(moment.rank, place):
                raise ClusterError(f"rank {moment.rank} has left its round before {self._named(place)}, and sends a share of it")
            return self._past(place)

    def share(self, request: ChangeRequest, tables: Mapping[str, Table]) -> "Future[Changed]":
        """Takes a rank's shares, which were checked; the future is done when all ranks' are here.

        Args:
            request: the shares.
            tables: that they name.

        Raises (in the future):
            ClusterError: the change will not happen: why another rank's share was refused.
            DeadlineExceededError: names the ranks that did not come.
        """
        future: Future[Changed] = Future()
        place, rank = self._place(request.moment), request.moment.rank
        is_whole, differs = False, ""
        with self._lock:
            self._used_until = time.monotonic() + request.seconds
            if (done := self._past(place)) is not None:
                future.set_result(done)
                return future
            change = self._pending.get(place)
            if change is None:
                if len(self._pending) >= _MOST_PENDING:
                    raise ClusterError(f"{self._named(place)} is refused: {_MOST_PENDING} before it are not done; wait for some")
                change = self._pending[place] = Change(request)
            if (new := rank not in change.shares) and not (differs := self._differs(change, request)):
                self.ranks.add(rank)
                change.shares[rank] = request.shares
                change.tables.update(tables)
                is_whole = self._is_whole(place, change)
                if len(change.shares) == 1 and not (is_whole and self.turns.may_go(place)):
                    self._deadlines.set((self, place), request.seconds, partial(self.expire, place))
            if change.stage in (Stage.GATHERING, Stage.PREPARING) or change.first.alone:
                change.waiters.append((future, new))
            else:
                future.set_result(Changed(new=False, applied=False, square=change.square))
        if differs:
            self.fail(place, partial(ClusterError, differs))
        elif is_whole:
            self._prepare(place, change)
        return future

    def apply(self, moment: Moment, scale: float) -> "Future[Applied]":
        """All owners have all shares of a change; the future is done when it is applied here.

        Raises:
            ClusterError: not all shares are here, or it will not happen.
        """
        future: Future[Applied] = Future()
        place = self._place(moment)
        with self._lock:
            if (done := self._past(place)) is not None:
                future.set_result(Applied(steps=done.steps))
                return future
            change = self._pending.get(place)
            if change is None or change.stage in (Stage.GATHERING, Stage.PREPARING):
                raise ClusterError(f"{self._named(place)} cannot be applied: not all shares of it are here; send them first")
            change.appliers.append(future)
            if change.stage is Stage.WHOLE:
                change.stage, change.scale = Stage.READY, scale
                if not self.turns.may_go(place):
                    self._deadlines.set((self, place), change.first.seconds, partial(self.expire, place))
        self._go(place)
        return future

    def abort(self, moment: Moment, reason: str) -> None:
        """A rank cannot do its part.

        Raises:
            ClusterError: the change was applied.
        """
        place = self._place(moment)
        with self._lock:
            change = self._pending.get(place)
            is_applied = change is not None and change.stage is Stage.APPLYING
            is_applied = is_applied or self._outcomes.is_applied(place)
        if is_applied:
            raise ClusterError(f"{self._named(place)} cannot be aborted: it was applied")
        who = f"rank {moment.rank} of {moment.size}" if moment.size > 1 else "its client"
        self.fail(place, partial(ClusterError, f"{self._named(place)} was aborted by {who}: {reason}"))

    def leave(self, moment: Moment) -> None:
        """A rank has no part in the changes of its round from this one on.

        Raises:
            ClusterError: it has sent a share of one of them, or left the round at another place.
        """
        (round_, first), rank = self._place(moment), moment.rank
        with self._lock:
            self._require_open()
            for place, change in self._pending.items():
                if place[0] == round_ and place[1] >= first and rank in change.shares:
                    raise ClusterError(f"rank {rank} leaves at {self._named((round_, first))}, and has sent {self._named(place)}")
            self.turns.leave(rank, (round_, first))
            whole = {place: change for place, change in self._pending.items() if self._is_whole(place, change)}
        for place, change in whole.items():
            self._prepare(place, change)
        self._go(self.turns.next)

    # ---- how changes end

    def fail(self, place: Place, why: Failing) -> None:
        """A change will not happen; all who wait for it hear why. Nothing is done if it is past, or being applied."""
        with self._lock:
            change = self._pending.get(place)
            if self.turns.is_past(place) or (change is not None and change.stage is Stage.APPLYING):
                return
            self._end(place, why)
        if change is not None:
            change.refuse(why)
        self._go(self.turns.next)

    def refuse(self, moment: Moment, error: Exception) -> None:
        """A rank's share was refused: the change will not happen, and other ranks hear why."""
        place = self._place(moment)
        text = f"{self._named(place)} will not happen: the share of rank {moment.rank} was refused: {error}"
        self.fail(place, partial(ClusterError, text))

    def expire(self, place: Place) -> None:
        """The time of a change is over. One that waits only for its turn has it now, if no rank has asked for those before it."""
        with self._lock:
            change = self._pending.get(place)
            if change is None or change.stage not in (Stage.GATHERING, Stage.READY):
                return
            missing = self.turns.missing(place, set(change.shares))
            unknown = [] if missing else [other for other in self.turns.before(place) if other not in self._pending]
        seconds = change.first.seconds
        for other in unknown:
            text = f"no share of {self._named(other)} has come, and one that follows it has waited {seconds:g} s"
            self.fail(other, partial(DeadlineExceededError, text))
        text = overdue(self._named(place), seconds, missing, self._named(self.turns.next or place))
        self.fail(place, partial(DeadlineExceededError, text))

    def drop(self, table: Table) -> None:
        """A table is gone: changes of it will not happen."""
        with self._lock:
            places = [place for place, change in self._pending.items() if table in change.tables.values()]
        for place in places:
            why = f"{self._named(place)} will not happen: table {table.spec.name!r} was dropped"
            self.fail(place, partial(ClusterError, why))

    def end(self, why: Failing | None) -> None:
        """Drops all changes. With a reason, no other is taken from now on."""
        reason = why or partial(ClusterError, "the change was dropped: its ranks were not heard of for long")
        with self._lock:
            self._over = why or self._over
            places = [place for place, change in self._pending.items() if change.stage is not Stage.APPLYING]
        for place in places:
            self.fail(place, reason)

    def sweep(self, lease_seconds: float) -> None:
        """Drops all changes if none was asked for during a lease, and none can be asked for again."""
        if self._pending and time.monotonic() > self._used_until + lease_seconds:
            self.end(None)

    @property
    def num_pending(self) -> int:
        """How many changes are not done."""
        return len(self._pending)

    # ---- within

    def _past(self, place: Place) -> Changed | None:
        """What an applied change came to; None if it is still to come. The lock is held."""
        self._require_open()
        if not self.turns.is_past(place):
            return None
        return self._outcomes.known(place)

    def _require_open(self) -> None:
        if self._over is not None:
            raise self._over()

    def _differs(self, change: Change, request: ChangeRequest) -> str:
        """What a rank asks for otherwise than the first one; empty: nothing."""
        first = change.first
        wants = [f"way={one.way!r}, alone={one.alone}, norm={one.norm}, max_norm={one.max_norm:g}" for one in (first, request)]
        if wants[0] == wants[1] and first.max_norm == request.max_norm:
            return ""
        asked = zip((first.moment.rank, request.moment.rank), wants, strict=True)
        return f"ranks differ in {self._named(self._place(first.moment))}: " + "; ".join(
            f"rank {rank} {how}" for rank, how in asked
        )

    def _is_whole(self, place: Place, change: Change) -> bool:
        """Whether the caller is to prepare it. The lock is held."""
        if change.stage is not Stage.GATHERING or self.turns.missing(place, set(change.shares)):
            return False
        change.stage = Stage.PREPARING
        return True

    def _prepare(self, place: Place, change: Change) -> None:
        try:
            for table in change.tables.values():
                table.require_whole()
            plan = planned(change.way, change.shares, change.tables, size=self._size, pool=self._pool)
            square = plan.square() if change.first.norm else 0.0
        except Exception as error:
            self.fail(place, partial(again, error))
            return
        with self._lock:
            if self._pending.get(place) is not change:  # it failed meanwhile
                return
            change.plan, change.square = plan, square
            change.shares = dict.fromkeys(change.shares, ())
            change.stage = Stage.READY if change.first.alone else Stage.WHOLE
            waiters = []
            if change.stage is Stage.WHOLE:
                waiters, change.waiters = change.waiters, []
        for future, new in waiters:
            future.set_result(Changed(new=new, applied=False, square=square))
        self._go(place)

    def _go(self, place: Place | None) -> None:
        """Applies a change if it is ready and has its turn, and those that waited for it."""
        while place is not None:
            with self._lock:
                change = self._pending.get(place)
                if change is None or change.stage is not Stage.READY or not self.turns.may_go(place):
                    return
                change.stage = Stage.APPLYING
            assert change.plan is not None
            try:
                applied = change.plan.apply(change.scale)
            except BaseException as error:  # Ctrl-C, too: the changes that come behind it do not wait for it
                why = partial(again, error)
                with self._lock:
                    self._end(place, why)
                change.refuse(why)
                if not isinstance(error, Exception):
                    raise
            else:
                done = Changed(new=False, applied=True, square=change.square, steps=applied.steps)
                with self._lock:
                    self._end(place, done)
                change.settle(done)
            place = self.turns.next

    def _end(self, place: Place, outcome: Changed | Failing) -> None:
        """The lock is held."""
        self._pending.pop(place, None)
        self.turns.end(place, applied=isinstance(outcome, Changed))
        self._deadlines.clear((self, place))
        if self.turns.is_past(place):
            self._outcomes.add(place, outcome)

    def _named(self, place: Place) -> str:
        return f"{self._label} {place[1]}" + (f" of round {place[0]}" if place[0] else "")

    def _place(self, moment: Moment) -> Place:
        """
        Raises:
            InputError: it is so far ahead of the next change that it is not kept until then.
        """
        place, now = (moment.round, moment.index), self.turns.next
        if now is None or place <= now:  # a late repetition, too
            return place
        if max(place[0] - now[0], place[1] - (now[1] if place[0] == now[0] else 0)) > WINDOW:
            raise InputError(f"{self._named(place)} is more than {WINDOW} ahead of {self._named(now)}; make the steps before it")
        return place
