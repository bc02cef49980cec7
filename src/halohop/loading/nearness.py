"""Which ids each rank takes, so that most of them lie in partitions near it: arithmetic over how many each partition has."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Ranks, and the partitions near all of them."""

    ranks: tuple[int, ...]
    parts: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Some of the ids that a partition has: those at the places from `begin` up to `end`."""

    part: int
    begin: int
    end: int


def groups_of(num_parts: int, num_ranks: int, hosts: Sequence[tuple[int, ...]] = ()) -> list[Group]:
    """Which ranks are near which partitions.

    Args:
        num_parts, num_ranks: how many there are.
        hosts: per host, the partitions that it serves; its ranks follow those of the host before it, as many on each. Without
            hosts, or with more than ranks, partitions and ranks are divided in their order.

    Example:
        >>> [(group.ranks, group.parts) for group in groups_of(4, 3)]
        [((0,), (0, 1)), ((1,), (2,)), ((2,), (3,))]
        >>> [(group.ranks, group.parts) for group in groups_of(3, 4, hosts=[(2,), (0, 1)])]
        [((0, 1), (2,)), ((2, 3), (0, 1))]
    """
    if not hosts or len(hosts) > num_ranks:
        count = min(num_parts, num_ranks)
        hosts = [tuple(_run(host, count, num_parts)) for host in range(count)]
    return [Group(ranks=tuple(_run(host, len(hosts), num_ranks)), parts=parts) for host, parts in enumerate(hosts)]


def dealt(counts: Sequence[int], groups: Sequence[Group], *, even: bool) -> tuple[list[list[Range]], list[list[Range]]]:
    """The ids of each rank: those near it, and others.

    Args:
        counts: ids of each partition.
        groups: every rank and every partition is in one of them.
        even: numbers of ids of two ranks differ by one at most; otherwise each rank has its part of those near it.

    Example:
        >>> near, far = dealt([5, 1], groups_of(2, 2), even=True)
        >>> near[0], near[1], far[1]
        ([Range(part=0, begin=0, end=3)], [Range(part=1, begin=0, end=1)], [Range(part=0, begin=3, end=5)])
    """
    num_ranks = sum(len(group.ranks) for group in groups)
    total = sum(counts)
    quota = [total // num_ranks + (rank < total % num_ranks) for rank in range(num_ranks)]
    near: list[list[Range]] = [[] for _ in quota]
    left_over: list[Range] = []
    for group in groups:
        line = [Range(part=part, begin=0, end=counts[part]) for part in group.parts]
        own, most = sum(counts[part] for part in group.parts), sum(quota[rank] for rank in group.ranks)
        if even and own >= most:
            ends = list(accumulate((quota[rank] for rank in group.ranks), initial=0))
        else:
            ends = [own * place // len(group.ranks) for place in range(len(group.ranks) + 1)]
        for rank, (begin, end) in zip(group.ranks, pairwise(ends), strict=True):
            near[rank] = list(_cut(line, begin, end))
        left_over += _cut(line, ends[-1], own)
    needs = [quota[rank] - _length(near[rank]) if even else 0 for rank in range(num_ranks)]
    far = [list(_cut(left_over, begin, end)) for begin, end in pairwise(accumulate(needs, initial=0))]
    return near, far


def _run(number: int, count: int, length: int) -> range:
    """The places that are dealt to one of `count`, in their order."""
    return range(-(-number * length // count), -(-(number + 1) * length // count))


def _cut(line: Sequence[Range], begin: int, end: int) -> Iterator[Range]:
    """What lies between two places of ranges end to end."""
    at = 0
    for piece in line:
        low, high = max(begin - at, 0), min(end - at, piece.end - piece.begin)
        if low < high:
            yield Range(part=piece.part, begin=piece.begin + low, end=piece.begin + high)
        at += piece.end - piece.begin


def _length(ranges: Sequence[Range]) -> int:
    return sum(piece.end - piece.begin for piece in ranges)
