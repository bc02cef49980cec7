"""Access probabilities in plain Python: the specification of `halohop.ops.access`."""

import math

import torch
from torch import Tensor


def draw_shares(counts: Tensor, fanout: int, *, replace: bool = False, weights: Tensor | None = None) -> Tensor:
    shares: list[float] = []
    for begin, count in zip((counts.cumsum(0) - counts).tolist(), counts.tolist(), strict=True):
        weighed = [1.0] * count if weights is None else weights[begin : begin + count].double().tolist()
        total, positive = sum(weighed), sum(weight > 0 for weight in weighed)
        if fanout < 0 or (fanout >= positive and not replace):
            shares += [float(weight > 0) for weight in weighed]
        elif replace:
            shares += [1 - (1 - weight / total) ** fanout if weight > 0 else 0.0 for weight in weighed]
        elif weights is None:
            shares += [fanout / count] * count
        else:
            shares += _clocks(weighed, fanout)
    return torch.tensor(shares, dtype=torch.float64)


def _clocks(weights: list[float], fanout: int) -> list[float]:
    low, high = 0.0, 1.0
    while sum(1 - math.exp(-weight * high) for weight in weights) < fanout and high < 1e300:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        if sum(1 - math.exp(-weight * middle) for weight in weights) < fanout:
            low = middle
        else:
            high = middle
    return [1 - math.exp(-weight * low) for weight in weights]


def add_absence(counts: Tensor, neighbors: Tensor, reach: Tensor, shares: Tensor, out: Tensor) -> None:
    for row, begin in enumerate((counts.cumsum(0) - counts).tolist()):
        for entry in range(begin, begin + int(counts[row])):
            chance = min(float(reach[row] * shares[entry]), 1.0)
            out[neighbors[entry]] += math.log1p(-chance) if chance < 1 else -math.inf
