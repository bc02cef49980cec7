"""A column whose hottest rows lie on a GPU, and the others in memory of the host that it reads by itself."""

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

    Args:
        source: the column, all of whose pieces are here.
        hot: the rows to be copied to the device, int64 ``[n]`` on the CPU, ascending, each once; None: all.
        pool: of the device.

    Attributes:
        num_hot: how many rows lie on the device.

    Raises:
        InputError: the system does not lock the memory of the rows that stay with the host.

    Example:
        >>> CachedRows(Pieces([torch.tensor([[5.0], [6.0]])], [0, 2]), None, pool).num_hot  # doctest: +SKIP
        2
    """

    def __init__(self, source: Pieces, hot: Tensor | None, pool: DevicePool) -> None:
        self._place: Tensor | None = None
        self.num_hot = len(source) if hot is None else len(hot)
        if hot is None or not len(hot):
            self._pieces = DevicePieces.of(source, pool, on_device=hot is None)
            return
        with_host = DevicePieces.of(source, pool, on_device=False)
        cached = pool.put(gather_rows(source, hot))
        bounds = [*with_host.bounds.tolist(), len(source) + len(hot)]
        self._pieces = DevicePieces([*with_host.tensors, cached], bounds, pool=pool)
        fits = len(source) + len(hot) < 2**31
        place = torch.arange(len(source), dtype=torch.int32 if fits else torch.int64)
        place[hot] = torch.arange(len(source), len(source) + len(hot), dtype=place.dtype)
        self._place = pool.put(place)

    def take(self, rows: Tensor, *, padded: bool = False, pool: Pool | None = None) -> Tensor:
        """Some rows, int64 ``[n]`` on the device; if `padded`, -1 is none: zeros. A row that is not there is a fault."""
        if self._place is not None:
            found = self._place.index_select(0, rows.clamp(min=0)).long()
            rows = torch.where(rows < 0, rows, found) if padded else found
        return (gather_known if padded else gather_rows)(self._pieces, rows, pool=pool)
