"""Where the edges of some partitions are, by the user's ids: found by an index that is made when it is first asked."""

import threading

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop.cluster.named import named
from halohop.partitioning.book import Book
from halohop.store.part import Part
from halohop.typing import Relation

Int64s = NDArray[np.int64]


class EdgeIds:
    """Finds edges of some partitions by their places in the user's input.

    The index of a relation takes 4 bytes for each of its edges here (8, of more than two billion), in memory.

    Args:
        book: who owns what.
        parts: the partitions by number.
    """

    def __init__(self, book: Book, parts: dict[int, Part]) -> None:
        self._book = book
        self._parts = parts
        self._lock = threading.Lock()
        self._orders: dict[tuple[Relation, int], NDArray[np.integer]] = {}

    def locate(self, relation: Relation, edge_id: Tensor) -> Tensor:
        """Gids (int64 ``[n]``) of edges; -1 of those that are not here.

        Args:
            edge_id: int64 ``[n]``.

        Raises:
            SchemaError: no such relation.
        """
        wanted = edge_id.numpy()
        gid = np.full(len(wanted), -1)
        for part in self._parts:
            found, at = self.places(relation, part, wanted)
            gid[found] = at + self._book.offset(relation, part)
        return torch.from_numpy(gid)

    def places(self, relation: Relation, part: int, wanted: Int64s) -> tuple[Int64s, Int64s]:
        """Which of some edges (int64 ``[n]``) lie in a partition, and where among its edges: positions, int64 each.

        Raises:
            SchemaError: no such partition or relation.
        """
        edges = named(named(self._parts, part, "partition").edges, relation, "relation")
        if edges.edge_id is None:
            at = wanted - self._book.offset(relation, part)
            found = np.flatnonzero((at >= 0) & (at < edges.num_edges))
            return found, at[found]
        if not edges.num_edges:
            return wanted[:0], wanted[:0]
        ids, order = edges.edge_id.numpy(), self._order(relation, part, edges.edge_id)
        at = order[_searched(ids, order, wanted)].astype(np.int64)
        found = np.flatnonzero(ids[at] == wanted)
        return found, at[found]

    def _order(self, relation: Relation, part: int, ids: Tensor) -> NDArray[np.integer]:
        """Positions of a partition's edges, by their ids."""
        with self._lock:
            if (relation, part) not in self._orders:
                self._orders[relation, part] = _order_of(ids.numpy())
            return self._orders[relation, part]


def _order_of(ids: NDArray[np.integer]) -> NDArray[np.integer]:
    """Positions of ids, ascending by these; no id is twice."""
    narrow = np.int32 if len(ids) <= np.iinfo(np.int32).max else np.int64
    if ids.min() == 0 and ids.max() == len(ids) - 1:  # all numbers from 0 on
        order: NDArray[np.integer] = np.empty(len(ids), narrow)
        order[ids] = np.arange(len(ids), dtype=narrow)
        return order
    sorted_places: NDArray[np.integer] = np.argsort(ids).astype(narrow)
    return sorted_places


def _searched(ids: NDArray[np.integer], order: NDArray[np.integer], wanted: Int64s) -> Int64s:
    """Places in the order of what is wanted, if it is there. (NumPy's searchsorted copies all ids where dtypes differ.)"""
    low, high = np.zeros(len(wanted), np.int64), np.full(len(wanted), len(ids) - 1)
    for _ in range((len(ids) - 1).bit_length()):
        middle = (low + high) >> 1
        less = ids[order[middle]] < wanted
        low, high = np.where(less, np.minimum(middle + 1, high), low), np.where(less, high, middle)
    return low
