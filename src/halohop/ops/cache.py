"""The index of a cache: which key has which place, and whose place the next one takes.

A key has `WAYS` possible places, so that one cache line answers a lookup. CLOCK, not a list of the last uses: a scan of rows
that are needed once leaves over 95 % of a hot set in place (``tests/ops/test_cache.py``). So a cache of rows can be on by
default.
"""

import numpy as np
import torch
from torch import Tensor

from halohop.errors import InputError
from halohop.ops import cpu_cache
from halohop.ops.arguments import as_int64, integers
from halohop.ops.pool import Pool, empty

WAYS = cpu_cache.WAYS

MOST_COLUMNS = 64

PLACE_BYTES = 18
"""What an index takes for each place, rounded up."""


class CacheIndex:
    """Places for keys, by CLOCK: a key that was found since the hand came by keeps its place, for up to three rounds of the hand.
    So keys that are needed once push out each other, and not those that are needed often.

    Not safe for threads: its owner takes turns.

    Args:
        num_places: how many; rounded down to a multiple of `WAYS`, at least that many.

    Attributes:
        num_places: the rounded number.
        num_kept: places that have a key.

    Example:
        >>> index = CacheIndex(8)
        >>> index.take_places(torch.tensor([70, 5]), 0b01).tolist()
        [0, 1]
        >>> index.find(torch.tensor([5, 6]), 0b01).tolist(), index.find(torch.tensor([5]), 0b11).tolist()
        ([1, -1], [-1])
    """

    def __init__(self, num_places: int) -> None:
        self.num_places = max(num_places // WAYS, 1) * WAYS
        self.num_kept = 0
        self._keys = np.zeros(self.num_places, np.int64)  # plus one; memory of zeros is taken when it is first written
        self._holds = np.zeros(self.num_places, np.uint64)
        self._uses = np.zeros(self.num_places, np.int8)
        self._hands = np.zeros(self.num_places // WAYS, np.int8)

    def find(self, keys: Tensor, columns: int, *, pool: Pool | None = None) -> Tensor:
        """Where keys lie that have all of some columns; that counts as a use.

        Args:
            keys: int64 or int32 ``[n]``, not negative.
            columns: a bit for each, below 2**64.
            pool: where the memory of the result comes from.

        Returns:
            Places, int64 ``[n]``, -1 where there is none.
        """
        places = empty(pool, (len(keys),), torch.int64)
        wanted = as_int64(integers(keys, "keys"))
        cpu_cache.find(self._keys, self._holds, self._uses, wanted, _bits(columns), places.numpy())
        return places

    def take_places(self, keys: Tensor, columns: int, *, pool: Pool | None = None) -> Tensor:
        """Places for keys, which have some columns from now on beside those that they had. Two keys may get the same place: then
        it is the later one's.

        Args:
            keys, columns, pool: as of `find`.

        Returns:
            Places, int64 ``[n]``.

        Raises:
            InputError: a negative key.
        """
        added = as_int64(integers(keys, "keys"))
        if len(added) and added.min() < 0:
            raise InputError(f"keys hold {int(added.min())}; a cache's keys are 0, 1, ...")
        places = empty(pool, (len(keys),), torch.int64)
        self.num_kept += int(
            cpu_cache.take_places(self._keys, self._holds, self._uses, self._hands, added, _bits(columns), places.numpy())
        )
        return places


def _bits(columns: int) -> np.uint64:
    if not 0 <= columns < 1 << MOST_COLUMNS:
        raise InputError(f"columns={columns:#x} has more than {MOST_COLUMNS} bits")
    return np.uint64(columns)
