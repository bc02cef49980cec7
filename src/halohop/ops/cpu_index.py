"""CPU kernels that move and renumber rows. `halohop.ops.reference` says in plain Python what they compute.

Random memory access decides their speed, so each asks for a cache line a fixed number of steps before it needs it. A kernel that
reads ids returns how many it has done: fewer than given means that the next one is out of range, and nothing outside was touched.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from halohop.ops.cpu_jit import kernel, prefetch

u32, u64, i64 = np.uint32, np.uint64, np.int64

_AHEAD = u64(64)  # steps between asking for a word and reading it
_LINE = u64(64)  # bytes of a cache line

_ZERO, _ONE = u64(0), u64(1)
_GOLDEN = u64(0x9E3779B97F4A7C15)


# --- rows ------------------------------------------------------------


@kernel
def _prefetch_row(words: NDArray[Any], row: Any, width: Any) -> None:
    begin = row * width
    for c in range(_ZERO, width, _LINE // u64(words.itemsize)):
        prefetch(words, begin + c)
    prefetch(words, begin + width - _ONE)


@kernel
def _rows_ahead(words: NDArray[Any], width: Any) -> Any:
    """As many rows as keep about 32 cache lines on their way, at least 2."""
    return max(u64(32) * _LINE // (width * u64(words.itemsize) + _LINE), u64(2))


@kernel
def gather(source: NDArray[Any], num_rows: Any, width: Any, rows: NDArray[Any], out: NDArray[Any]) -> Any:
    """Row i of `out` = row rows[i] of `source`; both flat, `width` words a row."""
    n = u64(rows.size)
    if width == _ONE:
        for i in range(n):
            prefetch(source, u64(rows[min(i + _AHEAD, n - _ONE)]))
            row = u64(rows[i])
            if row >= num_rows:
                return i
            out[i] = source[row]
        return n
    ahead = _rows_ahead(source, width)
    for i in range(n):
        _prefetch_row(source, u64(rows[min(i + ahead, n - _ONE)]), width)
        row = u64(rows[i])
        if row >= num_rows:
            return i
        begin, into = row * width, i * width
        for c in range(width):
            out[into + c] = source[begin + c]
    return n


@kernel
def scatter(values: NDArray[Any], num_rows: Any, width: Any, positions: NDArray[Any], out: NDArray[Any]) -> Any:
    """Row positions[i] of `out` = row i of `values`; both flat, `width` words a row, `num_rows` rows in `out`."""
    n = u64(positions.size)
    ahead = _AHEAD if width == _ONE else _rows_ahead(out, width)
    for i in range(n):
        _prefetch_row(out, u64(positions[min(i + ahead, n - _ONE)]), width)
        row = u64(positions[i])
        if row >= num_rows:
            return i
        begin, into = i * width, row * width
        for c in range(width):
            out[into + c] = values[begin + c]
    return n


# --- grouping ------------------------------------------------------------


@kernel
def find_buckets(
    ids: NDArray[Any], bounds: NDArray[Any], bucket_of_part: NDArray[Any], buckets: NDArray[Any], sizes: NDArray[Any]
) -> Any:
    """Writes each id's bucket and adds up the sizes."""
    parts = bucket_of_part.size
    for i in range(ids.size):
        v = i64(ids[i])
        if v < bounds[0] or v >= bounds[parts]:
            return i
        low, high = 0, parts
        while high - low > 1:  # bounds[low] <= v < bounds[high]; ends at the one part that is not empty there
            middle = (low + high) >> 1
            if bounds[middle] <= v:
                low = middle
            else:
                high = middle
        buckets[i] = bucket_of_part[low]
        sizes[buckets[i]] += 1
    return ids.size


@kernel
def group(buckets: NDArray[Any], cursors: NDArray[Any], order: NDArray[Any]) -> None:
    """Writes the positions of each bucket in order, from cursors[bucket] on. A counting sort, stable."""
    n = u64(buckets.size)
    for i in range(n):
        prefetch(cursors, u64(buckets[min(i + _AHEAD, n - _ONE)]))
        b = u64(buckets[i])
        order[u64(cursors[b])] = i64(i)
        cursors[b] += 1


@kernel
def count(keys: NDArray[Any], sizes: NDArray[Any]) -> Any:
    """Adds how often each key 0..len(sizes)-1 occurs."""
    n, num_keys = u64(keys.size), u64(sizes.size)
    for i in range(n):
        prefetch(sizes, u64(keys[min(i + _AHEAD, n - _ONE)]))
        k = u64(keys[i])
        if k >= num_keys:
            return i
        sizes[k] += 1
    return n


@kernel
def place_segments(counts: NDArray[Any], order: NDArray[Any], counts_out: NDArray[Any], begins: NDArray[Any]) -> Any:
    """Segment j gets place order[j]: its length and where it begins now. Stops at a length below 0, or a place bad or taken.

    `begins` comes filled with -1.
    """
    begin = 0
    for j in range(counts.size):
        place = order[j]
        if counts[j] < 0 or place < 0 or place >= begins.size or begins[place] >= 0:
            return j
        counts_out[place] = counts[j]
        begins[place] = begin
        begin += counts[j]
    return counts.size


@kernel
def list_segments(counts: NDArray[Any], begins: NDArray[Any], source: NDArray[Any]) -> None:
    """Writes begins[i], begins[i] + 1, ... counts[i] of them, for every i in turn."""
    out = _ZERO
    for i in range(u64(counts.size)):
        for k in range(u64(counts[i])):
            source[out + k] = begins[i] + i64(k)
        out += u64(counts[i])


@kernel
def repeat_positions(counts: NDArray[Any], begin: Any, out: NDArray[Any]) -> Any:
    """Writes begin + i, counts[i] times, for every i in turn; stops where `out` is full."""
    at, room = _ZERO, u64(out.size)
    for i in range(u64(counts.size)):
        end = at + u64(counts[i])
        if end > room:
            return False
        for k in range(at, end):
            out[k] = begin + i64(i)
        at = end
    return at == room


# --- relabelling ------------------------------------------------------------
#
# Both tables map an id to base + bid. Entries below the base were left by earlier batches and count as empty, so a table is never
# cleared between batches: the next batch just has a higher base.


@kernel
def dense_start(table: NDArray[Any], base: Any, seeds: NDArray[Any], nodes: NDArray[Any]) -> Any:
    """Seed i gets bid i; a repeated id stays with its first bid."""
    n, num_nodes = u64(seeds.size), u64(table.size)
    for i in range(n):
        prefetch(table, u64(seeds[min(i + _AHEAD, n - _ONE)]))
        v = u64(seeds[i])
        if v >= num_nodes:
            return i
        nodes[i] = i64(v)
        if u64(table[v]) < base:
            table[v] = u32(base + i)
    return n


@kernel
def dense_add(table: NDArray[Any], base: Any, ids: NDArray[Any], bids: NDArray[Any], nodes: NDArray[Any], known: Any) -> Any:
    """Looks up or adds every id; returns (ids done, nodes known). No branch on whether an id is new: that is a coin toss."""
    n, num_nodes = u64(ids.size), u64(table.size)
    for i in range(n):
        prefetch(table, u64(ids[min(i + _AHEAD, n - _ONE)]))
        v = u64(ids[i])
        if v >= num_nodes:
            return i, known
        entry = u64(table[v])
        new = entry < base
        bid = known if new else entry - base
        table[v] = u32(base + bid)
        nodes[known] = i64(v)
        bids[i] = i64(bid)
        known += u64(new)
    return n, known


@kernel
def _home(v: Any, shift: Any) -> Any:
    """The slot where the search for an id begins: the top bits of a product (Fibonacci hashing)."""
    return (v * _GOLDEN) >> shift


@kernel
def _find(table: NDArray[Any], shift: Any, base: Any, v: Any) -> Any:
    """Where the slot of an id begins, or else the empty one where it belongs. Linear probing."""
    last = u64(table.size - 1)
    at = _home(v, shift) << _ONE
    while table[at + _ONE] >= base and table[at] != v:
        at = (at + u64(2)) & last
    return at


@kernel
def hash_start(table: NDArray[Any], shift: Any, base: Any, num_nodes: Any, seeds: NDArray[Any], nodes: NDArray[Any]) -> Any:
    """As dense_start. The table is flat: 2**(64 - shift) slots of two words, the id and base + bid; at least one stays empty.

    Also refills a table that has grown, from the nodes known.
    """
    n = u64(seeds.size)
    for i in range(n):
        v = u64(seeds[i])
        if v >= num_nodes:
            return i
        nodes[i] = i64(v)
        at = _find(table, shift, base, v)
        if table[at + _ONE] < base:
            table[at], table[at + _ONE] = v, base + i
    return n


@kernel
def hash_add(
    table: NDArray[Any],
    shift: Any,
    base: Any,
    num_nodes: Any,
    ids: NDArray[Any],
    begin: Any,
    bids: NDArray[Any],
    nodes: NDArray[Any],
    known: Any,
) -> Any:
    """As dense_add, from ids[begin] on. Also stops when half of the slots are taken."""
    n, limit = u64(ids.size), u64(table.size >> 2)
    for i in range(begin, n):
        prefetch(table, _home(u64(ids[min(i + _AHEAD, n - _ONE)]), shift) << _ONE)
        v = u64(ids[i])
        if v >= num_nodes or known >= limit:
            return i, known
        at = _find(table, shift, base, v)
        entry = table[at + _ONE]
        new = entry < base
        bid = known if new else entry - base
        table[at], table[at + _ONE] = v, base + bid
        nodes[known] = i64(v)
        bids[i] = i64(bid)
        known += u64(new)
    return n, known
