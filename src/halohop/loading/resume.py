"""Where a loader stands: what an iteration begins with, how far it came, and how another run goes on from there.

A batch is a function of (seed, epoch, index), so a position is two numbers: an epoch, and how many of its batches the
consumer has. Batches in flight are not part of it; they are made again.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any, Literal

import msgspec

from halohop.errors import InputError
from halohop.loading.options import whole
from halohop.loading.seeds import OwnPlan, Plan, Share
from halohop.world import World

FORMAT = 1
"""Of state dicts; another one is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """In `epoch`, after `batches` batches."""

    epoch: int
    batches: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """What a state dict holds; `plan` is what `_named` says, and the seed."""

    format: Literal[1]
    epoch: int
    batches: int
    plan: dict[str, int | bool | None]


class EpochProgress:
    """One iteration: from a position to the end of its epoch."""

    def __init__(self, plan: Plan, start: Position) -> None:
        self._plan = plan
        self._start = start
        self._handed = 0
        self.ended = False

    @property
    def position(self) -> Position:
        return Position(epoch=self._start.epoch, batches=self._start.batches + self._handed)

    def specs(self) -> Iterator[tuple[int, Share]]:
        """The epoch and the seeds of each batch that is left."""
        shares = islice(self._plan.epoch(self._start.epoch), self._start.batches, None)
        return ((self._start.epoch, share) for share in shares)

    def hand_over(self) -> None:
        """One more batch is the consumer's."""
        self._handed += 1


class LoaderProgress:
    """Where a loader stands in its epochs.

    Args:
        plan: of its batches.
        seed: of its draws.

    Example:
        >>> from halohop.loading.seeds import ShuffledPlan
        >>> plan = ShuffledPlan(num_seeds=5, batch_size=2)
        >>> progress = LoaderProgress(plan, seed=0)
        >>> progress.begin().hand_over()
        >>> later = LoaderProgress(plan, seed=0)
        >>> later.restore(progress.state())
        >>> [share.positions.tolist() for _, share in later.begin().specs()]
        [[2, 3], [4]]
    """

    def __init__(self, plan: Plan, *, seed: int) -> None:
        self._plan = plan
        self._identity = _named(plan) | {"seed": seed}
        self._next = Position(epoch=0, batches=0)
        self._last: EpochProgress | None = None

    @property
    def epoch(self) -> int:
        """The epoch of the next iteration."""
        return self._next.epoch

    def turn_to(self, position: Position) -> None:
        """Makes the next iteration begin there."""
        self._next, self._last = position, None

    def begin(self) -> EpochProgress:
        """A new iteration."""
        self._last = EpochProgress(self._plan, self._next)
        self._next = Position(epoch=self._next.epoch + 1, batches=0)
        return self._last

    def state(self) -> dict[str, Any]:
        """Numbers and words alone, so that any format can hold them."""
        position = self._next if self._last is None or self._last.ended else self._last.position
        return {"format": FORMAT, "epoch": position.epoch, "batches": position.batches, "plan": self._identity}

    def restore(self, state: Mapping[str, Any]) -> None:
        """The opposite of `state`.

        Raises:
            InputError: no state of a loader, or that of a loader that deals its seeds in another way.
        """
        try:
            saved = msgspec.convert(state, type=_State)
        except msgspec.ValidationError as error:
            raise InputError(
                f"no state of a loader in format {FORMAT} ({error}): {str(state)[:200]}; give what `state_dict` returned"
            ) from error
        mine, other = self._identity, saved.plan
        differing = {name: (other.get(name), mine.get(name)) for name in {*mine, *other} if mine.get(name) != other.get(name)}
        if differing:
            differences = ", ".join(f"{name}: {then} then, {now} now" for name, (then, now) in sorted(differing.items()))
            raise InputError(
                f"the loader that saved this state goes through its seeds in another way ({differences}); make it alike"
            )
        if not 0 <= saved.batches <= len(self._plan) or saved.epoch < 0:
            raise InputError(
                f"a state with epoch {saved.epoch} and batch {saved.batches} is not of this loader, which has {len(self._plan)} "
                "batches an epoch; give what `state_dict` returned"
            )
        self.turn_to(Position(epoch=saved.epoch, batches=saved.batches))


def _named(plan: Plan) -> dict[str, Any]:
    """What decides which seeds make up which batch, as far as a plan knows. Ranks that share seeds stand at the same position; a
    rank with seeds of its own stands at its own, and is named."""
    if isinstance(plan, OwnPlan):
        return _named(plan.plan) | {"ranks": plan.world.size, "own_seeds_of_rank": plan.world.rank}
    named: dict[str, Any] = {"steps": len(plan)}
    for field in fields(plan):  # type: ignore[arg-type]  # every plan is a dataclass
        value = getattr(plan, field.name)
        if isinstance(value, World):
            named["ranks"] = value.size
        elif field.name == "arrangement":
            named |= {} if value is None else value.blocks.identity
        elif isinstance(value, int | None) and field.name != "stream":  # it follows from the rank
            named[field.name] = value
    return named


class Resumable:
    """What users say to a loader about its progress: the protocol of torchdata's StatefulDataLoader."""

    _progress: LoaderProgress

    def set_epoch(self, epoch: int) -> None:
        """Makes the next iteration epoch number `epoch`, as torch's DistributedSampler does.

        Raises:
            InputError: it is no whole number, or below 0.
        """
        epoch = whole(epoch, "epoch")
        if epoch < 0:
            raise InputError(f"epoch={epoch}; epochs are counted from 0")
        self._progress.turn_to(Position(epoch=epoch, batches=0))

    def state_dict(self) -> dict[str, Any]:
        """Where this loader stands: behind the batches that the consumer has (the protocol of torchdata's
        StatefulDataLoader), however many are in flight. A few numbers, the same on all ranks that share
        their seeds: one may save them for all. A rank with seeds of its own saves its own.
        """
        return self._progress.state()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Makes the next iteration go on with the very batches that were left, in this run or another.

        Seeds, batch size, order and number of ranks must be as they were; workers, run mode, partitions and hosts need not.
        A `sampler` or `batch_sampler` of the user's is asked anew, and what it says first is left out: it has to repeat itself.

        Raises:
            InputError: no such state, or one of a loader that goes through its seeds in another way.
        """
        self._progress.restore(state_dict)
