"""CPU kernels that move and group rows. `halohop.ops.reference` says in plain Python what they compute.

Random memory access decides their speed, so each asks for a cache line a fixed number of steps before it needs it. A kernel that
reads ids returns how many it has done: fewer than given means that the next one is out of range, and nothing outside was touched.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from halohop.ops.cpu_jit import kernel, prefetch

u64, i64 = np.uint64, np.int64

_AHEAD = u64(63)  # steps between asking for a word and reading it
_RING, _RING_MASK = 64, u64(63)  # how many can be on their way
_LINE = u64(64)  # bytes of a cache line

_ZERO, _ONE = u64(0), u64(1)
_ABSENT = u64(2**63)
_DEGREE_LIMIT = u64(2**32)


# --- rows ------------------------------------------------------------


@kernel
def _prefetch_words(words: NDArray[Any], begin: Any, width: Any) -> None:
    for c in range(_ZERO, width, _LINE // u64(words.itemsize)):
        prefetch(words, begin + c)
    prefetch(words, begin + width - _ONE)


@kernel
def _rows_ahead(words: NDArray[Any], width: Any) -> Any:
    """As many rows as keep about 32 cache lines on their way, at least 2."""
    return max(u64(32) * _LINE // (width * u64(words.itemsize) + _LINE), u64(2))


@kernel
def _piece_of(bounds: NDArray[Any], row: Any) -> Any:
    """The piece p with bounds[p] <= row < bounds[p + 1], which must exist."""
    low, high = 0, bounds.size - 1
    while high - low > 1:  # bounds[low] <= row < bounds[high]; ends at the one piece that is not empty there
        middle = (low + high) >> 1
        if bounds[middle] <= row:
            low = middle
        else:
            high = middle
    return low


@kernel
def _word_of(origins: NDArray[Any], bounds: NDArray[Any], width: Any, row: Any) -> Any:
    """The first word of a row of an array in pieces (see `halohop.ops.pieces`), or ABSENT."""
    if row < bounds[0] or row >= bounds[origins.size]:
        return _ABSENT
    origin = origins[_piece_of(bounds, row)]
    return _ABSENT if origin == _ABSENT else origin + u64(row) * width


@kernel
def _gather_words(
    source: NDArray[Any], origins: NDArray[Any], bounds: NDArray[Any], rows: NDArray[Any], out: NDArray[Any]
) -> Any:
    """`gather` for rows of one word."""
    n = u64(rows.size)
    on_their_way = np.empty(_RING, np.uint64)
    for i in range(n):
        place = _word_of(origins, bounds, _ONE, i64(rows[i]))
        if place == _ABSENT:
            return i
        prefetch(source, place)
        if i >= _AHEAD:
            out[i - _AHEAD] = source[on_their_way[(i - _AHEAD) & _RING_MASK]]
        on_their_way[i & _RING_MASK] = place
    for i in range(n - min(n, _AHEAD), n):
        out[i] = source[on_their_way[i & _RING_MASK]]
    return n


@kernel
def _gather_words_of_one(source: NDArray[Any], origin: Any, low: Any, high: Any, rows: NDArray[Any], out: NDArray[Any]) -> Any:
    """`gather` for rows of one word in one piece: nothing to search, so nothing to remember. A quarter faster."""
    n, first, num_rows = u64(rows.size), u64(low), u64(high - low)
    if origin == _ABSENT:
        return _ZERO
    for i in range(n):
        prefetch(source, origin + u64(rows[min(i + _AHEAD, n - _ONE)]))
        row = u64(rows[i])
        if row - first >= num_rows:
            return i
        out[i] = source[origin + row]
    return n


@kernel
def gather(
    source: NDArray[Any], origins: NDArray[Any], bounds: NDArray[Any], width: Any, rows: NDArray[Any], out: NDArray[Any]
) -> Any:
    """Row i of `out` = row rows[i] of `source`, an array in pieces; `out` is flat, `width` words a row."""
    if width == _ONE and origins.size == 1:
        return _gather_words_of_one(source, origins[0], bounds[0], bounds[1], rows, out)
    if width == _ONE:
        return _gather_words(source, origins, bounds, rows, out)
    n, ahead = u64(rows.size), min(_rows_ahead(source, width), _AHEAD)
    on_their_way = np.empty(_RING, np.uint64)  # where the rows begin that have been asked for
    for i in range(n + ahead):
        if i < n:
            begin = _word_of(origins, bounds, width, i64(rows[i]))
            if begin == _ABSENT:
                return i
            on_their_way[i & _RING_MASK] = begin
            _prefetch_words(source, begin, width)
        if i >= ahead:
            begin, into = on_their_way[(i - ahead) & _RING_MASK], (i - ahead) * width
            for c in range(width):
                out[into + c] = source[begin + c]
    return n


@kernel
def _find_spans_of_one(
    indptr: NDArray[Any],
    origin: Any,
    row_bounds: NDArray[Any],
    edge_begin: Any,
    rows: NDArray[Any],
    fanout: Any,
    replace: Any,
    starts: NDArray[Any],
    degrees: NDArray[Any],
    counts: NDArray[Any],
) -> Any:
    """`find_spans` where all lists are in one piece: nothing to search, so nothing to remember."""
    n, total = u64(rows.size), _ZERO
    first, num_rows = u64(row_bounds[0]), u64(row_bounds[1] - row_bounds[0])
    if origin == _ABSENT:
        return _ZERO, total
    for i in range(n):
        ahead = origin + u64(rows[min(i + _AHEAD, n - _ONE)])
        prefetch(indptr, ahead)
        prefetch(indptr, ahead + _ONE)  # one in eight lies in the next cache line
        row = u64(rows[i])
        if row - first >= num_rows:
            return i, total
        start = u64(indptr[origin + row])
        degree = u64(indptr[origin + row + _ONE]) - start  # a negative length wraps to a huge one
        if degree >= _DEGREE_LIMIT:
            return i, total
        count = fanout if degree > fanout or (replace and degree > _ZERO) else degree
        starts[i], degrees[i], counts[i] = i64(start + u64(edge_begin)), i64(degree), i64(count)
        total += count
    return n, total


@kernel
def find_spans(
    indptr: NDArray[Any],
    origins: NDArray[Any],
    row_bounds: NDArray[Any],
    edge_bounds: NDArray[Any],
    rows: NDArray[Any],
    fanout: Any,
    replace: Any,
    starts: NDArray[Any],
    degrees: NDArray[Any],
    counts: NDArray[Any],
) -> Any:
    """Writes where each row's list starts, how long it is and how many will be drawn; returns (rows done, sum of counts).

    `indptr` is in pieces; the lists of piece p begin at edge_bounds[p]. Fewer rows done than given: the next one is in no piece,
    or its list has a length outside 0..2**32-1.
    """
    n, total = u64(rows.size), _ZERO
    if origins.size == 1:
        return _find_spans_of_one(indptr, origins[0], row_bounds, edge_bounds[0], rows, fanout, replace, starts, degrees, counts)
    on_their_way = np.empty(_RING, np.uint64)
    for i in range(n + _AHEAD):
        if i < n:
            place = _word_of(origins, row_bounds, _ONE, i64(rows[i]))
            if place == _ABSENT:
                return i, total
            on_their_way[i & _RING_MASK] = place
            prefetch(indptr, place)
            prefetch(indptr, place + _ONE)  # one in eight lies in the next cache line
        if i >= _AHEAD:
            j = i - _AHEAD
            place = on_their_way[j & _RING_MASK]
            start = u64(indptr[place])
            degree = u64(indptr[place + _ONE]) - start  # a negative length wraps to a huge one
            if degree >= _DEGREE_LIMIT:
                return j, total
            count = fanout if degree > fanout or (replace and degree > _ZERO) else degree
            start += u64(edge_bounds[_piece_of(row_bounds, i64(rows[j]))])
            starts[j], degrees[j], counts[j] = i64(start), i64(degree), i64(count)
            total += count
    return n, total


@kernel
def scatter(values: NDArray[Any], num_rows: Any, width: Any, positions: NDArray[Any], out: NDArray[Any]) -> Any:
    """Row positions[i] of `out` = row i of `values`; both flat, `width` words a row, `num_rows` rows in `out`."""
    n = u64(positions.size)
    ahead = _AHEAD if width == _ONE else _rows_ahead(out, width)
    for i in range(n):
        _prefetch_words(out, u64(positions[min(i + ahead, n - _ONE)]) * width, width)
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
        buckets[i] = bucket_of_part[_piece_of(bounds, v)]
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
