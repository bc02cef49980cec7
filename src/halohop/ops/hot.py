"""Rows on disk that are read so often that copies of them are kept in memory."""

import numpy as np
import torch
from torch import Tensor

from halohop.ops.missing import gather_known
from halohop.ops.pieces import Pieces
from halohop.ops.pool import Pool
from halohop.ops.ranked import RankedSet
from halohop.ops.rows import gather_rows
from halohop.telemetry import Counters


class HotRows:
    """Pieces on disk, of which some rows are also in memory: as one more piece, so that one kernel reads both.

    What the system keeps of a file are pages with all of their rows; a copy takes no more room than its row.

    Args:
        source: the pieces.
        rows: those to be copied, int64 ``[n]``, ascending, each once.
        counters: of the rows that were asked for and were in memory ("hot_rows").

    Raises:
        InputError: rows that do not ascend.
        IdError: rows that the source does not have.

    Example:
        >>> source = Pieces([torch.tensor([[5.0], [6.0], [7.0]])], [0, 3])
        >>> HotRows(source, torch.tensor([1]), Counters()).take(torch.tensor([2, 1])).tolist()
        [[7.0], [6.0]]
    """

    def __init__(self, source: Pieces, rows: Tensor, counters: Counters) -> None:
        self._source = source
        self._copied = RankedSet(rows, len(source))
        self._pieces = source.followed_by(gather_rows(source, rows))
        self._counters = counters

    def take(self, rows: Tensor, *, padded: bool = False, pool: Pool | None = None) -> Tensor:
        """Some rows of the source, int64 ``[n]``; if `padded`, -1 is none: zeros.

        Raises:
            IdError: a row that the source does not have.
        """
        gather = gather_known if padded else gather_rows
        if bool((rows.numpy() >= len(self._source)).any()):
            return gather(self._source, rows, pool=pool)  # which says which one there is not
        rank = self._copied.places(rows, pool=pool).numpy()
        hot = rank >= 0
        self._counters.add("hot_rows", int(np.count_nonzero(hot)))
        return gather(self._pieces, torch.from_numpy(np.where(hot, rank + len(self._source), rows.numpy())), pool=pool)
