"""How nodes of a batch are numbered, in plain Python: the specification of `halohop.ops.Relabeler`."""

import torch
from torch import Tensor


class Relabeler:
    def __init__(self, num_nodes: int) -> None:
        self._bid: dict[int, int] = {}
        self._ids: list[int] = []

    def start(self, seeds: Tensor) -> None:
        self._ids = seeds.tolist()
        self._bid = {}
        for bid, v in enumerate(self._ids):
            self._bid.setdefault(v, bid)

    def add(self, ids: Tensor) -> Tensor:
        bids = []
        for v in ids.tolist():
            if v not in self._bid:
                self._bid[v] = len(self._ids)
                self._ids.append(v)
            bids.append(self._bid[v])
        return torch.tensor(bids, dtype=torch.int64)

    def find(self, ids: Tensor) -> Tensor:
        return torch.tensor([self._bid.get(v, -1) for v in ids.tolist()], dtype=torch.int64)

    @property
    def count(self) -> int:
        return len(self._ids)

    def nodes(self, begin: int = 0) -> Tensor:
        return torch.tensor(self._ids[begin:], dtype=torch.int64)
