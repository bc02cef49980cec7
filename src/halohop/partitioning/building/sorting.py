"""Rows of a table in the order of their gids, written to where they belong in the partitions' files."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from halohop import ops
from halohop.partitioning.building.columns import Rows
from halohop.partitioning.building.edges import ListOrder, list_order
from halohop.partitioning.building.fields import Table, cut, place
from halohop.partitioning.building.numbering import id_dtype
from halohop.store.filling import Filler
from halohop.typing import EDGE_ID


def split(table: Table, ranges: Sequence[range], filler: Filler) -> Iterator[int]:
    """Writes rows of a table that has those of each partition in order; yields how many were written, from time to time.

    Args:
        table: whose gids have a row each.
        ranges: of its rows, each at once in memory.
        filler: of the data set's files.
    """
    owners, done = ops.Ranges(table.bounds), 0
    for rows in ranges:
        gids = table.by.rows(rows.start, rows.stop)(0, len(rows), None)
        starts, order = ops.build_csc(owners.find(gids), len(owners), dtype=torch.int32)
        runs = [(int(gids[order[begin]]), begin, end) for begin, end in pairwise(starts.tolist()) if begin < end]
        del gids
        for field in table.fields:
            take = field.column.rows(rows.start, rows.stop)
            for run in runs:
                place(field, take, order if len(runs) > 1 else None, run, table.bounds, filler)
            field.column.release(rows.start, rows.stop)
        table.by.release(rows.start, rows.stop)
        done += len(rows)
        yield done


def sort_rows(table: Table, gids: tuple[int, int], filler: Filler) -> None:
    """Writes rows of which each has a gid of its own.

    Args:
        table: all rows of these gids, no others.
        gids: the first one, and the end.
        filler: of the data set's files.
    """
    low, high = gids
    order = torch.empty(high - low, dtype=id_dtype(high - low))
    order[(table.by.rows(0, high - low)(0, high - low, None) - low).long()] = torch.arange(high - low, dtype=order.dtype)
    for field in table.fields:
        place(field, field.column.rows(0, high - low), order, (low, 0, high - low), table.bounds, filler)
        field.column.release(0, high - low)


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedLists:
    """What is known of some rows once they are in lists.

    Args:
        bounds: of the partitions' rows.
        in_order: whether they were in order before.
        falling: names of fields that fall within a list, of those that may hold times.
    """

    bounds: tuple[int, ...]
    in_order: bool
    falling: tuple[str, ...]


def sort_lists(
    table: Table,
    gids: tuple[int, int],
    ranges: Sequence[range],
    filler: Filler,
    *,
    first: int = 0,
    bounds: tuple[int, ...] | None = None,
    with_id: bool | None = None,
) -> SortedLists:
    """Writes the lists of some gids, and where they begin.

    Args:
        table: all rows of these gids, no others.
        gids: the first one, and the end.
        ranges: of the table's rows, each at once in memory. Several are needed only where a few gids have more rows than that.
        filler: of the data set's files.
        first: the number of the first row in the data set.
        bounds: of the partitions' rows; None if the table is all there is, and they are found here.
        with_id: whether numbers of rows are stored; None: if the rows are not in order.
    """
    low, high = gids
    whole = len(ranges) == 1

    def lists_of(rows: range) -> ListOrder:
        return list_order(table.by.rows(rows.start, rows.stop)(0, len(rows), None), low, high)

    ordered = lists_of(ranges[0])
    indptr = ordered.indptr.clone()
    for rows in ranges[1:]:
        indptr += lists_of(rows).indptr
    bounds = bounds or tuple(indptr[list(table.bounds)].tolist())
    _write_ends(table, gids, indptr + first, bounds, filler)
    with_id = ordered.order is not None if with_id is None else with_id
    fields = [field for field in table.fields if with_id or field.name != EDGE_ID]
    lasts = {name: _Last(high - low) for name in table.times}
    cursors = indptr[:-1] + first
    for rows in ranges:
        lists = ordered if whole else lists_of(rows)
        runs = [(first, 0, len(rows))] if whole else _runs(lists, cursors)
        for field in fields:
            take, order = field.column.rows(rows.start, rows.stop), lists.order
            if field.name in lasts:
                take, order = _values(take, lists, len(rows), lasts[field.name], more=not whole), None
            for run in runs:
                place(field, take, order, run, bounds, filler)
            field.column.release(rows.start, rows.stop)
        cursors += lists.indptr.diff()
    falling = tuple(sorted(name for name, last in lasts.items() if last.falls))
    return SortedLists(bounds=bounds, in_order=not with_id, falling=falling)


class _Last:
    """The last value of each list so far, of a field that may never fall."""

    def __init__(self, num_lists: int) -> None:
        self.values: Tensor | None = None
        self.met = torch.zeros(num_lists, dtype=torch.bool)
        self.falls = False

    def add(self, indptr: Tensor, values: Tensor, *, more: bool) -> None:
        """Takes the next values of all lists; `more`: others were taken before, or follow."""
        self.falls = self.falls or not ops.never_falls(indptr, values)
        if not more:
            return
        some = indptr.diff() > 0
        again = some & self.met
        if self.values is None:
            self.values = torch.empty(len(some), dtype=values.dtype)
        self.falls = self.falls or not bool((values[indptr[:-1][again]] >= self.values[again]).all())
        self.values[some] = values[indptr[1:][some] - 1]
        self.met |= some


def _values(take: Rows, lists: ListOrder, count: int, last: _Last, *, more: bool) -> Rows:
    """All values of a field in order, which are looked at."""
    values = take(0, count, lists.order)
    last.add(lists.indptr, values, more=more)
    return lambda begin, end, order: values[begin:end]


def _runs(lists: ListOrder, cursors: Tensor) -> list[tuple[int, int, int]]:
    """Of each list that has rows here: the number that its first row gets, and their places."""
    some = (lists.indptr.diff() > 0).nonzero().view(-1)
    columns = (cursors[some].tolist(), lists.indptr[:-1][some].tolist(), lists.indptr[1:][some].tolist())
    return list(zip(*columns, strict=True))


def _write_ends(table: Table, gids: tuple[int, int], ends: Tensor, bounds: Sequence[int], filler: Filler) -> None:
    """Writes where lists end, in each partition: the place behind the one where the list begins, which another step writes."""
    for part, low, high in cut(*gids, table.bounds):
        rows = ends[low - gids[0] + 1 : high - gids[0] + 1] - bounds[part]
        filler.write(table.ends(part), low - table.bounds[part] + 1, rows)
