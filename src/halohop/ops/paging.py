"""Rows that lie on disk, in mapped files that do not fit into memory: many are asked for before the first one is read.

One by one, a row that is not in memory costs the disk's latency; asked for together, they come as fast as the disk can read.
"""

import mmap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halohop.ops import cpu_paging
from halohop.ops.pieces import Pieces

_WINDOW = 32 << 20
"""Bytes of pages that are asked for at once. Two windows are on their way at a time, of each thread that gathers: little enough
to be still there when they are read, and enough for the disk to choose an order."""


def windows(source: Pieces | Sequence[Pieces], rows: NDArray[Any]) -> Iterable[slice]:
    """Parts of `rows`, in order, each to be read before the next is asked for; one part where nothing of it is on disk.

    The pages of a part, and of the one after it, have been asked for when it comes. Rows that no piece holds are left out.

    Args:
        source: whose rows they are; several whose same rows are read together.
        rows: int64 or int32 ``[n]``.
    """
    sources = [pieces for pieces in ([source] if isinstance(source, Pieces) else source) if pieces.on_disk]
    return _windows_of(sources, rows) if sources else (slice(0, len(rows)),)


def _windows_of(sources: Sequence[Pieces], rows: NDArray[Any]) -> Iterator[slice]:
    step = max(_WINDOW // sum(max(pieces.row_bytes, mmap.PAGESIZE) for pieces in sources), 1)
    _ask(sources, rows[:step])
    for begin in range(0, len(rows), step):
        _ask(sources, rows[begin + step : begin + 2 * step])
        yield slice(begin, min(begin + step, len(rows)))


def _ask(sources: Sequence[Pieces], rows: NDArray[Any]) -> None:
    for source in sources:
        addresses = source.addresses(rows)
        addresses.sort()
        cpu_paging.will_need(addresses, np.uint64(source.row_bytes * (1 + source.extra)))
