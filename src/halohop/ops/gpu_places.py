"""Numbering the nodes of a batch on a GPU where it is known beforehand at which place each hop begins: the host need not ask how
many nodes there are."""

from collections.abc import Sequence

import torch
from torch import Tensor

from halohop.ops.device import DevicePool
from halohop.ops.gpu_relabel import DeviceRelabeler, slot_bits
from halohop.ops.relabel import DENSE_LIMIT, Relabeler


class PlacedRelabeler(DeviceRelabeler):
    """`DeviceRelabeler` whose hops have places of fixed numbers. Nodes of a hop come first among its places, in order; those that
    are left have no id, -1, and so has an id -1 no place. More nodes than places are a fault.

    Args:
        num_nodes, pool, dense_limit: as of `DeviceRelabeler`.
        room: the places of each hop, seeds first.
        found: the most ids that are added in a batch.
    """

    _padded = True

    def __init__(
        self, num_nodes: int, *, room: Sequence[int], found: int, pool: DevicePool, dense_limit: int = DENSE_LIMIT
    ) -> None:
        super().__init__(num_nodes, pool=pool, dense_limit=dense_limit)
        self._room, self._hop = tuple(room), 0
        most = sum(room) + found
        self._ids = pool.empty((most,), torch.int64)
        if not self._dense:
            self._resize(slot_bits(most))
        self._begin, self._end = 0, self._room[0]

    @property
    def count(self) -> int:
        """The places of the hops that have ended."""
        return self._begin

    def start(self, seeds: Tensor) -> None:
        """As of `Relabeler`."""
        assert len(seeds) <= self._room[0]
        super().start(seeds)
        self._ids[len(seeds) :].fill_(-1)
        self._hop, self._begin, self._end = 0, 0, self._room[0]

    def add(self, ids: Tensor, out: Tensor | None = None) -> Tensor:
        """As of `Relabeler`; the bid of an id -1 is any."""
        bids = self._device_pool.empty((len(ids),), torch.int64) if out is None else out
        if len(ids):
            self._number(ids.contiguous(), bids)
            bids.clamp_(max=self._end - 1)  # a model reads them before the fault is raised
        return bids

    @staticmethod
    def settle(relabelers: Sequence[Relabeler]) -> None:
        """Ends a hop: the next nodes come behind its places."""
        for one in relabelers:
            assert isinstance(one, PlacedRelabeler)
            one._device_pool.require(one._known, one._end)
            one._known.fill_(one._end)
            one._hop += 1
            one._begin, one._end = one._end, one._end + sum(one._room[one._hop : one._hop + 1])
