"""A column whose hottest rows lie on GPUs, and the others in memory of the host that they read by themselves."""

from collections.abc import Sequence

import torch
from torch import Tensor

from halohop.ops.device import DevicePool
from halohop.ops.device_pieces import DevicePieces
from halohop.ops.missing import gather_known
from halohop.ops.pieces import Pieces
from halohop.ops.pool import Pool
from halohop.ops.rows import gather_rows

_AT_ONCE = 1 << 26
"""Bytes of rows that the host puts together before it copies them to a device."""


class HotPlaces:
    """Which rows of a table caches hold, and where: a table of places on the device that reads them, shared by all columns.

    Args:
        rows: int64 ``[n]`` on the CPU, ascending, each once, at least one.
        count: rows of the table.
        pool: of the device.

    Attributes:
        rows: as given.
        places: of each row of the table, or -1; int32, or int64 where there are too many, on the device.
        hits: rows that were read from caches, int64 ``[1]`` on the device.
    """

    def __init__(self, rows: Tensor, count: int, pool: DevicePool) -> None:
        self.rows, self._pool = rows, pool
        place = torch.full((count,), -1, dtype=_dtype(len(rows)))
        place[rows] = torch.arange(len(rows), dtype=place.dtype)
        with pool.for_all_lanes():
            self.places, self.hits = pool.put(place), pool.zeros((1,), torch.int64)

    @staticmethod
    def num_bytes(count: int) -> int:
        """What the table of places takes on the device, at most, for the rows of a table."""
        return count * _dtype(count).itemsize

    def num_hits(self) -> int:
        """The rows that were read from caches so far. The host waits for their number."""
        return self._pool.numbers(self.hits)[0]


class CachedRows:
    """Rows in two places, read by one kernel: those on the device are one more piece behind the pieces of the host (GLT's and
    GraphBolt's feature caches).

    GPUs of a host that read each other's memory may divide the cache (GLT's DeviceGroup): then it is several pieces, one on each.

    Args:
        source: the column, all of whose pieces are here.
        hot: the rows to be copied to the device, int64 ``[n]`` on the CPU, ascending, each once; or where they are, as other
            columns of the table have them; None: all.
        pool: of the device that reads the rows.
        peers: the pools of the devices that hold the hot rows, an equal share each, in order of `hot`; the pool alone if None.
            The device must be able to read the memory of all.

    Attributes:
        num_hot: how many rows lie on the device, or its peers.

    Raises:
        InputError: the system does not lock the memory of the rows that stay with the host; a peer whose memory the device cannot
            read.
        torch.OutOfMemoryError: a device has not so much.

    Example:
        >>> CachedRows(Pieces([torch.tensor([[5.0], [6.0]])], [0, 2]), None, pool).num_hot  # doctest: +SKIP
        2
    """

    def __init__(
        self, source: Pieces, hot: Tensor | HotPlaces | None, pool: DevicePool, *, peers: Sequence[DevicePool] | None = None
    ) -> None:
        if hot is None and peers is not None:
            hot = torch.arange(len(source))
        self.num_hot = len(source) if hot is None else len(hot.rows if isinstance(hot, HotPlaces) else hot)
        self._places: HotPlaces | None = None
        if hot is None or not self.num_hot:
            self._pieces = DevicePieces.of(source, pool, on_device=hot is None)
            return
        self._places = hot if isinstance(hot, HotPlaces) else HotPlaces(hot, len(source), pool)
        with_host = DevicePieces.of(source, pool, on_device=False)
        tensors, bounds = list(with_host.tensors), with_host.bounds.tolist()
        holders = [pool] if peers is None else peers
        for holder, share in zip(holders, self._places.rows.tensor_split(len(holders)), strict=True):
            pool.reach(holder)
            with holder.for_all_lanes():
                tensors.append(_copied(source, share, holder))
            bounds.append(bounds[-1] + len(share))
        self._pieces = DevicePieces(tensors, bounds, pool=pool)

    def take(self, rows: Tensor, *, padded: bool = False, pool: Pool | None = None) -> Tensor:
        """Some rows, int64 ``[n]`` on the device; if `padded`, -1 is none: zeros. A row that is not there is a fault."""
        if self._places is None:
            return (gather_known if padded else gather_rows)(self._pieces, rows, pool=pool)
        from halohop.ops import gpu_cache

        return gpu_cache.take(self._pieces, self._places.places, rows, self._places.hits, pool, padded=padded)

    def statistics(self) -> dict[str, int]:
        """The rows that were read from a cache of some of them ("device_rows"), of all columns that share its places. The host
        waits for their number."""
        return {"device_rows": 0 if self._places is None else self._places.num_hits()}


def _copied(source: Pieces, rows: Tensor, holder: DevicePool) -> Tensor:
    """Rows on a device. The host, which may have less memory to spare than the cache has, holds some of them at a time."""
    there = holder.empty((len(rows), *source.row_shape), source.dtype)
    for some, part in zip(*(one.split(max(_AT_ONCE // max(source.row_bytes, 1), 1)) for one in (rows, there)), strict=True):
        part.copy_(holder.put(gather_rows(source, some)))
    return there


def _dtype(count: int) -> torch.dtype:
    return torch.int32 if count < 2**31 else torch.int64
