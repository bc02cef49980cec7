"""Narrow columns of the nodes of a type: copied side by side, once so many of their rows are read that it pays.

The files stay columnar: partitions are written one by one, and the range of a column is known only at the end. Edges have no
records, since 8 bytes each would double the graph. Columns that the user may write to (PyG objects, columns passed to `open`,
partitions in memory) are not packed either.
"""

import threading
from collections.abc import Mapping

import torch
from torch import Tensor

from halohop import ops
from halohop.store.requests import RowQuery
from halohop.telemetry import Counters, Gauge
from halohop.typing import RAW_ID

_SHARE = 4  # a copy takes about as long as reading one part of these of the rows from their own columns
MOST_BYTES = 8  # that a row of the copy takes


class NarrowColumns:
    """Those columns of a type of node that have one number a row. Batches mostly want several of them for the same nodes: labels,
    masks, the user's ids. Each alone costs a cache line a node; in one record they cost one together.

    Args:
        columns: by name, of partitions whose files do not change; `RAW_ID` may be one. Others than narrow ones are left alone.
        counters: "record_bytes" are the memory that the copies take.
    """

    def __init__(self, columns: Mapping[str, ops.Pieces], counters: Counters) -> None:
        fit = {name: pieces for name, pieces in columns.items() if ops.Records.can_hold(pieces) and not pieces.on_disk}
        self._columns = fit if len(fit) > 1 else {}
        self._counters = counters
        self._lock = threading.Lock()
        self._records: ops.Records | None = None
        pieces = next(iter(fit.values())).tensors if self._columns else ()
        self.num_rows = sum(len(piece) for piece in pieces if piece is not None)
        self._unread = self.num_rows // _SHARE

    def take(self, query: RowQuery, pool: ops.Pool) -> dict[str, Tensor]:
        """Those columns of a query that lie side by side, by name; none if it asks for fewer than two of them."""
        if not self._columns or sum(name in self._columns for name in query.columns) < 2:
            return {}
        records = self._records or self._made(len(query.gid))
        names = [] if records is None else [name for name in query.columns if name in records.fields]
        return records.take(names, query.gid, padded=query.padded, pool=pool) if records and len(names) > 1 else {}

    def _made(self, more: int) -> ops.Records | None:
        """The copies, if this many more rows make up for them."""
        with self._lock:
            self._unread -= more
            if self._records is None and self._unread <= 0 and self._columns:
                self._records = ops.Records.of(self._columns, {RAW_ID: torch.int64})
                self._counters.add("record_bytes", Gauge(0 if self._records is None else self._records.num_bytes))
                if self._records is None:
                    self._columns = {}
            return self._records
