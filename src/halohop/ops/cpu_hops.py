"""CPU kernels that go one hop along all relations of a graph, where all lists of a relation lie in one array of this process.

Python takes as long for the steps of a small batch as the kernels, and lets one thread at a time run. So a hop is two calls,
whatever the number of relations: one finds the lists and how much will be drawn from them, the other draws, reads the neighbours
and numbers them. The results are those of `cpu_index.find_spans`, `cpu_sample.draw_few`, `cpu_index.gather` and
`cpu_relabel.dense_add`, one relation after the other.

What there is to do stands in tables of unsigned words, a row for each relation: addresses, lengths and numbers, by the columns
below. So the kernels serve any number of relations, and ids of 4 and of 8 bytes. Fewer rows or ids than there should be, and
lists that make no sense, end a kernel: then it returns False.
"""

from typing import Any

import numpy as np
from numba import carray
from numpy.typing import NDArray

from halohop.ops.cpu_index import repeat_positions
from halohop.ops.cpu_jit import kernel, pointer, prefetch
from halohop.ops.cpu_relabel import dense_add
from halohop.ops.cpu_sample import FEW, draw_few

i64, u64 = np.int64, np.uint64

_ZERO, _ONE = u64(0), u64(1)
_AHEAD = u64(64)  # steps between asking for a word and reading it
_DEGREE_LIMIT = u64(2**32)
_GOLDEN = u64(0x9E3779B97F4A7C15)

INDPTR, NUM_LISTS, INDICES, EDGE_IDS, NUM_EDGES, RAW = u64(0), u64(1), u64(2), u64(4), u64(6), u64(7)
"""Columns of the relations' table: arrays and their lengths. After neighbours, the user's ids of edges and raw ids come the bytes
of a number of theirs; 0 stands for ids that are the gids."""

OWN_TYPE, NEIGHBOR_TYPE, RELATION = 9, 10, 11
"""The other columns: numbers of node types, and the word of the relation in keys of random numbers."""

ENTRIES, NUM_ENTRIES, BASE, NODES, NUM_NODES = range(5)
"""Columns of the node types' table: a dense table of bids (see `cpu_relabel`), and the nodes by bid."""

OWN_BIDS, GIDS, BIDS, IDS = u64(0), u64(1), u64(2), u64(3)
"""Columns of the table of results, int64 each: where the edges of a relation are written to; ids at address 0 are not. Four more
say where those of earlier hops are, which are copied first."""


@kernel
def _int64s(address: Any, length: Any) -> Any:
    return carray(pointer(address), (i64(length),), np.int64)


@kernel
def _after(address: Any, count: Any, length: Any) -> Any:
    """The int64 that follow `count` others."""
    return _int64s(address + count * u64(8), length)


@kernel
def _gather_from(words: NDArray[Any], rows: NDArray[Any], out: NDArray[Any]) -> Any:
    n, num_words = u64(rows.size), u64(words.size)
    for i in range(n):
        prefetch(words, u64(rows[min(i + _AHEAD, n - _ONE)]))
        row = u64(rows[i])
        if row >= num_words:
            return False
        out[i] = i64(words[row])
    return True


@kernel
def _gather(address: Any, num_bytes: Any, size: Any, rows: NDArray[Any], out: NDArray[Any]) -> Any:
    """Numbers of 4 or 8 bytes, as int64."""
    if num_bytes == u64(8):
        return _gather_from(_int64s(address, size), rows, out)
    return _gather_from(carray(pointer(address), (i64(size),), np.uint32), rows, out)


@kernel
def _find_spans(
    indptr: NDArray[Any], rows: NDArray[Any], limit: Any, spans: NDArray[Any], begin: Any, lists: NDArray[Any]
) -> Any:
    """Writes starts, lengths and counts of the rows' lists, from `begin` on, and, if there is room in `lists`, how many entries
    will be drawn before each of them; returns (whether they make sense, sum of counts)."""
    n, num_lists, total = u64(rows.size), u64(indptr.size) - _ONE, _ZERO
    for i in range(n):
        ahead = u64(rows[min(i + _AHEAD, n - _ONE)])
        prefetch(indptr, ahead)
        prefetch(indptr, ahead + _ONE)  # one in eight lies in the next cache line
        row = u64(rows[i])
        if row >= num_lists:
            return False, total
        start = u64(indptr[row])
        degree = u64(indptr[row + _ONE]) - start  # a negative length wraps to a huge one
        if degree >= _DEGREE_LIMIT:
            return False, total
        count = min(degree, limit)
        spans[0, begin + i], spans[1, begin + i], spans[2, begin + i] = i64(start), i64(degree), i64(count)
        if lists.size > 0:
            lists[i] = i64(total)
        total += count
    if lists.size > 0:
        lists[n] = i64(total)
    return True, total


@kernel
def find_hop(
    relations: NDArray[Any],
    limits: NDArray[Any],
    types: NDArray[Any],
    begins: NDArray[Any],
    ends: NDArray[Any],
    spans: NDArray[Any],
    totals: NDArray[Any],
    lists: NDArray[Any],
) -> Any:
    """Finds the lists of the nodes with the bids begins[type] to ends[type] - 1, relation after relation, and how many entries
    will be drawn in all along each of them; where what is drawn of each list begins goes to `lists`, unless that is empty."""
    at, first = _ZERO, _ZERO
    for r in range(u64(relations.shape[0])):
        one = relations[r]
        own = one[OWN_TYPE]
        totals[r] = 0
        if limits[r] == _ZERO or begins[own] == ends[own]:
            continue
        num_rows = ends[own] - begins[own]
        rows = _after(types[own, NODES], begins[own], num_rows)
        begun = lists[first : first + num_rows + _ONE]
        is_whole, total = _find_spans(_int64s(one[INDPTR], one[NUM_LISTS] + _ONE), rows, limits[r], spans, at, begun)
        if not is_whole:
            return False
        totals[r] = i64(total)
        at += num_rows
        first += num_rows + _ONE
    return True


@kernel
def _mix(x: Any) -> Any:
    """The finalizer of SplitMix64, as `halohop.ops.random.mix`."""
    x ^= x >> u64(30)
    x *= u64(0xBF58476D1CE4E5B9)
    x ^= x >> u64(27)
    x *= u64(0x94D049BB133111EB)
    return x ^ (x >> u64(31))


@kernel
def _take_all(starts: NDArray[Any], degrees: NDArray[Any], positions: NDArray[Any]) -> None:
    out = _ZERO
    for i in range(u64(starts.size)):
        for j in range(u64(degrees[i])):
            positions[out + j] = starts[i] + i64(j)
        out += u64(degrees[i])


@kernel
def _copy_earlier(result: NDArray[Any], count: Any) -> None:
    for k in range(u64(4)):
        if result[k] != _ZERO:
            out, earlier = _int64s(result[k], count), _int64s(result[k + u64(4)], count)
            for i in range(count):
                out[i] = earlier[i]


@kernel
def draw_hop(
    relations: NDArray[Any],
    limits: NDArray[Any],
    types: NDArray[Any],
    begins: NDArray[Any],
    ends: NDArray[Any],
    key: Any,
    spans: NDArray[Any],
    totals: NDArray[Any],
    before: NDArray[Any],
    raw: NDArray[Any],
    results: NDArray[Any],
    known: NDArray[Any],
) -> Any:
    """Draws from the lists that `find_hop` has found, reads what is drawn, and numbers it: `known` is how many nodes of each type
    there are.

    Args:
        limits: FEW at most, or more than any list has.
        key: of the hop, to which that of the relation is added.
        before: how many edges of each relation earlier hops have drawn.
        raw: room for the ids that random numbers depend on, as many as any type has nodes to expand.
    """
    at = _ZERO
    for r in range(u64(relations.shape[0])):
        one, result, first = relations[r], results[r], u64(before[r])
        _copy_earlier(result, first)
        own, total = one[OWN_TYPE], u64(totals[r])
        num_rows = ends[own] - begins[own]
        if limits[r] == _ZERO or num_rows == _ZERO:
            continue
        starts, degrees, counts = spans[0, at : at + num_rows], spans[1, at : at + num_rows], spans[2, at : at + num_rows]
        at += num_rows
        rows, gids = _after(types[own, NODES], begins[own], num_rows), _after(result[GIDS], first, total)
        if limits[r] > u64(FEW):
            _take_all(starts, degrees, gids)
        else:
            if one[RAW] != _ZERO:
                if not _gather(one[RAW], one[RAW + _ONE], one[NUM_LISTS], rows, raw):
                    return False
                rows = raw[:num_rows]
            draw_few(starts, degrees, rows, _mix((key ^ one[RELATION]) + _GOLDEN), limits[r], gids)
        repeat_positions(counts, i64(begins[own]), _after(result[OWN_BIDS], first, total))
        bids = _after(result[BIDS], first, total)
        if not _gather(one[INDICES], one[INDICES + _ONE], one[NUM_EDGES], gids, bids):
            return False
        if result[IDS] != _ZERO:
            ids = _after(result[IDS], first, total)
            if not _gather(one[EDGE_IDS], one[EDGE_IDS + _ONE], one[NUM_EDGES], gids, ids):
                return False
        neighbor = one[NEIGHBOR_TYPE]
        table = types[neighbor]
        entries = carray(pointer(table[ENTRIES]), (i64(table[NUM_ENTRIES]),), np.uint32)
        nodes = _int64s(table[NODES], table[NUM_NODES])
        done, count = dense_add(entries, table[BASE], bids, bids, nodes, known[neighbor])
        known[neighbor] = count
        if u64(done) < total:
            return False
    return True
