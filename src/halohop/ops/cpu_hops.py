"""CPU kernels that go the hops of a batch along all relations of a graph, where all lists of a relation lie in one array of this
process.

Python takes as long for the steps of a small batch as the kernels, and lets one thread at a time run. So a batch is two calls,
whatever the number of hops and relations: one goes all hops, but in the last one finds only the lists and how much will be drawn
from them; the other one draws that, and writes all edges to where they stay. Within a hop one relation comes after the other. The
results are those of `cpu_index.find_spans`, `cpu_sample.draw_few`, `cpu_index.gather` and `cpu_relabel.dense_add`.

What there is to do stands in tables of words, a row for each relation, node type or hop: addresses, lengths and numbers, by the
columns below. So the kernels serve any number of relations, and ids of 4 and of 8 bytes. Fewer rows or ids than there should be,
and lists that make no sense, end a kernel.
"""

from typing import Any

import numpy as np
from numba import carray
from numpy.typing import NDArray

from halohop.ops.cpu_index import list_segments, repeat_positions
from halohop.ops.cpu_jit import copy_words, kernel, pointer, prefetch
from halohop.ops.cpu_random import GOLDEN, _mix
from halohop.ops.cpu_relabel import dense_add
from halohop.ops.cpu_sample import FEW, draw_few

i64, u64 = np.int64, np.uint64

Array = NDArray[Any]

_ZERO, _ONE = u64(0), u64(1)
_AHEAD = u64(64)  # steps between asking for a word and reading it
_DEGREE_LIMIT = u64(2**32)

INDPTR, NUM_LISTS, INDICES, EDGE_IDS, NUM_EDGES, RAW = u64(0), u64(1), u64(2), u64(4), u64(6), u64(7)
"""Columns of the relations' table: arrays and their lengths. After neighbours, the user's ids of edges and raw ids come the bytes
of a number of theirs; 0 stands for ids that are the gids."""

OWN_TYPE, NEIGHBOR_TYPE, RELATION = 9, 10, 11
"""The other columns: numbers of node types, and the word of the relation in keys of random numbers."""

ENTRIES, NUM_ENTRIES, BASE, NODES, NUM_NODES = range(5)
"""Columns of the node types' table: a dense table of bids (see `cpu_relabel`), and the nodes by bid."""

# The table of the batch has a row for each hop, and one more: how many nodes of each type there are before the hop; how many
# edges of each relation it draws; and where it begins in the room that hops have for what they pass on (in the last row, how many
# lists were drawn from). There lie, of each relation that draws, the starts, lengths and counts of its lists, and the ids that
# random numbers depend on; then, of each relation, what is drawn: the bids of the nodes that have the lists, the edges, the bids
# of the neighbours, and the user's ids of the edges.

_PARTS, _WORD = u64(4), u64(8)  # of lists, and of edges; bytes of an int64


@kernel
def _int64s(address: Any, length: Any) -> Any:
    return carray(pointer(address), (i64(length),), np.int64)


@kernel
def _after(address: Any, count: Any, length: Any) -> Any:
    """The int64 that follow `count` others."""
    return _int64s(address + count * _WORD, length)


@kernel
def _gather_from(words: Array, rows: Array, out: Array) -> Any:
    n, num_words = u64(rows.size), u64(words.size)
    for i in range(n):
        prefetch(words, u64(rows[min(i + _AHEAD, n - _ONE)]))
        row = u64(rows[i])
        if row >= num_words:
            return False
        out[i] = i64(words[row])
    return True


@kernel
def _gather(address: Any, num_bytes: Any, size: Any, rows: Array, out: Array) -> Any:
    """Numbers of 4 or 8 bytes, as int64."""
    if num_bytes == u64(8):
        return _gather_from(_int64s(address, size), rows, out)
    return _gather_from(carray(pointer(address), (i64(size),), np.uint32), rows, out)


@kernel
def _part(address: Any, part: Any, length: Any) -> Any:
    """One of several parts of a length, which lie one after the other."""
    return _after(address, u64(part) * length, length)


@kernel
def _expanded(batch: Array, hop: Any, own: Any, limit: Any, expand_all: Any) -> Any:
    """The first bid that a hop expands along a relation, and how many follow."""
    begin = _ZERO if expand_all or hop == _ZERO else u64(batch[hop - _ONE, own])
    return begin, _ZERO if limit == _ZERO else u64(batch[hop, own]) - begin


@kernel
def _num_lists(relations: Array, limits: Array, batch: Array, hop: Any, expand_all: Any) -> Any:
    """How many lists a hop draws from."""
    total = _ZERO
    for r in range(u64(relations.shape[0])):
        total += _expanded(batch, hop, relations[r, OWN_TYPE], limits[hop, r], expand_all)[1]
    return total


@kernel
def _find_spans(indptr: Array, rows: Array, limit: Any, starts: Array, degrees: Array, counts: Array) -> Any:
    """Writes starts, lengths and counts of the rows' lists; returns (whether they make sense, sum of counts)."""
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
        starts[i], degrees[i], counts[i] = i64(start), i64(degree), i64(count)
        total += count
    return True, total


@kernel
def _find_hop(relations: Array, limits: Array, types: Array, expand_all: Any, batch: Array, hop: Any, lists: Any) -> Any:
    """Finds the lists that a hop draws from; returns (whether they make sense, how much will be drawn)."""
    total = _ZERO
    for r in range(relations.shape[0]):
        one, limit = relations[r], limits[hop, r]
        begin, count = _expanded(batch, hop, one[OWN_TYPE], limit, expand_all)
        rows, indptr = _after(types[one[OWN_TYPE], NODES], begin, count), _int64s(one[INDPTR], one[NUM_LISTS] + _ONE)
        starts, degrees, counts = _part(lists, 0, count), _part(lists, 1, count), _part(lists, 2, count)
        is_whole, drawn = _find_spans(indptr, rows, limit, starts, degrees, counts)
        if not is_whole:
            return False, total
        batch[hop, types.shape[0] + r] = i64(drawn)
        total += drawn
        lists += _WORD * _PARTS * count
    return True, total


@kernel
def _read_ids(one: Array, gids: Array, bids: Array, ids: Array) -> Any:
    """Reads the neighbours of edges, and the user's ids of these, if there is room for them."""
    if not _gather(one[INDICES], one[INDICES + _ONE], one[NUM_EDGES], gids, bids):
        return False
    return ids.size == 0 or _gather(one[EDGE_IDS], one[EDGE_IDS + _ONE], one[NUM_EDGES], gids, ids)


@kernel
def _number(one: Array, types: Array, batch: Array, hop: Any, bids: Array) -> Any:
    """Numbers neighbours in their place."""
    neighbor = one[NEIGHBOR_TYPE]
    table = types[neighbor]
    entries = carray(pointer(table[ENTRIES]), (i64(table[NUM_ENTRIES]),), np.uint32)
    nodes = _int64s(table[NODES], table[NUM_NODES])
    done, known = dense_add(entries, table[BASE], bids, bids, nodes, u64(batch[hop + _ONE, neighbor]))
    batch[hop + _ONE, neighbor] = i64(known)
    return u64(done) == u64(bids.size)


@kernel
def _draw_hop(
    relations: Array,
    limits: Array,
    types: Array,
    expand_all: Any,
    key: Any,
    batch: Array,
    hop: Any,
    lists: Any,
    edges: Any,
    results: Array,
) -> Any:
    """Draws from the lists of a hop that were found, reads what is drawn, and numbers it; returns whether all is as it should be.
    Edges go behind those of earlier hops in the results, if there are any. Limits are FEW at most, or more than any list has."""
    for t in range(types.shape[0]):
        batch[hop + _ONE, t] = batch[hop, t]
    for r in range(relations.shape[0]):
        one, limit, column = relations[r], limits[hop, r], types.shape[0] + r
        count = u64(batch[hop, column])
        begin, num_rows = _expanded(batch, hop, one[OWN_TYPE], limit, expand_all)
        places = edges, edges + _WORD * count, edges + _WORD * u64(2) * count, edges + _WORD * u64(3) * count
        if results.size > 0:
            skipped = _WORD * _drawn_before(batch, hop, column)
            places = results[r, 0] + skipped, results[r, 1] + skipped, results[r, 2] + skipped, results[r, 3] + skipped
        starts, degrees, counts = _part(lists, 0, num_rows), _part(lists, 1, num_rows), _part(lists, 2, num_rows)
        gids, bids = _int64s(places[1], count), _int64s(places[2], count)
        if limit > u64(FEW):
            list_segments(degrees, starts, gids)
        else:
            rows, raw = _after(types[one[OWN_TYPE], NODES], begin, num_rows), _part(lists, 3, num_rows)
            if one[RAW] != _ZERO:
                if not _gather(one[RAW], one[RAW + _ONE], one[NUM_LISTS], rows, raw):
                    return False
                rows = raw
            draw_few(starts, degrees, rows, _mix((key ^ one[RELATION]) + GOLDEN), limit, gids)
        repeat_positions(counts, i64(begin), _int64s(places[0], count))
        ids = _int64s(places[3], count if one[EDGE_IDS] != _ZERO else _ZERO)
        if not (_read_ids(one, gids, bids, ids) and _number(one, types, batch, hop, bids)):
            return False
        lists += _WORD * _PARTS * num_rows
        edges += _WORD * _PARTS * count
    return True


@kernel
def _drawn_before(batch: Array, hop: Any, column: Any) -> Any:
    total = _ZERO
    for earlier in range(hop):
        total += u64(batch[earlier, column])
    return total


@kernel
def _write_earlier(
    relations: Array, limits: Array, num_types: Any, expand_all: Any, batch: Array, room: Array, results: Array, begins: Array
) -> None:
    """Writes the edges of all hops but the last one to where they stay, where lists of all hops begin, if there is room for that,
    and how many lists were drawn from, into the last row of the batch's table."""
    num_hops, num_lists, written, place = u64(limits.shape[0]), _ZERO, _ZERO, batch.shape[1] - 1
    for hop in range(num_hops):
        lists = u64(batch[hop, place])
        edges = lists + _PARTS * _num_lists(relations, limits, batch, hop, expand_all)
        for r in range(relations.shape[0]):
            count = u64(batch[hop, num_types + r])
            num_rows = _expanded(batch, hop, relations[r, OWN_TYPE], limits[hop, r], expand_all)[1]
            if begins.size > 0 and num_rows > _ZERO:
                total = i64(0)
                for i in range(num_rows):
                    begins[written + i] = total
                    total += room[lists + u64(2) * num_rows + i]
                begins[written + num_rows] = total
                written += num_rows + _ONE
            earlier = _drawn_before(batch, hop, num_types + r)
            for part in range(_PARTS if hop + _ONE < num_hops else _ZERO):
                if results[r, part] != _ZERO:
                    copy_words(_after(results[r, part], earlier, count), _ZERO, room, edges + part * count, count)
            num_lists += num_rows
            lists += _PARTS * num_rows
            edges += _PARTS * count
    batch[num_hops, place] = i64(num_lists)


@kernel
def _has_room(relations: Array, types: Array, batch: Array, hop: Any) -> Any:
    """Whether the tables of nodes have room for all that a hop may find."""
    for t in range(types.shape[0]):
        most = batch[hop, t]
        for r in range(relations.shape[0]):
            most += batch[hop, types.shape[0] + r] if relations[r, NEIGHBOR_TYPE] == u64(t) else 0
        if u64(most) > types[t, NUM_NODES]:
            return False
    return True


@kernel
def go_hops(
    relations: Array,
    limits: Array,
    types: Array,
    expand_all: Any,
    key: Any,
    batch: Array,
    room: Array,
    hop: Any,
    results: Array,
    begins: Array,
) -> Any:
    """Goes hops from this one on. Without results it ends before it draws in the last one: it is called again with them.

    Args:
        key: of the batch, to which those of hops and relations are added.
        results: addresses, of each relation's parts of edges in their order; where the user's ids are not written, 0.
        begins: hop by hop, relation by relation, where what was drawn of each list begins, and where it ends; or no room for it.

    Returns:
        The hop that it came to, and how many words of room that needs, or 0 where it came to the end. If there are so few, or a
        type has no room for more nodes, go on from this hop with more. There is no hop of this number where a list, a neighbour
        or an id is not as it should be.
    """
    num_hops, place, base = u64(limits.shape[0]), batch.shape[1] - 1, u64(room.ctypes.data)
    while True:
        at, is_last = u64(batch[hop, place]), hop + _ONE == num_hops
        edges = at + _PARTS * _num_lists(relations, limits, batch, hop, expand_all)
        if results.size == 0:
            if edges > u64(room.size):
                return hop, edges
            is_whole, total = _find_hop(relations, limits, types, expand_all, batch, hop, base + _WORD * at)
            if not is_whole:
                return num_hops, _ONE
            end = edges if is_last else edges + _PARTS * total
            if end > u64(room.size) or not _has_room(relations, types, batch, hop):
                return hop, max(end, _ONE)
            if is_last:
                return hop, _ZERO
            batch[hop + _ONE, place] = i64(end)
        lists, out, hop_key = base + _WORD * at, base + _WORD * edges, _mix((key ^ hop) + GOLDEN)
        if not _draw_hop(relations, limits, types, expand_all, hop_key, batch, hop, lists, out, results):
            return num_hops, _ONE
        if is_last:
            _write_earlier(relations, limits, types.shape[0], expand_all, batch, room, results, begins)
            return hop, _ZERO
        hop += _ONE
