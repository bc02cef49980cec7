"""In which order changes happen, and which of them have happened: those of an optimiser's ranks, and those of one client."""

from typing import Protocol

from halohop.errors import ClusterError

Place = tuple[int, int]
"""Round and index of a change."""

WINDOW = 65_536
"""Changes of one client that are remembered; older ones count as known. None is asked for again that long after."""


class Turns(Protocol):
    """What a ledger of changes asks."""

    def is_past(self, place: Place) -> bool:
        """Whether the change is done, or will not happen any more."""
        ...

    def may_go(self, place: Place) -> bool:
        """Whether it may happen now, as far as others are concerned."""
        ...

    def missing(self, place: Place, ranks: set[int]) -> list[int]:
        """Ranks whose shares it waits for, those of `ranks` being there."""
        ...

    def has_left(self, rank: int, place: Place) -> bool:
        """Whether a rank has no part in a change, as it has said."""
        ...

    def before(self, place: Place) -> list[Place]:
        """Changes that are to come before this one, of the same round."""
        ...

    def end(self, place: Place, *, applied: bool) -> None:
        """The change is done, or will not happen."""
        ...

    def leave(self, rank: int, place: Place) -> None:
        """A rank has no part in the changes of the round from this one on."""
        ...

    @property
    def next(self) -> Place | None:
        """Which one is to happen next; None where any may."""
        ...


class AnyOrder:
    """The changes of one client: each at once, and none twice. One that failed may be tried again."""

    def __init__(self) -> None:
        self._highest = -1
        self._recent: set[int] = set()

    next = None

    def is_past(self, place: Place) -> bool:
        return place[1] in self._recent or place[1] <= self._highest - WINDOW

    def may_go(self, place: Place) -> bool:
        return True

    def missing(self, place: Place, ranks: set[int]) -> list[int]:
        return [] if ranks else [0]

    def has_left(self, rank: int, place: Place) -> bool:
        return False

    def before(self, place: Place) -> list[Place]:
        return []

    def end(self, place: Place, *, applied: bool) -> None:
        if not applied:
            return
        self._recent.add(place[1])
        self._highest = max(self._highest, place[1])
        if len(self._recent) > 2 * WINDOW:
            self._recent = {index for index in self._recent if index > self._highest - WINDOW}

    def leave(self, rank: int, place: Place) -> None:
        raise ClusterError("a client's own changes have no rounds that it could leave")


class InRounds:
    """The steps of an optimiser: one after the other, in rounds that each rank ends for itself.

    Args:
        size: how many ranks there are.

    Attributes:
        next: the step that is to happen next.

    Example:
        >>> turns = InRounds(2)
        >>> turns.missing((0, 0), {1}), turns.may_go((0, 0)), turns.may_go((0, 1))
        ([0], True, False)
        >>> turns.leave(0, (0, 1)), turns.missing((0, 1), {1})
        (None, [])
        >>> turns.end((0, 0), applied=True), turns.leave(1, (0, 1)), turns.next
        (None, None, (1, 0))
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self.next: Place = (0, 0)
        self._ended: set[Place] = set()  # that will not happen, of those that are still to come
        self._left: dict[int, dict[int, int]] = {}  # by round and rank: the first index without the rank

    def is_past(self, place: Place) -> bool:
        return place < self.next or place in self._ended

    def may_go(self, place: Place) -> bool:
        return place == self.next

    def missing(self, place: Place, ranks: set[int]) -> list[int]:
        return [rank for rank in range(self._size) if rank not in ranks and not self.has_left(rank, place)]

    def has_left(self, rank: int, place: Place) -> bool:
        return self._left.get(place[0], {}).get(rank, place[1] + 1) <= place[1]

    def before(self, place: Place) -> list[Place]:
        round_, index = self.next
        return [(round_, other) for other in range(index, place[1])] if place[0] == round_ else []

    def end(self, place: Place, *, applied: bool) -> None:
        assert not applied or place == self.next
        self._ended.add(place)
        self._proceed()

    def leave(self, rank: int, place: Place) -> None:
        """A rank has no part in the changes of the round from this one on.

        Raises:
            ClusterError: it has left this round before, at another place.
        """
        if place[0] < self.next[0]:
            return
        at = self._left.setdefault(place[0], {}).setdefault(rank, place[1])
        if at != place[1]:
            raise ClusterError(f"rank {rank} leaves round {place[0]} at step {place[1]}, and has left it at step {at} before")
        self._proceed()

    def _proceed(self) -> None:
        while True:
            round_, index = self.next
            left = self._left.get(round_, {})
            if self.next in self._ended:
                self._ended.remove(self.next)
                self.next = round_, index + 1
            elif len(left) == self._size and index >= max(left.values()):
                del self._left[round_]
                self.next = round_ + 1, 0
            else:
                return
