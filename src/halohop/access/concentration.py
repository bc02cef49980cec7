"""How uneven a load is: the share of it that the heaviest so many per cent of the nodes have."""

from collections.abc import Sequence

import torch
from torch import Tensor

SHARES = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Of the nodes, where a curve has its points."""


def concentration(load: Tensor, shares: Sequence[float] = SHARES) -> list[float]:
    """Which part of a load the nodes with most of it have.

    Args:
        load: at least 0, ``[num_nodes]``.
        shares: of the nodes, from 0 to 1.

    Example:
        >>> concentration(torch.tensor([0, 6, 1, 1]), [0.0, 0.25, 0.5, 1.0])
        [0.0, 0.75, 0.875, 1.0]
    """
    falling = torch.sort(load.double(), descending=True).values.cumsum(0)
    total = float(falling[-1]) if len(falling) else 0.0
    taken = [round(share * len(falling)) for share in shares]
    return [float(falling[count - 1]) / total if count and total else 0.0 for count in taken]


def left_over(hot: Tensor, capacity: Sequence[int]) -> list[float]:
    """What is expected to be asked of other hosts where the hottest rows of theirs are copied.

    Args:
        hot: how probable it is that a batch needs each node of other hosts, ``[n]``.
        capacity: how many are copied, by point of the curve.

    Returns:
        Rows of a batch.

    Example:
        >>> left_over(torch.tensor([0.5, 0.25, 1.0]), [0, 1, 9])
        [1.75, 0.75, 0.0]
    """
    falling = torch.cat([torch.zeros(1, dtype=torch.float64), torch.sort(hot.double(), descending=True).values.cumsum(0)])
    return [float(falling[-1] - falling[min(count, len(hot))]) for count in capacity]


def degree_bins(degrees: Tensor) -> list[int]:
    """How many nodes have no edges, 1, 2 to 3, 4 to 7, and so on.

    Example:
        >>> degree_bins(torch.tensor([0, 1, 1, 3, 4]))
        [1, 2, 1, 1]
    """
    if not len(degrees):
        return []
    bins = torch.where(degrees > 0, degrees.double().clamp(min=1).log2().floor() + 1, 0).long()
    return [int(count) for count in torch.bincount(bins)]


def bin_names(count: int) -> list[str]:
    """What the bins of `degree_bins` are called.

    Example:
        >>> bin_names(4)
        ['0', '1', '2-3', '4-7']
    """
    return [("0", "1")[number] if number < 2 else f"{2 ** (number - 1)}-{2**number - 1}" for number in range(count)]
