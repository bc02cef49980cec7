"""Which of some ids are kept, and at which place: for sets of ids, and for sets of runs of ids."""

import numpy as np
import torch
from torch import Tensor

from halohop.errors import InputError
from halohop.ops import cpu_ranked
from halohop.ops.arguments import integers
from halohop.ops.pool import Pool, empty


class RankedSet:
    """Some of the ids 0 to limit - 1: a bit for each id, and a number for every 64 of them. An id's place is its rank.

    Args:
        ids: int64 or int32 ``[n]``, ascending, each once.
        limit: greater than all of them.

    Raises:
        InputError: ids that do not ascend, or outside 0..limit-1.

    Example:
        >>> kept = RankedSet(torch.tensor([3, 70, 71]), 100)
        >>> kept.places(torch.tensor([70, 4, 3, 99])).tolist()
        [1, -1, 0, -1]
    """

    def __init__(self, ids: Tensor, limit: int) -> None:
        array = integers(ids, "ids")
        if len(array) and not (array[0] >= 0 and array[-1] < limit and (np.diff(array) > 0).all()):
            raise InputError(f"ids must ascend from 0 or more to less than {limit}")
        self._limit = limit
        self._words = np.zeros(-(-limit // 64), np.uint64)
        self._before = np.zeros(len(self._words), np.int32 if len(array) < 2**31 else np.int64)
        cpu_ranked.mark(array, self._words, self._before)

    def places(self, ids: Tensor, *, pool: Pool | None = None) -> Tensor:
        """The rank of each id (int64 or int32 ``[n]``) among those of the set, -1 where it is none of them: int64 ``[n]``."""
        places = empty(pool, (len(ids),), torch.int64)
        cpu_ranked.find_ranks(self._words, self._before, self._limit, integers(ids, "ids"), places.numpy())
        return places


class RankedRuns:
    """Runs of consecutive ids, one after the other. The place of an id is how many ids of the runs come before it.

    Args:
        firsts: where the runs begin, int64 ``[n]``, ascending; runs do not overlap.
        starts: how many ids come before each run, int64 ``[n + 1]``.

    Raises:
        InputError: numbers that do not fit together.

    Example:
        >>> kept = RankedRuns(torch.tensor([10, 50]), torch.tensor([0, 3, 4]))
        >>> kept.places(torch.tensor([12, 13, 50])).tolist()
        [2, -1, 3]
    """

    def __init__(self, firsts: Tensor, starts: Tensor) -> None:
        self._firsts, self._starts = integers(firsts, "firsts", only_int64=True), integers(starts, "starts", only_int64=True)
        if len(self._starts) != len(self._firsts) + 1:
            raise InputError(f"{len(self._firsts)} runs need {len(self._firsts) + 1} starts, got {len(self._starts)}")
        last = int(self._firsts[-1]) if len(self._firsts) else 0
        self._shift = max((last // max(len(self._firsts), 1)).bit_length() - 1, 0)  # about as many blocks as runs
        blocks = np.arange((last >> self._shift) + 2, dtype=np.int64) << self._shift
        self._before = np.searchsorted(self._firsts, blocks).astype(np.int32 if len(self._firsts) < 2**31 else np.int64)

    def places(self, ids: Tensor, *, pool: Pool | None = None) -> Tensor:
        """The place of each id (int64 or int32 ``[n]``), -1 where no run holds it: int64 ``[n]``."""
        places = empty(pool, (len(ids),), torch.int64)
        cpu_ranked.find_in_runs(self._firsts, self._starts, self._before, self._shift, integers(ids, "ids"), places.numpy())
        return places

    def ids(self, places: Tensor, *, pool: Pool | None = None) -> Tensor:
        """The inverse: the ids at some places, int64 ``[n]``."""
        at = integers(places, "places")
        run = np.searchsorted(self._starts, at, side="right") - 1
        out = empty(pool, (len(at),), torch.int64)
        np.add(at, (self._firsts - self._starts[:-1])[run], out=out.numpy())
        return out
