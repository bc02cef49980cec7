"""The columns of a graph's tables as a GPU reads them."""

import threading
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from halohop.ops.cached_rows import CachedRows, HotPlaces
from halohop.ops.device import DevicePool
from halohop.ops.pieces import Pieces
from halohop.typing import NodeType, TableKey


class DeviceRows:
    """Columns whose hottest rows are on the device, while the others are page-locked memory of the host.

    Columns of nodes are made ready at once, so that what has no room is known before there are batches; those of edges when
    they are first read, as few batches have them.

    Args:
        columns: by table, all of whose pieces are in memory here.
        hot: the rows of nodes that the cache holds, int64 ``[n]`` on the CPU, ascending.
        pool: of the device.
        peers: those of the devices that divide the cache; None: the device alone has it.

    Raises:
        InputError: the system does not lock the memory of a column, or the device cannot read that of a peer.
        torch.OutOfMemoryError: a device has not so much.
    """

    def __init__(
        self,
        columns: Mapping[TableKey, Mapping[str, Pieces]],
        hot: Mapping[NodeType, Tensor],
        pool: DevicePool,
        *,
        peers: Sequence[DevicePool] | None = None,
    ) -> None:
        self._sources, self._pool = columns, pool
        self._lock = threading.Lock()
        self._columns: dict[tuple[TableKey, str], CachedRows] = {}
        self._places: list[HotPlaces] = []
        none = torch.empty(0, dtype=torch.int64)
        for table in (table for table in columns if isinstance(table, str) and columns[table]):
            rows, count = hot.get(table, none), len(next(iter(columns[table].values())))
            kept: Tensor | HotPlaces | None = rows
            if peers is None and 0 < len(rows) == count:
                kept = None
            elif len(rows):
                kept = HotPlaces(rows, count, pool)
                self._places.append(kept)
            for name, source in columns[table].items():
                self._columns[table, name] = CachedRows(source, kept, pool, peers=peers if len(rows) else None)

    def has(self, table: TableKey, column: str) -> bool:
        """Whether rows of a column can be read by the device."""
        return column in self._sources.get(table, ())

    def take(self, table: TableKey, column: str, rows: Tensor, *, padded: bool) -> Tensor:
        """Rows of a column, int64 ``[n]`` on the device; if `padded`, -1 is none: zeros.

        Raises:
            InputError: the system does not lock the memory of the column.
        """
        with self._lock:
            found = self._columns.get((table, column))
            if found is None:
                found = CachedRows(self._sources[table][column], torch.empty(0, dtype=torch.int64), self._pool)
                self._columns[table, column] = found
        return found.take(rows, padded=padded, pool=self._pool)

    def statistics(self) -> dict[str, int]:
        """How many rows were read from caches, "device_rows"; whole columns on the device are none. The host waits for them."""
        return {"device_rows": sum(places.num_hits() for places in self._places)}
