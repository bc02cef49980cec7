"""A change that is not done: what of it is here, how far it is, and who waits for it."""

from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from enum import Enum, auto

from halohop.errors import ClusterError, HalohopError
from halohop.tables.change_messages import Applied, Changed, ChangeRequest, Share, Way
from halohop.tables.plan import Plan
from halohop.tables.table import Table
from halohop.tables.turns import Place

_OUTCOMES = 256

Failing = Callable[[], Exception]
"""Makes an error; each who waits gets one of its own."""


class Stage(Enum):
    GATHERING = auto()  # not all shares are here
    PREPARING = auto()  # a thread puts them together
    WHOLE = auto()  # until the ranks ask for it to be applied
    READY = auto()  # until it is its turn
    APPLYING = auto()  # a thread does it


class Change:
    """One change that is not done."""

    __slots__ = ("appliers", "first", "plan", "scale", "shares", "square", "stage", "tables", "waiters")

    def __init__(self, first: ChangeRequest) -> None:
        self.first = replace(first, shares=())
        self.stage = Stage.GATHERING
        self.shares: dict[int, tuple[Share, ...]] = {}
        self.tables: dict[str, Table] = {}
        self.waiters: list[tuple[Future[Changed], bool]] = []  # and whether the share was new
        self.appliers: list[Future[Applied]] = []
        self.plan: Plan | None = None
        self.square = 0.0
        self.scale = 1.0

    @property
    def way(self) -> Way:
        return self.first.way

    def settle(self, done: Changed) -> None:
        """It is applied; all who wait hear it."""
        for waiter, new in self.waiters:
            waiter.set_result(replace(done, new=new))
        for applier in self.appliers:
            applier.set_result(Applied(steps=done.steps))

    def refuse(self, why: Failing) -> None:
        """It will not happen; all who wait hear why."""
        for waiter, _ in self.waiters:
            waiter.set_exception(why())
        for applier in self.appliers:
            applier.set_exception(why())


class Outcomes:
    """What changes that are past have come to; of old ones it is not known any more, and they count as applied."""

    def __init__(self) -> None:
        self._known: OrderedDict[Place, Changed | Failing] = OrderedDict()

    def add(self, place: Place, outcome: Changed | Failing) -> None:
        self._known[place] = outcome
        while len(self._known) > _OUTCOMES:
            self._known.popitem(last=False)

    def known(self, place: Place) -> Changed:
        """What ranks are answered that ask again. Raises why it has not happened."""
        outcome = self._known.get(place, Changed(new=False, applied=True, square=0.0))
        if isinstance(outcome, Changed):
            return outcome
        raise outcome()

    def is_applied(self, place: Place) -> bool:
        """Whether it is known to be."""
        return isinstance(self._known.get(place), Changed)


def overdue(named: str, seconds: float, missing: list[int], before: str) -> str:
    """Why a change was not applied in time: ranks are missing, or the one before it is not whole."""
    if not missing:
        return f"{named} was not applied within {seconds:g} s: it comes after {before}, of which not all shares are here"
    who = f"rank {missing[0]} has" if len(missing) == 1 else f"ranks {', '.join(map(str, missing))} have"
    return f"{who} not sent a share of {named} within {seconds:g} s; nothing of it was applied"


def again(error: BaseException) -> Exception:
    """The same failure for each who waits, with where it happened."""
    if isinstance(error, HalohopError):
        made: Exception = type(error)(str(error))
    else:
        made = ClusterError(f"a change of tables failed: {type(error).__name__}: {error}")
    made.__cause__ = error
    return made
