"""Rows that lie on disk, in mapped files that do not fit into memory: many are asked for before the first one is read.

One by one, a row that is not in memory costs the disk's latency; asked for together, they come as fast as the disk can read.
"""

import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halohop.ops import cpu_paging
from halohop.ops.pieces import Pieces

_WINDOW = 32 << 20
"""Bytes of pages that are asked for at once. Two windows are on their way at a time, of each thread that gathers: little enough
to be still there when they are read, and enough for the disk to choose an order."""


def windows(source: Pieces, rows: NDArray[Any]) -> Iterator[slice]:
    """Parts of `rows`, in order, each to be read before the next is asked for; one part where the source is not on disk.

    The pages of a part, and of the one after it, have been asked for when it comes. Rows that no piece holds are left out.
    """
    if not source.on_disk:
        yield slice(0, len(rows))
        return
    step = max(_WINDOW // max(source.row_bytes, mmap.PAGESIZE), 1)
    _ask(source, rows[:step])
    for begin in range(0, len(rows), step):
        _ask(source, rows[begin + step : begin + 2 * step])
        yield slice(begin, min(begin + step, len(rows)))


def _ask(source: Pieces, rows: NDArray[Any]) -> None:
    addresses = source.addresses(rows)
    addresses.sort()
    cpu_paging.will_need(addresses, np.uint64(source.row_bytes * (1 + source.extra)))
