"""Where a loader stands: what an iteration begins with, how far it came, and how another run goes on from there.

A batch is a function of (seed, epoch, index), so a place is two numbers: an epoch, and how many of its batches were handed over.
Batches in flight are not part of it; they are made again.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any, Literal

import msgspec

from halohop.errors import InputError
from halohop.loading.seeds import OwnPlan, Plan, Share
from halohop.world import World

FORMAT = 1
"""Of state dicts; another one is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
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


class Stretch:
    """One iteration: from a place to the end of its epoch."""

    def __init__(self, plan: Plan, start: Place) -> None:
        self._plan = plan
        self._start = start
        self._handed = 0
        self.ended = False

    @property
    def place(self) -> Place:
        return Place(epoch=self._start.epoch, batches=self._start.batches + self._handed)

    def tasks(self) -> Iterator[tuple[int, Share]]:
        """The epoch and the seeds of each batch that is left."""
        shares = islice(self._plan.epoch(self._start.epoch), self._start.batches, None)
        return ((self._start.epoch, share) for share in shares)

    def hand_over(self) -> None:
        """One more batch is the consumer's."""
        self._handed += 1


class Course:
    """Where a loader stands in its epochs.

    Args:
        plan: of its batches.
        seed: of its draws.

    Example:
        >>> from halohop.loading.seeds import ShuffledPlan
        >>> plan = ShuffledPlan(num_seeds=5, batch_size=2)
        >>> course = Course(plan, seed=0)
        >>> course.begin().hand_over()
        >>> later = Course(plan, seed=0)
        >>> later.restore(course.state())
        >>> [share.positions.tolist() for _, share in later.begin().tasks()]
        [[2, 3], [4]]
    """

    def __init__(self, plan: Plan, *, seed: int) -> None:
        self._plan = plan
        self._identity = _named(plan) | {"seed": seed}
        self._next = Place(epoch=0, batches=0)
        self._last: Stretch | None = None

    @property
    def epoch(self) -> int:
        """The epoch of the next iteration."""
        return self._next.epoch

    def turn_to(self, place: Place) -> None:
        """Makes the next iteration begin there."""
        self._next, self._last = place, None

    def begin(self) -> Stretch:
        """A new iteration."""
        self._last = Stretch(self._plan, self._next)
        self._next = Place(epoch=self._next.epoch + 1, batches=0)
        return self._last

    def state(self) -> dict[str, Any]:
        """Numbers and words alone, so that any format can hold them."""
        place = self._next if self._last is None or self._last.ended else self._last.place
        return {"format": FORMAT, "epoch": place.epoch, "batches": place.batches, "plan": self._identity}

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
            told = ", ".join(f"{name}: {then} then, {now} now" for name, (then, now) in sorted(differing.items()))
            raise InputError(f"the loader that saved this state goes through its seeds in another way ({told}); make it alike")
        place = Place(epoch=saved.epoch, batches=saved.batches)
        if not 0 <= place.batches <= len(self._plan) or place.epoch < 0:
            raise InputError(f"{place} is no place of a loader with {len(self._plan)} batches an epoch")
        self.turn_to(place)


def _named(plan: Plan) -> dict[str, Any]:
    """What decides which seeds make up which batch, as far as a plan knows. Ranks that share seeds stand at the same place; a
    rank with seeds of its own stands at its own, and is named."""
    if isinstance(plan, OwnPlan):
        return _named(plan.plan) | {"ranks": plan.world.size, "own_seeds_of_rank": plan.world.rank}
    named: dict[str, Any] = {"steps": len(plan)}
    for field in fields(plan):  # type: ignore[arg-type]  # every plan is a dataclass
        value = getattr(plan, field.name)
        if isinstance(value, World):
            named["ranks"] = value.size
        elif isinstance(value, int | None) and field.name != "stream":  # it follows from the rank
            named[field.name] = value
    return named
