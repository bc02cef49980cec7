"""Nodes dealt to parts, list after list: a graph of which only a piece is in memory at a time can be divided so."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop.errors import InputError
from halohop.ops import cpu_dealing
from halohop.ops.arguments import integers

Rule = Literal["ldg", "fennel"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lists:
    """The neighbours of consecutive nodes.

    Args:
        first: the first of these nodes.
        indptr: int64 ``[n + 1]``; those of node ``first + i`` are ``neighbors[indptr[i]:indptr[i + 1]]``.
        neighbors: nodes of the whole graph, int32 or int64.
        weights: of the edges, int32 or int64; None: 1 each.
        loads: what each node adds to its part, int32 ``[n, k]``.
    """

    first: int
    indptr: Tensor
    neighbors: Tensor
    weights: Tensor | None
    loads: Tensor


class Parts:
    """Which part each node of a graph is in, and what the parts carry.

    Args:
        part: int32 ``[num_nodes]``, -1 where a node has none yet; it is written in place.
        carried: the loads of each part so far, int64 ``[num_parts, k]``.
        limit: what no part shall carry more of, float64 ``[k]``, more than 0.

    Raises:
        InputError: wrong shapes or dtypes.
    """

    def __init__(self, part: Tensor, carried: Tensor, limit: Tensor) -> None:
        if part.dtype != torch.int32 or carried.dtype != torch.int64 or carried.dim() != 2 or not (limit > 0).all():
            raise InputError(f"part {part.dtype}, carried {carried.dtype} of {tuple(carried.shape)}, limit {limit.tolist()}")
        self.part = part
        self.carried = carried
        self.limit = limit.double()

    def deal(self, lists: Lists, *, rule: Rule, price: float = 0.0) -> int:
        """Gives each node, in turn, the part that scores most among those where it fits; else the one that it fills least.

        By the rule "ldg" a part scores the weight of the node's neighbours in it, times the share of it that is free (linear
        deterministic greedy: Stanton and Kliot, 2012); by "fennel" that weight less a price that grows with the root of what the
        part carries (Tsourakakis et al., 2014). Nodes that have a part already are dealt again (restreaming: Nishimura and
        Ugander, 2013). Several loads count by their mean; the fullest one decides what is free.

        Args:
            lists: the nodes.
            price: of filling a full part, in weight of edges; for "fennel".

        Returns:
            How many nodes have another part than before.

        Example:
            >>> path = Lists(first=0, indptr=torch.tensor([0, 1, 2, 3, 4]), neighbors=torch.tensor([1, 0, 3, 2]),
            ...              weights=None, loads=torch.ones(4, 1, dtype=torch.int32))
            >>> parts = Parts(torch.full((4,), -1, dtype=torch.int32), torch.zeros(2, 1, dtype=torch.int64), torch.tensor([2.0]))
            >>> parts.deal(path, rule="ldg"), parts.part.tolist(), parts.carried.tolist()
            (4, [0, 0, 1, 1], [[2], [2]])
        """
        part, carried, limit = self.part.numpy(), self.carried.numpy(), self.limit.numpy()
        return int(cpu_dealing.deal(lists.first, *self._arrays(lists), limit, price, rule == "ldg", part, carried))

    def relieve(self, lists: Lists, *, dearest: float) -> int:
        """Moves nodes out of parts that are above a limit, in turn, each to the part where the fewest edges are cut newly.

        A node moves if that lowers the excess, the sum of the squares of what is above the limits, relative to these; and if
        what it cuts newly is at most `dearest` times what it takes of the excess, relative to the limits. All have parts already.

        Returns:
            How many nodes moved.

        Example:
            >>> pair = Lists(first=0, indptr=torch.tensor([0, 1, 2]), neighbors=torch.tensor([1, 0]), weights=None,
            ...              loads=torch.ones(2, 1, dtype=torch.int32))
            >>> parts = Parts(torch.zeros(2, dtype=torch.int32), torch.tensor([[2], [0]]), torch.tensor([1.0]))
            >>> parts.relieve(pair, dearest=0.5), parts.relieve(pair, dearest=1.0), parts.part.tolist()
            (0, 1, [1, 0])
        """
        part, carried, limit = self.part.numpy(), self.carried.numpy(), self.limit.numpy()
        return int(cpu_dealing.relieve(lists.first, *self._arrays(lists), limit, dearest, part, carried))

    def _arrays(self, lists: Lists) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
        indptr = integers(lists.indptr, "indptr", only_int64=True)
        neighbors = integers(lists.neighbors, "neighbors")
        weights = np.empty(0, np.int32) if lists.weights is None else integers(lists.weights, "weights", len(neighbors))
        shape, last = tuple(lists.loads.shape), lists.first + len(indptr) - 1
        if lists.loads.dtype != torch.int32 or shape != (len(indptr) - 1, self.carried.size(1)) or last > len(self.part):
            nodes = f"nodes {lists.first} to {last - 1} of {len(self.part)}"
            raise InputError(f"loads are {lists.loads.dtype} of {shape}, for {nodes}; give int32, {self.carried.size(1)} each")
        if int(indptr[0]) != 0 or int(indptr[-1]) != len(neighbors) or (np.diff(indptr) < 0).any():
            raise InputError(f"indptr must rise from 0 to {len(neighbors)}, the number of neighbours")
        if len(neighbors) and not 0 <= int(neighbors.min()) <= int(neighbors.max()) < len(self.part):
            raise InputError(f"neighbors holds {neighbors.min()} to {neighbors.max()}, nodes are 0 to {len(self.part) - 1}")
        return indptr, neighbors, weights, np.ascontiguousarray(lists.loads.numpy())
