"""Dividing a graph in a few passes over its nodes: Fennel with restreaming."""

import numpy as np
import torch
from torch import Tensor

from halohop.errors import InputError
from halohop.ops import cpu_fennel
from halohop.ops.arguments import integers

_STEEPNESS = 1.5  # of the price of a full part, as in the paper


def fennel(
    indptr: Tensor, neighbors: Tensor, weights: Tensor, loads: Tensor, order: Tensor, num_parts: int, *, slack: float, passes: int
) -> Tensor:
    """Deals the nodes of an undirected graph to parts of about the same load, so that few edges are cut.

    Each node goes where the most weight of its neighbours is, less a price that grows with the root of the part's load (Fennel:
    Tsourakakis et al., 2014); further passes deal again what is dealt already (Nishimura and Ugander, 2013), until no node moves.

    Args:
        indptr, neighbors: int64; the neighbours of node v are ``neighbors[indptr[v]:indptr[v + 1]]``.
        weights: of the edges, int64, as long as `neighbors`.
        loads: what each node weighs, int64 or int32 ``[n]``, more than 0.
        order: in which the nodes are dealt, int64 ``[n]``, each once.
        num_parts: how many parts.
        slack: no part is given more than ``1 + slack`` times the mean load, unless a node fits nowhere.
        passes: at most so many.

    Returns:
        The part of each node, int64 ``[n]``.

    Raises:
        InputError: arrays that do not fit together, or wrong dtypes.

    Example:
        >>> indptr, neighbors = torch.tensor([0, 1, 2, 3, 4]), torch.tensor([1, 0, 3, 2])  # 0 - 1 and 2 - 3
        >>> ones, order = torch.ones(4, dtype=torch.int64), torch.arange(4)
        >>> fennel(indptr, neighbors, ones, ones, order, 2, slack=0.05, passes=5).tolist()
        [0, 0, 1, 1]
    """
    starts, ends = integers(indptr, "indptr", only_int64=True), integers(neighbors, "neighbors", only_int64=True)
    num_nodes = len(starts) - 1
    weighed = integers(weights, "weights", len(ends), only_int64=True)
    carry, turns = integers(loads, "loads", num_nodes).astype(np.float64), integers(order, "order", num_nodes, only_int64=True)
    if min(num_parts, passes) < 1 or (carry <= 0).any():
        raise InputError(f"num_parts={num_parts}, passes={passes}, loads from {carry.min(initial=1):g}: all must be more than 0")
    if starts[0] != 0 or starts[-1] != len(ends) or (np.diff(starts) < 0).any():
        raise InputError(f"indptr must rise from 0 to {len(ends)}, the number of neighbours")
    for name, values in (("neighbors", ends), ("order", turns)):
        if len(values) and not 0 <= int(values.min()) <= int(values.max()) < num_nodes:
            raise InputError(f"{name} holds {int(values.min())} to {int(values.max())}, but nodes are 0 to {num_nodes - 1}")
    total = float(carry.sum())
    price = _STEEPNESS * float(np.sqrt(num_parts)) * float(weighed.sum()) / 2 / max(total, 1.0) ** _STEEPNESS
    part, carried = np.full(num_nodes, -1, np.int64), np.zeros(num_parts)
    cpu_fennel.deal(starts, ends, weighed, carry, turns, (1 + slack) * total / num_parts, price, passes, part, carried)
    return torch.from_numpy(part)
