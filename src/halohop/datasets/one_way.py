"""Which edges lack a reverse, of any number of edges: those between the same two nodes are looked at together."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop.datasets.staging import Staging
from halohop.files.buckets import MOST_BUCKETS, BucketFiles
from halohop.store.tables import EdgeTable

_CHUNKS, _WORK = 8, 200  # a bucket takes so many chunks of memory, and so many bytes an edge beside its record
_HEAD = 24  # bytes of position and ends in a record

Rows = Callable[[NDArray[np.int64]], NDArray[np.uint8]]


def one_way(table: EdgeTable, num_nodes: int, staging: Staging, name: str) -> list[Tensor]:
    """The edges that are no self-loop and have no reverse with equal columns.

    Args:
        table: edges between nodes of one type.
        num_nodes: how many there are.
        staging: with a folder, edges go through files there, and nothing of their number is in memory.
        name: of the result, for `staging`.

    Returns:
        Positions in the table, int64, ascending in each of the lists; together each is there once.

    Raises:
        WriteError: a file cannot be written.
    """
    if staging.folder is None:

        def rows(positions: NDArray[np.int64]) -> NDArray[np.uint8]:
            return _bytes([column[torch.from_numpy(positions)] for column in table.columns.values()], len(positions))

        return [torch.from_numpy(_one_way(table.src.long().numpy(), table.dst.long().numpy(), num_nodes, rows))]
    return list(staging.columns(name, lambda: _by_buckets(table, num_nodes, staging)).values())


def _by_buckets(table: EdgeTable, num_nodes: int, staging: Staging) -> Iterator[dict[str, Tensor]]:
    record = _HEAD + sum(column[:1].numel() * column.element_size() for column in table.columns.values())
    share = staging.chunk_bytes * _CHUNKS // (record + _WORK)
    count = min(max(-(-table.num_edges // max(share, 1)), 1), MOST_BUCKETS)
    with tempfile.TemporaryDirectory(dir=staging.folder, prefix="halohop-buckets-") as folder:
        buckets = BucketFiles(Path(folder), count)
        with buckets.writer() as deal:
            for part in staging.slices(table.num_edges, record):
                deal(*_grouped(table, part, count))
        for number in range(count):
            records = buckets.take(number, np.dtype(np.uint8)).reshape(-1, record)
            position, src, dst = (records[:, 8 * k : 8 * k + 8].copy().view(np.int64)[:, 0] for k in range(3))
            found = _one_way(src, dst, num_nodes, lambda positions, of=records: of[positions, _HEAD:])  # type: ignore[misc]
            yield {str(number): torch.from_numpy(position[found])}


def _grouped(table: EdgeTable, part: slice, count: int) -> tuple[NDArray[np.uint8], list[int]]:
    """The records of some edges, bucket by bucket, and where each begins; edges of the same two nodes are in the same bucket."""
    src, dst = (end[part].long() for end in table.ends)
    mixed = torch.minimum(src, dst) * -7046029254386353131 + torch.maximum(src, dst) * -4417276706812531889  # odd, of 64 bits
    bucket = ((mixed >> 32) ^ mixed).numpy().view(np.uint64) % np.uint64(count)
    order = np.argsort(bucket, kind="stable")
    position = torch.arange(part.start, part.stop)
    records = _bytes([position, src, dst, *(column[part] for column in table.columns.values())], len(position))
    ends = np.cumsum(np.bincount(bucket.astype(np.int64), minlength=count))
    return records[order], [0, *ends.tolist()]


def _one_way(src: NDArray[np.int64], dst: NDArray[np.int64], num_nodes: int, rows: Rows) -> NDArray[np.int64]:
    """`one_way` of edges in memory; `rows` gives the bytes of the columns of some of them."""
    ends, reverses = src * num_nodes + dst, dst * num_nodes + src
    missing = src != dst
    mutual = np.flatnonzero(missing & np.isin(reverses, ends))
    missing[mutual] = False
    columns = rows(mutual)
    if columns.size:
        kinds = _row_numbers(columns)
        pairs = np.unique(ends[mutual])  # the reverse of one of them is one of them
        there = np.searchsorted(pairs, ends[mutual]) * len(mutual) + kinds
        wanted = np.searchsorted(pairs, reverses[mutual]) * len(mutual) + kinds
        missing[mutual] = ~np.isin(wanted, there)
    return np.flatnonzero(missing)


def _row_numbers(rows: NDArray[np.uint8]) -> NDArray[np.int64]:
    """The same number for rows of the same bytes; each is under their number."""
    packed = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.shape[1]))).reshape(-1)
    return np.unique(packed, return_inverse=True)[1].reshape(-1)


def _bytes(columns: Sequence[Tensor], length: int) -> NDArray[np.uint8]:
    """The bytes of each row of some columns, side by side."""
    flat = [column.reshape(length, -1).contiguous().view(torch.uint8) for column in columns if column[:1].numel()]
    return torch.cat(flat, dim=1).numpy() if flat else np.empty((length, 0), np.uint8)
