"""Which ids are kept and where, in plain Python: the specification of `halohop.ops.ranked`."""

import torch
from torch import Tensor


class RankedSet:
    def __init__(self, ids: Tensor, limit: int) -> None:
        self._rank = {v: rank for rank, v in enumerate(ids.tolist())}

    def places(self, ids: Tensor) -> Tensor:
        return torch.tensor([self._rank.get(v, -1) for v in ids.tolist()], dtype=torch.int64)


class RankedRuns:
    def __init__(self, firsts: Tensor, starts: Tensor) -> None:
        self._ids = [
            first + at for first, length in zip(firsts.tolist(), starts.diff().tolist(), strict=True) for at in range(length)
        ]

    def places(self, ids: Tensor) -> Tensor:
        return torch.tensor([self._ids.index(v) if v in self._ids else -1 for v in ids.tolist()], dtype=torch.int64)

    def ids(self, places: Tensor) -> Tensor:
        return torch.tensor([self._ids[at] for at in places.tolist()], dtype=torch.int64)
