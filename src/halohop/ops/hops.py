"""The hops of a batch where all lists are in this process: two calls of kernels, for any number of hops and relations."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop.ops import cpu_hops, cpu_sample
from halohop.ops.arguments import INT64
from halohop.ops.pool import Pool, empty_array
from halohop.ops.random import relation_word, stream_prefix
from halohop.ops.relabel import Relabeler
from halohop.ops.sample import limit_of
from halohop.typing import Relation

UInt64s = NDArray[np.uint64]

Words = NDArray[Any]
"""An array of unsigned numbers of 4 or 8 bytes: ids, which are never negative."""

_NONE, _NO_RESULTS = np.empty(0, np.int64), np.empty((0, 4), np.uint64)

MOST_DRAWN = cpu_sample.FEW
"""Largest fanout of `NearHops`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NearLists:
    """The lists of one relation, each array in one piece.

    Args:
        drawn_as: the relation whose stream of random numbers is read.
        indptr, indices: as of `sample_neighbors`, and the neighbours.
        edge_ids: the user's ids of the edges, where batches are to have them and they are not the gids.
        raw: ids that random numbers depend on; None: the gids.
        own_type, neighbor_type: numbers of the types of the nodes that have the lists, and of the neighbours.
        fanouts: of each hop: `MOST_DRAWN` at most, or -1.
    """

    drawn_as: Relation
    indptr: Words
    indices: Words
    edge_ids: Words | None
    raw: Words | None
    own_type: int
    neighbor_type: int
    fanouts: Sequence[int]

    def row(self) -> tuple[int, ...]:
        """Of the relations' table, see `cpu_hops`."""
        ids, raw = self.edge_ids, self.raw
        assert ids is None or len(ids) == len(self.indices)
        assert raw is None or len(raw) == len(self.indptr) - 1
        columns = [
            *(self.indptr.ctypes.data, len(self.indptr) - 1, *_place(self.indices), *_place(self.edge_ids), len(self.indices)),
            *(*_place(self.raw), self.own_type, self.neighbor_type, relation_word(self.drawn_as)),
        ]
        return tuple(columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class NearEdges:
    """What was drawn along a relation.

    Args:
        ends_bid: bids of both ends, int64 ``[2, n]``.
        gid: int64 ``[n]``.
        edge_id: the user's ids, int64 ``[n]``; None where the lists have none.
    """

    ends_bid: Tensor
    gid: Tensor
    edge_id: Tensor | None

    def addresses(self, list_end: int) -> tuple[int, ...]:
        """A row of the table of results, see `cpu_hops`."""
        first = self.ends_bid.data_ptr()
        ends = first, first + self.gid.nbytes
        ids = 0 if self.edge_id is None else self.edge_id.data_ptr()
        return ends[list_end], self.gid.data_ptr(), ends[1 - list_end], ids


@dataclass(frozen=True, slots=True, kw_only=True)
class NearBatch:
    """What all hops of a batch have found.

    Args:
        edges: of each relation.
        num_edges: how many of each relation every hop has drawn.
        num_nodes: how many of each type there are before every hop, and after the last one.
        num_lists: how many lists were drawn from.
        begins: by relation and hop, where what was drawn for each node begins among the edges of the hop, int64 ``[n + 1]``; None
            where nothing was drawn for any. Without hops, unless `NearHops` is to say it.
    """

    edges: list[NearEdges]
    num_edges: list[list[int]]
    num_nodes: list[list[int]]
    num_lists: int
    begins: list[list[Tensor | None]]


class NearHops:
    """Draws uniformly without replacement, as `sample_neighbors`, and numbers what is drawn, as `Relabeler.add`: hop by hop, in
    each of them one relation after the other. Made once, and used for any number of batches by any number of threads.

    Args:
        lists: of each relation.
        expand_all: a hop draws for all nodes so far, and not just for those that the last one found.
        list_end: the row of the ends that is that of the nodes that have the lists.
        pool: where the memory of results comes from.
        begins: whether batches say where lists begin.
    """

    def __init__(self, lists: Sequence[NearLists], *, expand_all: bool, list_end: int, pool: Pool, begins: bool = False) -> None:
        self._lists = tuple(lists)  # keeps their memory
        self._expand_all, self._list_end, self._pool, self._says_begins = expand_all, list_end, pool, begins
        self._relations = np.array([one.row() for one in lists], np.uint64).reshape(len(lists), -1)
        limits = np.array([[limit_of(fanout) for fanout in one.fanouts] for one in lists], np.uint64).reshape(len(lists), -1)
        self._limits = np.ascontiguousarray(limits.T)
        self._words = 0  # of room that a batch needed so far, at most

    def sample(self, nodes: Sequence[Relabeler], *, seed: int, epoch: int, batch: int) -> NearBatch | None:
        """Goes all hops of a batch.

        Args:
            nodes: of each type, the seeds; further nodes are added. With dense tables.
            seed, epoch, batch: of the stream of random numbers, as of `stream_key`.

        Returns:
            What was found; None where a list, a neighbour or an id is not as it should be: then `sample_neighbors` and the others
            say what is wrong.
        """
        table = np.zeros((len(self._limits) + 1, len(nodes) + len(self._lists) + 1), np.int64)
        table[0, : len(nodes)] = [relabeler.count for relabeler in nodes]
        found = self._gone(nodes, table, np.uint64(stream_prefix(0, seed, epoch, batch)))
        for relabeler, count in zip(nodes, table[:, : len(nodes)].max(axis=0).tolist(), strict=True):
            relabeler.take_back(count)
        return found

    def _gone(self, nodes: Sequence[Relabeler], table: NDArray[np.int64], key: np.uint64) -> NearBatch | None:
        """`sample`, where the batch's table has the seeds (see `cpu_hops`)."""
        num_hops, num_types = len(self._limits), len(nodes)
        types, room, hop, words = _lent(nodes, [0] * num_types), empty_array(self._pool, (self._words,), INT64), 0, 1
        while num_hops and words:
            hop, words = self._go(types, key, table, room, hop, _NO_RESULTS, _NONE)
            if hop == num_hops:
                return None
            if words:
                room, types = self._enlarged(room, words, table[hop]), self._further(nodes, table[hop].tolist())
        edges = self._room(table[:, num_types:-1].sum(axis=0).tolist())
        results = np.array([one.addresses(self._list_end) for one in edges], np.uint64).reshape(-1, 4)
        begins, found = self._begins(table[:, :num_types].tolist()) if self._says_begins else (_NONE, [[] for _ in edges])
        if num_hops and self._go(types, key, table, room, hop, results, begins)[0] == num_hops:
            return None
        rows = table.tolist()
        return NearBatch(
            edges=edges,
            num_edges=[row[num_types:-1] for row in rows[:-1]],
            num_nodes=[row[:num_types] for row in rows],
            num_lists=rows[-1][-1],
            begins=found,
        )

    def _go(
        self,
        types: UInt64s,
        key: np.uint64,
        table: NDArray[np.int64],
        room: NDArray[np.int64],
        hop: int,
        results: UInt64s,
        begins: NDArray[Any],
    ) -> tuple[int, int]:
        where = table, room, np.uint64(hop), results, begins
        reached: tuple[int, int] = cpu_hops.go_hops(self._relations, self._limits, types, self._expand_all, key, *where)
        return reached

    def _enlarged(self, room: NDArray[np.int64], words: int, row: NDArray[np.int64]) -> NDArray[np.int64]:
        """Room for so many words and some more, with what the hops before this row have in it."""
        self._words = max(self._words, words + words // 4)
        larger: NDArray[np.int64] = empty_array(self._pool, (self._words,), INT64)
        larger[: row[-1]] = room[: row[-1]]
        return larger

    def _further(self, nodes: Sequence[Relabeler], row: list[int]) -> UInt64s:
        """The types' table, with room for all nodes that there may be after the hop of this row."""
        known = row[: len(nodes)]
        for relabeler, count in zip(nodes, known, strict=True):
            relabeler.take_back(count)
        for one, count in zip(self._lists, row[len(nodes) : -1], strict=True):
            known[one.neighbor_type] += count
        return _lent(nodes, known)

    def _begins(self, num_nodes: list[list[int]]) -> tuple[NDArray[Any], list[list[Tensor | None]]]:
        """Room for where lists begin, in one piece, of which each relation gets a part for each hop."""
        sizes = []
        for hop, known in enumerate(num_nodes[:-1]):
            earlier = num_nodes[hop - 1] if hop and not self._expand_all else [0] * len(known)
            drawing = [one.own_type if one.fanouts[hop] else None for one in self._lists]
            rows = [0 if own is None else known[own] - earlier[own] for own in drawing]
            sizes += [number + 1 if number else 0 for number in rows]
        room = self._pool.empty((sum(sizes),), torch.int64)
        parts = [part if len(part) else None for part in room.split(sizes)]
        array: NDArray[Any] = room.numpy()
        return array, [parts[number :: len(self._lists)] for number in range(len(self._lists))]

    def _room(self, sizes: list[int]) -> list[NearEdges]:
        """For so many edges of each relation."""
        empty = self._pool.empty
        return [
            NearEdges(
                ends_bid=empty((2, size), torch.int64),
                gid=empty((size,), torch.int64),
                edge_id=None if one.edge_ids is None else empty((size,), torch.int64),
            )
            for one, size in zip(self._lists, sizes, strict=True)
        ]


def _place(words: Words | None) -> tuple[int, int]:
    return (0, 0) if words is None else (words.ctypes.data, words.itemsize)


def _lent(nodes: Sequence[Relabeler], room: Sequence[int]) -> UInt64s:
    """The types' table, with room for so many nodes of each."""
    return np.array([relabeler.lend(most) for relabeler, most in zip(nodes, room, strict=True)], np.uint64)
