"""Numbering nodes in order of discovery where it is not known beforehand how large their ids are."""

import torch
from torch import Tensor

from halohop import ops

_ANY_ID = 2**62
_DENSE = 2**24  # places of a table, at most: 64 MiB


class Numbering:
    """As `halohop.ops.Relabeler`, of any ids of at least 0: its table has a place for each id below the next power of two, or,
    where these are too many, hashes them. One object serves one thread, and any number of batches.

    Args:
        pool: where the memory of the results comes from.

    Example:
        >>> numbering = Numbering()
        >>> numbering.start(torch.tensor([7, 3]))
        >>> numbering.add(torch.tensor([3, 2**40, 7])).tolist(), numbering.nodes().tolist()
        ([1, 2, 0], [7, 3, 1099511627776])
    """

    def __init__(self, pool: ops.Pool | None = None) -> None:
        self._pool = pool
        self._num_ids = 0
        self._table = ops.Relabeler(0, pool=pool)

    @property
    def count(self) -> int:
        """How many numbers are given."""
        return self._table.count

    def start(self, nodes: Tensor) -> None:
        """Begins anew; as of `Relabeler.start`."""
        self._table.start(torch.empty(0, dtype=torch.int64))
        self._make_room(nodes)
        self._table.start(nodes)

    def add(self, ids: Tensor) -> Tensor:
        """As of `Relabeler.add`."""
        self._make_room(ids)
        return self._table.add(ids)

    def find(self, ids: Tensor) -> Tensor:
        """As of `Relabeler.find`."""
        self._make_room(ids)
        return self._table.find(ids)

    def nodes(self, begin: int = 0) -> Tensor:
        """As of `Relabeler.nodes`."""
        return self._table.nodes(begin)

    def _make_room(self, ids: Tensor) -> None:
        most = int(ids.numpy().max()) if len(ids) else -1
        if most < self._num_ids:
            return
        known = self._table.nodes()
        self._num_ids = 1 << most.bit_length() if most < _DENSE else _ANY_ID
        self._table = ops.Relabeler(self._num_ids, pool=self._pool)
        self._table.start(known)
