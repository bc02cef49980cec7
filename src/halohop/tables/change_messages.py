"""What changes tables: rows that a client writes, and steps of optimisers that all their ranks share."""

from dataclasses import dataclass, field, replace
from typing import Literal

from torch import Tensor

from halohop import ops
from halohop.store.forms import Ids
from halohop.store.requests import Name, Ranks, Seconds
from halohop.tables.messages import TableRequest
from halohop.tables.rule_spec import RuleSpec

Way = Literal["write", "add", "step"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """When a change happens, among all changes of those who make them together.

    Args:
        group: an optimiser's name; or a client's, which numbers its own writes.
        session: of these processes, from the owner of partition 0 (`Training.session`); empty of a client's own writes.
        rank, size: one of those that share the change.
        round, index: the change `index` (0, 1, ...) of a round (0, 1, ...). A rank that has ended its round early counts as
            empty (`LeaveRequest`); the next round begins when all ranks have ended this one. Steps happen in this order, however
            they arrive. One that was refused or aborted, or whose ranks did not come in time, is past as well: no rank uses its
            index again. Writes of one client have round 0, may arrive in any order, and may be tried again.
    """

    group: Name
    session: Name
    rank: int
    size: Ranks
    round: int
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One rank's part of what a change does to a table.

    Args:
        name: of the table.
        gid: int64 ``[n]``; of equal ones the last row stays where rows are written, else they are all added.
        rows: ``[n, *shape]``: rows in the table's dtype, or gradients in float32 (of a float64 table, in float64).
        lr: the learning rate of a step; the same from all ranks.
        spec: as of `TableQuery`.
        huge: whether sums of its gradients may not be finite; the owner finds it.
    """

    name: str
    gid: Ids
    rows: Tensor
    lr: float = 0.0
    spec: str = ""
    huge: bool = False

    def of(self, rows: Tensor, pool: ops.Pool | None = None) -> "Share":
        """Some of its rows, by ascending positions."""
        gid, values = (ops.pick_rows(column, rows, pool=pool) for column in (self.gid, self.rows))
        return replace(self, gid=gid, rows=values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """All ranks' shares of the change are here, and fit.

    Args:
        new: this rank's share came for the first time.
        applied: whether it was applied at once.
        square: of a step whose norm was asked for: the sum of the squared entries of all tables' gradients here, after gradients
            of equal rows were put together.
        steps: where it was applied: as of `Applied`.
    """

    new: bool
    applied: bool
    square: float
    steps: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRequest(TableRequest[Changed]):
    """A rank's shares of a change. It is answered when all ranks' shares are here, or one is known not to come.

    Nothing is changed yet, unless `alone` says that this owner is the only one concerned; `ApplyRequest` does that.

    Args:
        moment: which change.
        way: "write" replaces rows, "add" adds to them, "step" gives gradients to the optimiser `moment.group`.
        shares: of each table at most one.
        alone: no other owner is part of the change: it is applied at once.
        norm: `Changed.square` is asked for.
        max_norm: to which gradients will be scaled down; the same from all ranks. 0: they will not be.
        seconds: how long to wait for other ranks; of a client's own writes, how long they may be asked for again.
    """

    moment: Moment
    way: Way
    shares: tuple[Share, ...]
    alone: bool
    norm: bool = False
    max_norm: float = 0.0
    seconds: Seconds = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """The change is done; the steps so far of the tables that it touched, by name."""

    steps: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyRequest(TableRequest[Applied]):
    """All owners have all shares: the change happens. Any rank may ask; the first one counts.

    Args:
        scale: gradients are multiplied by this (clipping); the same from all ranks.
    """

    moment: Moment
    scale: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Aborted:
    """The change will not happen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortRequest(TableRequest[Aborted]):
    """A rank cannot do its part of a change that was not applied: all who wait for it hear why, and no share of it is kept."""

    moment: Moment
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundLeft:
    """No rank waits for this one in its round any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveRequest(TableRequest[RoundLeft]):
    """A rank has ended its round: it has no part in the changes from `moment.index` on."""

    moment: Moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """The optimiser is there, and this rank is one of its ranks.

    Args:
        session: names the processes that train together.
        steps: by table, how many steps it has had.
    """

    session: str
    steps: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainRequest(TableRequest[Training]):
    """Makes the optimiser `moment.group` of some tables, with its state, or finds it; each rank asks, before its first step.

    A table has one optimiser: refused where it has another one, or this one by another rule. The owner of partition 0 is asked
    first, without a session. Where the rank is taken by another sender, a new session begins; its name comes back. All other
    owners are asked with that name. A new session ends what an older one had begun: its shares are dropped, its ranks refused.
    One that had not sent a share yet may ask again.

    Args:
        rules: by table.
        sender: names the rank in its process, as no other is called: one that begins anew there has another name.
    """

    moment: Moment
    rules: dict[str, RuleSpec]
    sender: Name
