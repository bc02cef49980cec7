"""A host's share of a data set's partitions: every N-th, from the K-th."""

import re
from dataclasses import dataclass

from halohop.errors import InputError

_SHARE = re.compile(r"([0-9]{1,9})/([0-9]{1,9})(?:\+([0-9]{1,9}))?")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Share:
    """Every `count`-th partition from number `index` on.

    Args:
        index: from 0.
        count: how many shares there are.

    Raises:
        InputError: there is no such share.

    Example:
        >>> Share(index=1, count=3).of(8), str(Share(index=1, count=3))
        ((1, 4, 7), '1/3')
    """

    index: int
    count: int

    def __post_init__(self) -> None:
        if not 0 <= self.index < self.count:
            last = f"; {self.count} shares are 0/{self.count} to {self.count - 1}/{self.count}" if self.count > 0 else ""
            raise InputError(f"there is no share {self}{last or '; give at least one share, 0/1'}")

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    def of(self, num_parts: int) -> tuple[int, ...]:
        """The partitions of a data set that are in the share, ascending.

        Raises:
            InputError: there is none; names both numbers.
        """
        found = tuple(range(self.index, num_parts, self.count))
        if not found:
            raise InputError(
                f"share {self} has no partition, because the data set has {num_parts}; make at most {num_parts} shares, or "
                f"divide the graph into {self.count} partitions (--parts {self.count})"
            )
        return found


def shares(text: str) -> tuple[Share, ...]:
    """The shares that an option spells.

    ``K/N+R`` are share K and the R next ones, the first after the last: what server K of N holds of R more, as their replica.

    Raises:
        InputError: it is no such list, or names a share that is not there, or one twice.

    Example:
        >>> shares("0/3,1/3")
        (Share(index=0, count=3), Share(index=1, count=3))
        >>> shares("2/3+1")
        (Share(index=2, count=3), Share(index=0, count=3))
    """
    found: list[Share] = []
    for one in text.split(","):
        match = _SHARE.fullmatch(one.strip())
        if match is None:
            raise InputError(f"share {one!r} is not like 0/3: the number of the share, from 0, and how many shares there are")
        first = Share(index=int(match[1]), count=int(match[2]))
        for further in range(int(match[3] or 0) + 1):
            share = Share(index=(first.index + further) % first.count, count=first.count)
            if share in found:
                raise InputError(f"share {share} is given twice; leave one out")
            found.append(share)
    return tuple(found)


def spelled(some: tuple[Share, ...]) -> str:
    """What `shares` reads.

    Example:
        >>> spelled(shares("2/3,0/3")), spelled(shares("2/3,1/3"))
        ('2/3+1', '2/3,1/3')
    """
    run = tuple(Share(index=(some[0].index + further) % some[0].count, count=some[0].count) for further in range(len(some)))
    return f"{some[0]}+{len(some) - 1}" if len(some) > 1 and run == some else ",".join(map(str, some))


def in_shares(some: tuple[Share, ...], num_parts: int) -> tuple[int, ...]:
    """The partitions that are in some shares, ascending, each once; all of them without a share.

    Raises:
        InputError: a share has no partition.

    Example:
        >>> in_shares(shares("0/3,2/3"), 6), in_shares((), 2)
        ((0, 2, 3, 5), (0, 1))
    """
    if not some:
        return tuple(range(num_parts))
    return tuple(sorted({part for share in some for part in share.of(num_parts)}))
