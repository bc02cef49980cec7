"""The hops of a batch where all lists are in this process: two calls of kernels a hop, for any number of relations."""

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

_NONE = np.empty(0, np.int64)

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
        self._limits = np.array([[limit_of(fanout) for fanout in one.fanouts] for one in lists], np.uint64).reshape(
            len(lists), -1
        )
        self._drawing = [[one.own_type if one.fanouts[hop] else None for one in lists] for hop in range(self._limits.shape[1])]
        self._has_raw = any(one.raw is not None for one in lists)
        self._no_ids = np.array([one.edge_ids is None for one in lists], bool)

    def sample(self, nodes: Sequence[Relabeler], *, seed: int, epoch: int, batch: int) -> NearBatch | None:
        """Goes all hops of a batch.

        Args:
            nodes: of each type, the seeds; further nodes are added. With dense tables.
            seed, epoch, batch: of the stream of random numbers, as of `stream_key`.

        Returns:
            What was found; None where a list, a neighbour or an id is not as it should be: then `sample_neighbors` and the others
            say what is wrong.
        """
        known = np.array([relabeler.count for relabeler in nodes], np.uint64)
        begins, num_nodes, num_edges = np.zeros_like(known), [known.tolist()], list[list[int]]()
        prefix, types = stream_prefix(0, seed, epoch, batch), _lent(nodes, num_nodes[0])
        before, totals, num_lists = *np.zeros((2, len(self._lists)), np.int64), 0
        edges, memory, found = list[NearEdges](), np.empty(0, np.int64), [list[Tensor | None]() for _ in self._lists]
        table = np.zeros((len(self._lists), 4), np.uint64)  # of addresses: nothing is drawn yet
        all_limits = np.ascontiguousarray(self._limits.T)
        for hop, limits in enumerate(all_limits):
            ends = known.copy()
            width = [end - begin for begin, end in zip(begins.tolist(), num_nodes[-1], strict=True)]
            rows = [0 if own_type is None else width[own_type] for own_type in self._drawing[hop]]
            spans, num_lists = empty_array(self._pool, (3, sum(rows)), INT64), num_lists + sum(rows)
            lists = self._lists_of(rows, found) if self._says_begins else _NONE
            if not cpu_hops.find_hop(self._relations, limits, types, begins, ends, spans, totals, lists):
                return None
            num_edges.append(totals.tolist())
            earlier, sizes = memory, before + totals
            if hop < len(all_limits) - 1:
                memory, addresses = self._passing(sizes)
            else:
                edges = self._room(sizes.tolist())
                addresses = self._addresses(edges)
            table = np.hstack((addresses, table[:, :4]))
            most = num_nodes[-1].copy()
            for one, count in zip(self._lists, num_edges[-1], strict=True):
                most[one.neighbor_type] += count
            types = _lent(nodes, most)
            raw = empty_array(self._pool, (max(width) if self._has_raw else 0,), INT64)
            question = self._relations, limits, types, begins, ends, np.uint64(stream_prefix(prefix, hop))
            is_whole = cpu_hops.draw_hop(*question, spans, totals, before, raw, table, known)
            del earlier  # whose memory was read
            if not is_whole:
                return None
            before += totals
            num_nodes.append(known.tolist())
            for relabeler, count in zip(nodes, num_nodes[-1], strict=True):
                relabeler.take_back(count)
            if not self._expand_all:
                begins = ends
        edges = edges or self._room(before.tolist())  # of a batch without hops
        return NearBatch(edges=edges, num_edges=num_edges, num_nodes=num_nodes, num_lists=num_lists, begins=found)

    def _lists_of(self, rows: list[int], found: list[list[Tensor | None]]) -> NDArray[Any]:
        """Room for where so many lists of each relation begin, in one piece, of which each relation gets its part."""
        sizes = [number + 1 if number else 0 for number in rows]
        room = self._pool.empty((sum(sizes),), torch.int64)
        for of_relation, part in zip(found, room.split(sizes), strict=True):
            of_relation.append(part if len(part) else None)
        array: NDArray[Any] = room.numpy()
        return array

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

    def _passing(self, sizes: NDArray[np.int64]) -> tuple[NDArray[np.int64], UInt64s]:
        """Memory for so many edges of each relation that the next hop copies, all in one piece, and its rows of addresses."""
        total = int(sizes.sum())
        memory = empty_array(self._pool, (4, total), INT64)
        begins: NDArray[np.int64] = (sizes.cumsum() - sizes)[:, None] + np.arange(4) * total
        addresses: UInt64s = (begins * memory.itemsize + memory.ctypes.data).astype(np.uint64)
        addresses[self._no_ids, 3] = 0
        return memory, addresses

    def _addresses(self, edges: list[NearEdges]) -> UInt64s:
        return np.array([one.addresses(self._list_end) for one in edges], np.uint64).reshape(-1, 4)


def _place(words: Words | None) -> tuple[int, int]:
    return (0, 0) if words is None else (words.ctypes.data, words.itemsize)


def _lent(nodes: Sequence[Relabeler], room: list[int]) -> UInt64s:
    """The types' table, with room for so many nodes of each."""
    return np.array([relabeler.lend(most) for relabeler, most in zip(nodes, room, strict=True)], np.uint64)
