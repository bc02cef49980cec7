"""Where the edges of some partitions are, by the user's ids: found by an index that is made when it is first asked."""

import threading

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop.errors import SchemaError
from halohop.partitioning.book import Book
from halohop.store.part import Part
from halohop.typing import Relation


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
        for index, part in self._parts.items():
            if relation not in part.edges:
                raise SchemaError(f"unknown relation {relation!r}; known: {list(part.edges)}")
            edges, offset = part.edges[relation], self._book.offset(relation, index)
            if edges.edge_id is None:
                found = np.flatnonzero((wanted >= offset) & (wanted < offset + edges.num_edges))
                gid[found] = wanted[found]
            elif edges.num_edges:
                ids, order = edges.edge_id.numpy(), self._order(relation, index, edges.edge_id)
                at = order[np.minimum(np.searchsorted(ids, wanted, sorter=order), len(order) - 1)]
                found = np.flatnonzero(ids[at] == wanted)
                gid[found] = at[found] + offset
        return torch.from_numpy(gid)

    def _order(self, relation: Relation, part: int, ids: Tensor) -> NDArray[np.integer]:
        """Positions of a partition's edges, by their ids."""
        with self._lock:
            if (relation, part) not in self._orders:
                order = np.argsort(ids.numpy())
                narrow = np.int32 if len(order) <= np.iinfo(np.int32).max else np.int64
                self._orders[relation, part] = order.astype(narrow)
            return self._orders[relation, part]
