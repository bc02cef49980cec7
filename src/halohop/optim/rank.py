"""One rank among those that train tables together: which step is its next one, and what the owners are asked about it."""

import math
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from halohop.cluster.tables.changes import Done
from halohop.cluster.tables.tables import Tables
from halohop.errors import ClusterError, HalohopError
from halohop.tables.change_messages import AbortRequest, LeaveRequest, Moment, Share, Training, TrainRequest
from halohop.tables.rule_spec import RuleSpec
from halohop.world import World

_TINY = 1e-6
"""Added to a norm before it divides, as torch does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepped:
    """A step that was made.

    Args:
        steps: by table, how many it has had.
        norm: of all tables' gradients together; None where it was not asked for.
    """

    steps: dict[str, int]
    norm: float | None


class Rank:
    """The part of this process in the steps of one optimiser.

    Args:
        tables: of the graph.
        name: the optimiser's, the same on all ranks.
        world: all ranks, and which of them this one is.
        seconds: how long a step waits for the other ranks.
    """

    def __init__(self, tables: Tables, name: str, world: World, *, seconds: float) -> None:
        self._tables = tables
        self._sender = secrets.token_hex(8)
        self._seconds = seconds
        self._moment = Moment(group=name, session="", rank=world.rank, size=world.size, round=0, index=0)

    @property
    def round(self) -> int:
        """That this rank is in."""
        return self._moment.round

    @property
    def has_met(self) -> bool:
        """Whether this rank has begun its round."""
        return self._moment.index > 0

    @property
    def name(self) -> str:
        """Of this rank of the optimiser, in this process; one that is made anew takes its place."""
        return f"{self._moment.group} {self._moment.rank} {self._tables.client}"

    def is_in(self, number: int, size: int) -> bool:
        """Whether it is this one of so many ranks, and its tables are in reach."""
        return self._tables.is_open and (self._moment.rank, self._moment.size) == (number, size)

    def begin(self, rules: Mapping[str, RuleSpec]) -> dict[str, int]:
        """Makes the optimiser at the owners, or finds it.

        Args:
            rules: by table.

        Returns:
            By table, how many steps it has had.

        Raises:
            ClusterError: owners differ in the steps of a table.
        """
        owners = self._tables.directory
        first: Training = owners.ask({0: self._train(rules)})[0]  # has partition 0, and names the session
        self._moment = replace(self._moment, session=first.session)
        others: dict[int, Training] = owners.ask(dict.fromkeys(range(1, owners.num_owners), self._train(rules)))
        for owner, other in others.items():
            for name, steps in first.steps.items():
                if other.steps[name] != steps:
                    raise ClusterError(
                        f"table {name!r} has had {steps} steps at {owners.holders[0].name} and {other.steps[name]} at "
                        f"{owners.holders[owner].name}: a step reached only some of them; go on from the last checkpoint "
                        "(--resume)"
                    )
        return first.steps

    def _train(self, rules: Mapping[str, RuleSpec]) -> TrainRequest:
        return TrainRequest(moment=self._moment, rules=dict(rules), sender=self._sender)

    def step(self, shares: tuple[Share, ...], *, max_norm: float | None) -> Stepped:
        """Makes the next step, together with all ranks.

        Args:
            shares: of each table at most one.
            max_norm: gradients are scaled so that their norm is at most this; None leaves them.

        Raises:
            InputError, RemoteError: an owner refuses a share, of another rank perhaps.
            DeadlineExceededError: the shares of ranks, which it names, did not come in time.
            ClusterError, PeerLostError: another rank could not do its part, or an owner is lost.
        """
        scale = None if max_norm is None else lambda square: min(1.0, max_norm / (math.sqrt(square) + _TINY))
        done = self._change(shares, scale=scale, max_norm=max_norm or 0.0, seconds=self._seconds)
        return Stepped(steps=done.steps, norm=None if max_norm is None else math.sqrt(done.square))

    def _change(
        self, shares: tuple[Share, ...], *, scale: Callable[[float], float] | None = None, max_norm: float = 0.0, seconds: float
    ) -> Done:
        with self.heard():
            change = self._tables.change(self._moment, "step", shares, scale=scale, max_norm=max_norm, seconds=seconds)
        try:
            return change.apply()
        finally:  # a step that fails is past, for all ranks
            self._moment = replace(self._moment, index=self._moment.index + 1)

    def leave(self) -> None:
        """This rank has ended its round: the others' steps do not wait for it any more. The next round begins when all ranks have
        left this one; see `meet`."""
        self._tables.directory.ask_all(LeaveRequest(moment=self._moment))
        self._moment = replace(self._moment, round=self._moment.round + 1, index=0)

    def meet(self, *, seconds: float) -> None:
        """Waits until all ranks have left the round before, by a step that changes nothing.

        Raises:
            DeadlineExceededError: ranks did not come in time; names them.
        """
        self._change((), seconds=seconds)

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Where the block fails, before a share was sent, the other ranks hear it; or they would wait for this one's share of the
        step, and the next step for this one."""
        try:
            yield
        except BaseException as error:
            try:
                self._tables.directory.ask_all(
                    AbortRequest(moment=self._moment, reason=f"rank {self._moment.rank}: {str(error) or type(error).__name__}")
                )
            except HalohopError as late:
                error.add_note(f"The other ranks could not be informed: {late}")
            self._moment = replace(self._moment, index=self._moment.index + 1)
            raise
