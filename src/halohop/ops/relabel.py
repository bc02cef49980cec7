"""Numbering the nodes of a batch in order of discovery."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop.errors import IdError, InputError
from halohop.ops import cpu_relabel
from halohop.ops.arguments import integers, target
from halohop.ops.device import DevicePool
from halohop.ops.pool import Pool, empty

DENSE_LIMIT = 2**24
"""Most nodes for which a table with an entry per node is used: 4 bytes each, so 64 MiB a thread. On random ids it is four times
as fast as the hash table at 2**20 nodes, and no faster from here on."""

_MIN_SLOT_BITS = 10


class Relabeler:
    """Gives the nodes of a batch consecutive batch ids (bids): seeds first, then in order of discovery.

    One object serves one thread, one node type and any number of batches; a new batch costs no clearing.

    Args:
        num_nodes: ids go from 0 to num_nodes - 1.
        dense_limit: most nodes for which an entry per node is kept.
        pool: where the memory of the results comes from.

    Example:
        >>> relabeler = Relabeler(100)
        >>> relabeler.start(torch.tensor([7, 3]))
        >>> relabeler.add(torch.tensor([3, 50, 7, 50, 4])).tolist()
        [1, 2, 0, 2, 3]
        >>> relabeler.nodes().tolist(), relabeler.nodes(begin=2).tolist(), relabeler.count
        ([7, 3, 50, 4], [50, 4], 4)
        >>> relabeler.find(torch.tensor([4, 5, 7])).tolist()
        [3, -1, 0]
    """

    def __init__(self, num_nodes: int, *, dense_limit: int = DENSE_LIMIT, pool: Pool | None = None) -> None:
        if num_nodes < 0:
            raise InputError(f"num_nodes={num_nodes} is negative")
        self._num_nodes = num_nodes
        self._pool = pool
        self._table: _Table = _DenseTable(num_nodes) if num_nodes <= dense_limit else _HashTable(num_nodes)
        self._nodes, self._address = np.empty(0, np.int64), 0
        self._count = 0

    @property
    def count(self) -> int:
        """How many bids are given; the seeds' duplicates have bids of their own."""
        return self._count

    def start(self, seeds: Tensor) -> None:
        """Begins a batch: seed i gets bid i. A seed that occurs twice keeps both bids, and `add` finds the first.

        Args:
            seeds: int64 or int32 ``[n]``.

        Raises:
            IdError: a seed is no node; start again before adding.
            InputError: wrong dtype or shape.
        """
        array = integers(seeds, "seeds")
        self._reserve(len(array), keep=0)
        previous, self._count = self._count, 0
        self._table.advance(previous, len(array))
        if not len(array):
            return
        done = self._table.start(array, self._nodes)
        self._count = int(done)
        self._check(done, array, "seed")

    def add(self, ids: Tensor, out: Tensor | None = None) -> Tensor:
        """The bids of `ids`; ids not seen in this batch get the next ones, in order.

        Args:
            ids: int64 or int32 ``[n]``; an id may occur many times.
            out: where to write the result, int64 ``[n]``, contiguous.

        Returns:
            `out`, or another int64 tensor ``[n]``.

        Raises:
            IdError: an id is no node; the batch is then unusable, start another.
            InputError: wrong dtype or shape.
        """
        array = integers(ids, "ids")
        bids = empty(self._pool, (len(array),), torch.int64) if out is None else out
        writable = target(bids, "out", len(array))
        self._reserve(self._count + len(array), keep=self._count)
        done, known = self._table.add(array, writable, self._nodes, self._count)
        self._count = int(known)
        self._check(done, array, "id")
        return bids

    def find(self, ids: Tensor) -> Tensor:
        """The bids of `ids`, int64 ``[n]``; -1 where an id is not in this batch.

        Args:
            ids: int64 or int32 ``[n]``; an id may occur many times.

        Raises:
            IdError: an id is no node.
            InputError: wrong dtype or shape.
        """
        array = integers(ids, "ids")
        bids = empty(self._pool, (len(array),), torch.int64)
        self._check(self._table.find(array, bids.numpy()), array, "id")
        return bids

    def nodes(self, begin: int = 0) -> Tensor:
        """The ids with the bids `begin` to ``count - 1``, as a new int64 tensor."""
        nodes = empty(self._pool, (max(self._count - begin, 0),), torch.int64)
        np.copyto(nodes.numpy(), self._nodes[begin : self._count])
        return nodes

    @property
    def is_dense(self) -> bool:
        """Whether there is an entry per node."""
        return isinstance(self._table, _DenseTable)

    def lend(self, most: int) -> tuple[int, ...]:
        """Where the dense table and the nodes lie, which get room for so many, as `halohop.ops.cpu_hops` reads them; `take_back`
        follows."""
        assert isinstance(self._table, _DenseTable)
        self._reserve(most, keep=self._count)
        return *self._table.place, self._address, len(self._nodes)

    def take_back(self, count: int) -> None:
        """How many bids are given now."""
        self._count = count

    @staticmethod
    def settle(relabelers: "Sequence[Relabeler]") -> None:
        """Lets several of one kind know how many bids they have given; those of a device wait for it, once."""

    def _reserve(self, length: int, keep: int) -> None:
        if length > len(self._nodes):
            larger = np.empty(max(length, 2 * len(self._nodes)), np.int64)
            larger[:keep] = self._nodes[:keep]
            self._nodes, self._address = larger, larger.ctypes.data

    def _check(self, done: int, array: NDArray[Any], what: str) -> None:
        if done < len(array):
            raise IdError(f"{what} {int(array[done])} is no node: ids go from 0 to {self._num_nodes - 1}")


def relabeler(
    num_nodes: int,
    *,
    dense_limit: int = DENSE_LIMIT,
    pool: Pool | None = None,
    room: Sequence[int] | None = None,
    found: int = 0,
) -> Relabeler:
    """A `Relabeler` for tensors that lie where those of the pool do.

    Args:
        num_nodes, dense_limit, pool: as of `Relabeler`.
        room, found: of a device, the places of each hop, and the most ids that are added (`PlacedRelabeler`).

    Raises:
        InputError: a negative number.
    """
    if isinstance(pool, DevicePool) and room is not None:
        from halohop.ops.gpu_places import PlacedRelabeler

        return PlacedRelabeler(num_nodes, room=room, found=found, pool=pool, dense_limit=dense_limit)
    if isinstance(pool, DevicePool):
        from halohop.ops.gpu_relabel import DeviceRelabeler

        return DeviceRelabeler(num_nodes, dense_limit=dense_limit, pool=pool)
    return Relabeler(num_nodes, dense_limit=dense_limit, pool=pool)


class _Table(Protocol):
    """Knows the bids of a batch's ids. Entries hold base + bid; those below the base are left from earlier batches."""

    def advance(self, previous: int, num_seeds: int) -> None:
        """Raises the base over the `previous` bids of the last batch."""

    def start(self, seeds: NDArray[Any], nodes: NDArray[np.int64]) -> int:
        """Enters the seeds; returns how many before one out of range."""

    def add(self, ids: NDArray[Any], bids: NDArray[np.int64], nodes: NDArray[np.int64], known: int) -> tuple[int, int]:
        """Looks up or enters ids; returns how many before one out of range, and the number of nodes known then."""

    def find(self, ids: NDArray[Any], bids: NDArray[np.int64]) -> int:
        """Looks up ids; returns how many before one out of range."""


class _DenseTable:
    """An entry per node of the graph: the fastest while it fits the processor's caches, and simple."""

    def __init__(self, num_nodes: int) -> None:
        self._table = np.zeros(num_nodes, np.uint32)
        self._address = self._table.ctypes.data
        self._base = 1

    @property
    def place(self) -> tuple[int, int, int]:
        """Where it lies, its length, and the base."""
        return self._address, len(self._table), self._base

    def advance(self, previous: int, num_seeds: int) -> None:
        self._base += previous
        most = num_seeds + len(self._table)  # bids that the new batch can come to
        if self._base + most >= 2**32:  # entries would overflow: begin anew, once in thousands of batches
            self._table.fill(0)
            self._base = 1
            assert most < 2**32 - 1, "dense_limit is too high for this many seeds"

    def start(self, seeds: NDArray[Any], nodes: NDArray[np.int64]) -> int:
        done: int = cpu_relabel.dense_start(self._table, np.uint64(self._base), seeds, nodes)
        return done

    def add(self, ids: NDArray[Any], bids: NDArray[np.int64], nodes: NDArray[np.int64], known: int) -> tuple[int, int]:
        done, known = cpu_relabel.dense_add(self._table, np.uint64(self._base), ids, bids, nodes, np.uint64(known))
        return done, known

    def find(self, ids: NDArray[Any], bids: NDArray[np.int64]) -> int:
        done: int = cpu_relabel.dense_find(self._table, np.uint64(self._base), ids, bids)
        return done


class _HashTable:
    """Open addressing: memory in proportion to the largest batch, however many nodes the graph has."""

    def __init__(self, num_nodes: int) -> None:
        self._num_nodes = np.uint64(num_nodes)
        self._base = 1
        self._resize(_MIN_SLOT_BITS)

    def advance(self, previous: int, num_seeds: int) -> None:
        self._base += previous
        if 2 * num_seeds > self._num_slots:
            self._grow(num_seeds)

    def start(self, seeds: NDArray[Any], nodes: NDArray[np.int64]) -> int:
        done: int = cpu_relabel.hash_start(self._table, self._shift, np.uint64(self._base), self._num_nodes, seeds, nodes)
        return done

    def add(self, ids: NDArray[Any], bids: NDArray[np.int64], nodes: NDArray[np.int64], known: int) -> tuple[int, int]:
        base, begin = np.uint64(self._base), 0
        while True:
            begin, known = cpu_relabel.hash_add(
                self._table, self._shift, base, self._num_nodes, ids, np.uint64(begin), bids, nodes, np.uint64(known)
            )
            if begin == len(ids) or 2 * known < self._num_slots:
                return begin, known
            self._grow(known)  # it stopped because half of the slots are taken
            self.start(nodes[:known], nodes)

    def find(self, ids: NDArray[Any], bids: NDArray[np.int64]) -> int:
        done: int = cpu_relabel.hash_find(self._table, self._shift, np.uint64(self._base), self._num_nodes, ids, bids)
        return done

    def _grow(self, num_ids: int) -> None:
        """At least 4 slots per id, all empty."""
        self._resize((4 * num_ids - 1).bit_length())

    def _resize(self, bits: int) -> None:
        self._num_slots = 1 << bits
        self._shift = np.uint64(64 - bits)
        self._table = np.zeros(2 * self._num_slots, np.uint64)
