"""Rows by ranges of the gids that order them: counted, written to files range by range, and read again one range at a time.

A step goes through a range of a table's rows. It leaves a file per field, in which its rows lie bucket after bucket, those of
one in the order of the table. A bucket is a range of gids whose rows fit into memory: its rows are those of all steps, one after
another.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from pathlib import Path

import torch
from torch import Tensor

from halohop import ops
from halohop.partitioning.building.columns import Column, Rows
from halohop.partitioning.building.fields import Table
from halohop.store.npy import ArrayFile, read_rows

_BLOCKS = 1 << 16
"""About how many ranges of gids rows are counted in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What is known of some rows of a table.

    Args:
        counts: how many of them each block of gids has, int64 ``[num_blocks]``.
        first, last: the gids of the first and last of them; None where there is none.
        rises: whether no gid is less than the one before.
    """

    counts: Tensor
    first: int | None
    last: int | None
    rises: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Buckets:
    """How the rows of a table are divided by their gids.

    Args:
        bounds: gids of the buckets.
        rows: how many rows the buckets have, summed up.
        parts: the same of the partitions.
        per_step: the same of each step that wrote the buckets; none where the table is in order.
    """

    bounds: tuple[int, ...]
    rows: tuple[int, ...]
    parts: tuple[int, ...]
    per_step: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        return len(self.bounds) - 1


def blocks_of(bounds: Sequence[int]) -> tuple[int, ...]:
    """Ranges of gids, none of which lies in two partitions: by `bounds`, those of the partitions."""
    width = -(-bounds[-1] // _BLOCKS)
    return tuple(sorted({*bounds, *(range(0, bounds[-1], width) if width else ()), 0})) if bounds[-1] else (0, 0)


def survey(table: Table, ranges: Sequence[range], blocks: Sequence[int], progress: Callable[[int], None]) -> Survey:
    """Counts some rows of a table.

    Args:
        table: which.
        ranges: of its rows, each at once in memory.
        blocks: of gids.
        progress: called with how many were counted.
    """
    within, counts = ops.Ranges(blocks), torch.zeros(len(blocks) - 1, dtype=torch.int64)
    first: int | None = None
    last: int | None = None
    rises = True
    for rows in ranges:
        gids = table.by.rows(rows.start, rows.stop)(0, len(rows), None)
        counts += torch.bincount(within.find(gids), minlength=len(counts))
        if not len(gids):
            continue
        rises = rises and (last is None or int(gids[0]) >= last) and bool((gids[1:] >= gids[:-1]).all())
        first, last = int(gids[0]) if first is None else first, int(gids[-1])
        table.by.release(rows.start, rows.stop)
        progress(rows.stop - ranges[0].start)
    return Survey(counts=counts, first=first, last=last, rises=rises)


def in_order(surveys: Sequence[Survey]) -> bool:
    """Whether the rows of all steps are in the order of their gids."""
    some = [found for found in surveys if found.first is not None]
    return all(found.rises for found in some) and all(
        one.last is not None and other.first is not None and one.last <= other.first for one, other in pairwise(some)
    )


def divide(
    surveys: Sequence[Survey], blocks: Sequence[int], parts: Sequence[int], *, row_bytes: int, gid_bytes: int, memory: int
) -> Buckets:
    """Buckets of as many blocks as fit into memory, at least one each.

    Args:
        surveys: of the steps.
        blocks: of gids, in which they counted.
        parts: gids of the partitions, each the first of a block.
        row_bytes, gid_bytes: what sorting takes for a row and for a gid.
        memory: bytes for a bucket.
    """
    totals = torch.stack([found.counts for found in surveys]).sum(0).tolist()
    ends, taken = [0], 0
    for block, count in enumerate(totals):
        need = count * row_bytes + (blocks[block + 1] - blocks[block]) * gid_bytes
        if taken and taken + need > memory:
            ends.append(block)
            taken = 0
        taken += need
    ends.append(len(totals))
    sums = torch.stack([torch.cat([torch.zeros(1, dtype=torch.int64), found.counts.cumsum(0)]) for found in surveys])
    places = torch.searchsorted(torch.tensor(blocks), torch.tensor(parts))
    return Buckets(
        bounds=tuple(blocks[end] for end in ends),
        rows=tuple(sums.sum(0)[ends].tolist()),
        parts=tuple(sums.sum(0)[places].tolist()),
        per_step=() if in_order(surveys) else tuple(map(tuple, sums[:, ends].tolist())),
    )


def scatter(table: Table, ranges: Sequence[range], buckets: Buckets, step: int, folder: Path) -> Iterator[int]:
    """Writes some rows of a table bucket by bucket; yields how many were written, from time to time.

    Args:
        table: which.
        ranges: of its rows, each at once in memory.
        buckets: where they belong.
        step: whose rows these are, of `Buckets.per_step`.
        folder: of the files.
    """
    within, begins = ops.Ranges(buckets.bounds), buckets.per_step[step]
    files = [_file(folder, number, step) for number in range(len(table.fields) + 1)]
    columns = [table.by, *(field.column for field in table.fields)]
    arrays = [
        ArrayFile.provided(file, column.dtype, (begins[-1], *column.shape)) for file, column in zip(files, columns, strict=True)
    ]
    cursors = list(begins[:-1])
    done = 0
    for rows in ranges:
        gids = table.by.rows(rows.start, rows.stop)(0, len(rows), None)
        starts, order = ops.build_csc(within.find(gids), len(buckets), dtype=torch.int32)
        del gids
        runs = [(cursor, *run) for cursor, run in zip(cursors, pairwise(starts.tolist()), strict=True) if run[0] < run[1]]
        for array, column in zip(arrays, columns, strict=True):
            take = column.rows(rows.start, rows.stop)
            for first, begin, end in runs:
                array.write(first, take(begin, end, order))
        for column in columns:
            column.release(rows.start, rows.stop)
        for array in arrays:
            array.drop()
        cursors = [cursor + count for cursor, count in zip(cursors, starts.diff().tolist(), strict=True)]
        done += len(rows)
        yield done
    for array in arrays:
        array.sync()
        array.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Segments:
    """A column of a bucket, in the files of all steps.

    Args:
        dtype, shape: as of any column.
        pieces: file, its number of rows, and those of the bucket, in order: the first and how many.
    """

    dtype: torch.dtype
    shape: tuple[int, ...]
    pieces: tuple[tuple[Path, int, int, int], ...]
    mapped: bool = field(default=False, init=False)

    def rows(self, first: int, last: int) -> Rows:
        found = torch.empty((last - first, *self.shape), dtype=self.dtype)
        begins = accumulate((count for _, _, _, count in self.pieces), initial=0)
        for begin, (file, total, place, count) in zip(begins, self.pieces, strict=False):
            low, high = max(first, begin), min(last, begin + count)
            if low < high:
                read_rows(file, (total, *self.shape), place + low - begin, found[low - first : high - first])
        return lambda begin, end, order: found[begin:end] if order is None else ops.gather_rows(found, order[begin:end])

    def release(self, first: int, last: int) -> None: ...


def bucket_table(table: Table, buckets: Buckets, bucket: int, folder: Path) -> Table:
    """The rows of a bucket as a table."""
    pieces = [(steps[-1], steps[bucket], steps[bucket + 1] - steps[bucket]) for steps in buckets.per_step]

    def column(number: int, of: Column) -> Column:
        files = tuple((_file(folder, number, step), *piece) for step, piece in enumerate(pieces) if piece[-1])
        return Segments(dtype=of.dtype, shape=of.shape, pieces=files)

    return replace(
        table,
        num_rows=buckets.rows[bucket + 1] - buckets.rows[bucket],
        by=column(0, table.by),
        fields=tuple(replace(own, column=column(number, own.column)) for number, own in enumerate(table.fields, 1)),
    )


def _file(folder: Path, number: int, step: int) -> Path:
    return folder / f"{step:05d}.{number}.npy"
