"""The places of servers among all of their data set: each has a number of its own, and all know of the same number of servers."""

from collections.abc import Iterable
from dataclasses import dataclass

from halohop.errors import ClusterError


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a server is, and its number among `size`; -1 of 0 where it was given none."""

    where: str
    number: int
    size: int


def check_places(places: Iterable[Place], *, size: int | None) -> None:
    """
    Args:
        places: of the servers that have come.
        size: how many servers this process expects; None: it does not matter.

    Raises:
        ClusterError: two servers have one number, or one was started among another number of servers; names them.
    """
    taken: dict[int, str] = {}
    for place in places:
        if place.number < 0:
            continue
        if size is not None and place.size != size:
            raise ClusterError(
                f"server {place.number} at {place.where} was started as one of {place.size} servers, but {size} are expected "
                "here; give all servers and clients the same number of servers"
            )
        if place.number in taken:
            raise ClusterError(
                f"the servers at {taken[place.number]} and at {place.where} both have the number {place.number}; "
                "give each server a number of its own"
            )
        taken[place.number] = place.where
