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


class CachedRows:
    """Rows in two places, read by one kernel: those on the device are one more piece behind the pieces of the host (GLT's and
    GraphBolt's feature caches).

    GPUs of a host that read each other's memory may divide the cache (GLT's DeviceGroup): then it is several pieces, one on each.

    Args:
        source: the column, all of whose pieces are here.
        hot: the rows to be copied to the device, int64 ``[n]`` on the CPU, ascending, each once; None: all.
        pool: of the device that reads the rows.
        peers: the pools of the devices that hold the hot rows, an equal share each, in order of `hot`; the pool alone if None.
            The device must be able to read the memory of all.

    Attributes:
        num_hot: how many rows lie on the device, or its peers.

    Raises:
        InputError: the system does not lock the memory of the rows that stay with the host; a peer whose memory the device cannot
            read.

    Example:
        >>> CachedRows(Pieces([torch.tensor([[5.0], [6.0]])], [0, 2]), None, pool).num_hot  # doctest: +SKIP
        2
    """

    def __init__(
        self, source: Pieces, hot: Tensor | None, pool: DevicePool, *, peers: Sequence[DevicePool] | None = None
    ) -> None:
        if hot is None and peers is not None:
            hot = torch.arange(len(source))
        self.num_hot = len(source) if hot is None else len(hot)
        self._pool = pool
        with pool.for_all_lanes():
            self._hits = pool.zeros((1,), torch.int64)
        self._place: Tensor | None = None
        if hot is None or not len(hot):
            self._pieces = DevicePieces.of(source, pool, on_device=hot is None)
            return
        with_host = DevicePieces.of(source, pool, on_device=False)
        tensors, bounds = list(with_host.tensors), with_host.bounds.tolist()
        holders = [pool] if peers is None else peers
        for holder, share in zip(holders, hot.tensor_split(len(holders)), strict=True):
            pool.reach(holder)
            with holder.for_all_lanes():
                tensors.append(holder.put(gather_rows(source, share)))
            bounds.append(bounds[-1] + len(share))
        self._pieces = DevicePieces(tensors, bounds, pool=pool)
        place = torch.full((len(source),), -1, dtype=torch.int32 if len(hot) < 2**31 else torch.int64)
        place[hot] = torch.arange(len(hot), dtype=place.dtype)
        with pool.for_all_lanes():
            self._place = pool.put(place)

    def take(self, rows: Tensor, *, padded: bool = False, pool: Pool | None = None) -> Tensor:
        """Some rows, int64 ``[n]`` on the device; if `padded`, -1 is none: zeros. A row that is not there is a fault."""
        if self._place is None:
            return (gather_known if padded else gather_rows)(self._pieces, rows, pool=pool)
        from halohop.ops import gpu_cache

        return gpu_cache.take(self._pieces, self._place, rows, self._hits, pool, padded=padded)

    def statistics(self) -> dict[str, int]:
        """The rows that were read from a cache of some of them ("device_rows"). The host waits for their number."""
        return {"device_rows": 0 if self._place is None else self._pool.numbers(self._hits)[0]}
