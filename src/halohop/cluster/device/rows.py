"""The columns of a graph's tables as a GPU reads them."""

import threading
from collections.abc import Mapping

import torch
from torch import Tensor

from halohop.cluster.shard import LocalShard
from halohop.ops.cached_rows import CachedRows
from halohop.ops.device import DevicePool
from halohop.ops.pieces import Pieces
from halohop.store.schema import Schema
from halohop.typing import NodeType, TableKey


class DeviceRows:
    """Columns whose hottest rows are on the device, while the others are page-locked memory of the host.

    Columns on disk and sparse ones are none of them: the host reads their rows.

    Args:
        shard: has all partitions.
        schema: of the graph.
        pool: of the device.
        cache_bytes: of the device's memory, for the hottest rows of nodes' columns.
    """

    def __init__(self, shard: LocalShard, schema: Schema, pool: DevicePool, *, cache_bytes: int) -> None:
        self._pool = pool
        self._lock = threading.Lock()
        self._columns: dict[tuple[TableKey, str], CachedRows] = {}
        self._stored = {table: _readable(shard.stored(table)) for table in schema.tables}
        self._hot = _hottest(shard, {name: self._stored[name] for name in schema.nodes}, cache_bytes)

    def has(self, table: TableKey, column: str) -> bool:
        """Whether rows of a column can be read by the device."""
        return column in self._stored[table]

    def take(self, table: TableKey, column: str, rows: Tensor, *, padded: bool) -> Tensor:
        """Rows of a column, int64 ``[n]`` on the device; if `padded`, -1 is none: zeros.

        Raises:
            InputError: the system does not lock the memory of the column.
        """
        with self._lock:
            found = self._columns.get((table, column))
            if found is None:
                source = self._stored[table][column]
                hot = self._hot.get(table) if isinstance(table, str) else None
                hot = torch.empty(0, dtype=torch.int64) if hot is None else hot
                found = CachedRows(source, None if 0 < len(source) == len(hot) else hot, self._pool)
                self._columns[table, column] = found
        return found.take(rows, padded=padded, pool=self._pool)

    def statistics(self) -> dict[str, int]:
        """How many rows were read from caches, "device_rows"; whole columns on the device are none. The host waits for them."""
        with self._lock:
            columns = list(self._columns.values())
        return {"device_rows": sum(column.statistics()["device_rows"] for column in columns)}


def _readable(columns: Mapping[str, Pieces]) -> dict[str, Pieces]:
    whole = {name: pieces for name, pieces in columns.items() if all(piece is not None for piece in pieces.tensors)}
    return {name: pieces for name, pieces in whole.items() if not pieces.on_disk}


def _hottest(shard: LocalShard, columns: Mapping[NodeType, Mapping[str, Pieces]], num_bytes: int) -> dict[NodeType, Tensor]:
    """The rows of each node type that are copied, ascending. A type's share follows from the bytes that are read of it."""
    widths = {name: sum(pieces.row_bytes for pieces in held.values()) for name, held in columns.items()}
    widths = {name: width for name, width in widths.items() if width}
    if num_bytes <= 0 or not widths:
        return {}
    hotness = {name: shard.hotness(name) for name in widths}
    found: dict[NodeType, Tensor] = {}
    left = num_bytes
    for name in sorted(widths, key=lambda name: len(hotness[name]) * widths[name]):  # what a small type does not need is others'
        reads = {other: float(hotness[other].sum(dtype=torch.float64)) * widths[other] for other in widths if other not in found}
        share = left * reads[name] / max(sum(reads.values()), 1e-30) if len(reads) > 1 else left
        count = min(int(share) // widths[name], len(hotness[name]))
        found[name] = hotness[name].topk(count).indices.sort().values
        left -= count * widths[name]
    return found
