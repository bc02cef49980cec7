"""Columns of ids that need not fit into memory: read by slices; their ends, and their rows in ascending order."""

from collections.abc import Iterator

import torch
from torch import Tensor

_SLICE_BYTES = 64  # of memory for each row of a slice: some columns of 8 bytes, and what is computed from them
_ENTRY_BYTES = 48  # an id and its row, each twice while they are sorted, and what selects them
_CELLS = 4096  # ranges that ids are counted in at a time


def slices(count: int, memory: int | None = None) -> Iterator[slice]:
    """Some rows after others; all at once where `memory` is None, none where there are no rows.

    Args:
        count: of rows.
        memory: bytes that what is read and computed of a slice may take.

    Example:
        >>> list(slices(5)), list(slices(3, 128))
        ([slice(0, 5, None)], [slice(0, 2, None), slice(2, 3, None)])
    """
    step = max(count if memory is None else memory // _SLICE_BYTES, 1)
    for first in range(0, count, step):
        yield slice(first, min(first + step, count))


def ends_of(ids: Tensor, memory: int | None = None) -> tuple[int, int]:
    """The least and the greatest of some ids, of which there is one at least.

    Example:
        >>> ends_of(torch.tensor([3, 1, 2]), 64)
        (1, 3)
    """
    ends = [torch.aminmax(ids[rows]) for rows in slices(len(ids), memory)]
    return min(int(low) for low, _ in ends), max(int(high) for _, high in ends)


def ascends(ids: Tensor, memory: int | None = None) -> bool:
    """Whether each id is greater than the one before.

    Example:
        >>> ascends(torch.tensor([1, 2, 4]), 64), ascends(torch.tensor([1, 2, 2]), 64)
        (True, False)
    """
    last: int | None = None
    for rows in slices(len(ids), memory):
        some = ids[rows]
        if (last is not None and int(some[0]) <= last) or not bool((some[1:] > some[:-1]).all()):
            return False
        last = int(some[-1])
    return True


def ascending_rows(ids: Tensor, memory: int | None = None) -> Iterator[Tensor]:
    """The rows of all ids, those of the least ones first; equal ids in the order of their rows, and all in one piece.

    Each pass over the column takes the ids of one range, as many as fit.

    Args:
        ids: int64 or int32 ``[n]``.
        memory: bytes that this may take; None sorts all at once.

    Yields:
        int64 ``[some]``, not empty.

    Example:
        >>> [rows.tolist() for rows in ascending_rows(torch.tensor([5, 3, 9, 3]), 100)]
        [[1, 3], [0, 2]]
    """
    limit = len(ids) if memory is None else max(memory // _ENTRY_BYTES, 1)
    if len(ids) <= limit:
        yield from [torch.argsort(ids, stable=True)] if len(ids) else []
        return
    low, high = ends_of(ids, memory)
    for first, last in _ranges(ids, low, high, limit, memory):
        rows, values = [], []
        for some in slices(len(ids), memory):
            part = ids[some]
            inside = ((part >= first) & (part <= last)).nonzero().view(-1)
            rows.append(inside + some.start)
            values.append(part[inside])
        found = torch.cat(rows)
        if len(found):
            yield found[torch.argsort(torch.cat(values), stable=True)]


def _ranges(ids: Tensor, low: int, high: int, limit: int, memory: int | None) -> Iterator[tuple[int, int]]:
    """Ranges of ids, their first and last, from `low` to `high`: of no more than `limit` ids, unless all are the same."""
    width = -(-(high - low + 1) // _CELLS)
    if width > 2**50:  # their differences are no int64
        middle = (low + high) // 2
        yield from _ranges(ids, low, middle, limit, memory)
        yield from _ranges(ids, middle + 1, high, limit, memory)
        return
    counts = torch.zeros(_CELLS, dtype=torch.int64)
    for rows in slices(len(ids), memory):
        part = ids[rows]
        inside = part[(part >= low) & (part <= high)].long()
        counts += torch.bincount((inside - low) // width, minlength=_CELLS)
    first, held = low, 0
    for cell, count in enumerate(counts.tolist()):
        begin, end = low + cell * width, min(low + (cell + 1) * width - 1, high)
        if held + count > limit:
            if held:
                yield first, begin - 1
            first, held = begin, 0
            if count > limit and width > 1:
                yield from _ranges(ids, begin, end, limit, memory)
                first, count = end + 1, 0
        held += count
    if held:
        yield first, high
