"""CPU kernels that move and group rows. `halohop.ops.reference` says in plain Python what they compute.

Random memory access decides their speed, so each asks for a cache line a fixed number of steps before it needs it. A kernel that
reads ids returns how many it has done: fewer than given means that the next one is out of range, and nothing outside was touched.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from halohop.ops.cpu_jit import copy_words, kernel, prefetch

u64, i64 = np.uint64, np.int64

_AHEAD = u64(64)  # steps between asking for a word and reading it
_BLOCK: Any = u64(64)  # rows whose places are found together
_RING_MASK = u64(127)  # places of two blocks are kept: the one that is read, and the next
_LINE = u64(64)  # bytes of a cache line
_ASKED = u64(256)  # bytes of a row that are asked for, at most

_ZERO, _ONE, _EIGHT = u64(0), u64(1), u64(8)
_ABSENT = u64(2**63)
_DEGREE_LIMIT = u64(2**32)


# --- rows ------------------------------------------------------------


@kernel
def _asked_words(words: NDArray[Any], width: Any) -> Any:
    """How many words of a row are asked for: of a long one the processor asks for the others by itself, once it is read."""
    return min(width, _ASKED // u64(words.itemsize))


@kernel
def _prefetch_words(words: NDArray[Any], begin: Any, width: Any) -> None:
    for c in range(_ZERO, width, _LINE // u64(words.itemsize)):
        prefetch(words, begin + c)
    prefetch(words, begin + width - _ONE)


@kernel
def _rows_ahead(words: NDArray[Any], asked: Any) -> Any:
    """As many rows as keep about 32 cache lines on their way, if so many words of each are asked for."""
    return u64(32) * _LINE // (asked * u64(words.itemsize) + _LINE)


@kernel
def _steps(values: NDArray[Any], outside: Any) -> NDArray[Any]:
    """How a value of the pieces changes at each of their bounds, modulo 2**64: from `outside` to values[0], ..., and back."""
    steps = np.empty(values.size + 1, np.uint64)
    before = u64(outside)
    for p in range(values.size):
        steps[p] = u64(values[p]) - before
        before = u64(values[p])
    steps[values.size] = u64(outside) - before
    return steps


@kernel
def _add_steps(steps: NDArray[Any], bounds: NDArray[Any], rows: NDArray[Any], values: NDArray[Any]) -> None:
    """Adds to each row's value the steps at all bounds up to the row: so it becomes the value of the row's piece.

    Compares every row of a block with every bound. That has no branch and vectorises: for 8 pieces it takes a tenth of the time
    of a search by halves, which guesses wrong at every other step.
    """
    for k in range(u64(bounds.size)):
        bound, step = bounds[k], steps[k]
        for i in range(_BLOCK):
            values[i] += step if rows[i] >= bound else _ZERO


@kernel
def _find_places(
    rows: NDArray[Any],
    begin: Any,
    steps: NDArray[Any],
    bounds: NDArray[Any],
    width: Any,
    num_words: Any,
    block: NDArray[Any],
    places: NDArray[Any],
) -> Any:
    """Copies a block of rows, the last one repeated where they end, and writes where their words begin; returns whether all are
    in pieces that are here. `steps` are those of the origins (see `halohop.ops.pieces`), with ABSENT outside."""
    last, low, high = u64(rows.size) - _ONE, u64(bounds[0]), u64(bounds[bounds.size - 1])
    for i in range(_BLOCK):
        block[i] = i64(rows[min(begin + i, last)])
        places[i] = _ABSENT + u64(block[i]) * width
    _add_steps(steps, bounds, block, places)
    outside, most = _ZERO, num_words - width
    for i in range(_BLOCK):  # what is too small or too large makes a difference with the highest bit
        row, place = u64(block[i]), places[i]
        outside |= (row - low) | (high - _ONE - row) | (most - place) | place
    return outside < _ABSENT


@kernel
def _first_missing(rows: NDArray[Any], begin: Any, origins: NDArray[Any], bounds: NDArray[Any]) -> Any:
    """The number of the first row from `begin` on that no piece holds."""
    for i in range(begin, u64(rows.size)):
        here = False
        for p in range(origins.size):
            here |= bounds[p] <= rows[i] and rows[i] < bounds[p + 1] and origins[p] != _ABSENT
        if not here:
            return i
    return u64(rows.size)


@kernel
def _gather_words_of_one(source: NDArray[Any], origin: Any, low: Any, high: Any, rows: NDArray[Any], out: NDArray[Any]) -> Any:
    """`gather` for rows of one word in one piece: no place to find, so none to remember. A seventh faster."""
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
    """Row i of `out` = row rows[i] of `source`, an array in pieces; `out` is flat, `width` words a row.

    Places are found a block at a time, one block before they are needed, but asked for one by one: bursts cost half more. A row
    is copied by memcpy: rows of 5.7 KB that lie in a cache take a tenth less time than in a loop over their words.
    """
    if width == _ONE and origins.size == 1:
        return _gather_words_of_one(source, origins[0], bounds[0], bounds[1], rows, out)
    n: Any = u64(rows.size)
    num_words = u64(source.size)
    asked = _asked_words(source, width)
    ahead = _rows_ahead(source, asked)
    steps, block, places = _steps(origins, _ABSENT), np.empty(_BLOCK, np.int64), np.empty(_BLOCK + _BLOCK, np.uint64)
    for end in range(_ZERO, n + _BLOCK, _BLOCK):  # finds the places from `end` on, then copies the block before them
        half = end & _BLOCK
        if end < n and not _find_places(rows, end, steps, bounds, width, num_words, block, places[half : half + _BLOCK]):
            return _first_missing(rows, end, origins, bounds)
        first, last = end - min(end, _BLOCK), min(end, n)
        if width == _ONE:
            for i in range(first, last):
                prefetch(source, places[(i + _BLOCK) & _RING_MASK])
                out[i] = source[places[i & _RING_MASK]]
            continue
        for i in range(first, last):
            _prefetch_words(source, places[(i + ahead) & _RING_MASK], asked)
            copy_words(out, i * width, source, places[i & _RING_MASK], width)
    return n


@kernel
def gather_to(
    source: NDArray[Any],
    origins: NDArray[Any],
    bounds: NDArray[Any],
    width: Any,
    rows: NDArray[Any],
    positions: NDArray[Any],
    num_rows: Any,
    out: NDArray[Any],
) -> Any:
    """Row positions[i] of `out`, which has `num_rows`, = row rows[i] of `source`; as `gather`. Stops at a position outside."""
    n: Any = u64(rows.size)
    num_words = u64(source.size)
    asked = _asked_words(source, width)
    ahead = _rows_ahead(source, asked)
    steps, block, places = _steps(origins, _ABSENT), np.empty(_BLOCK, np.int64), np.empty(_BLOCK + _BLOCK, np.uint64)
    for end in range(_ZERO, n + _BLOCK, _BLOCK):  # finds the places from `end` on, then copies the block before them
        half = end & _BLOCK
        if end < n and not _find_places(rows, end, steps, bounds, width, num_words, block, places[half : half + _BLOCK]):
            return _first_missing(rows, end, origins, bounds)
        first, last = end - min(end, _BLOCK), min(end, n)
        if width == _ONE:
            for i in range(first, last):
                prefetch(source, places[(i + _BLOCK) & _RING_MASK])
                position = u64(positions[i])
                if position >= num_rows:
                    return i
                out[position] = source[places[i & _RING_MASK]]
            continue
        for i in range(first, last):
            _prefetch_words(source, places[(i + ahead) & _RING_MASK], asked)
            _prefetch_words(out, u64(positions[min(i + ahead, n - _ONE)]) * width, asked)
            position = u64(positions[i])
            if position >= num_rows:
                return i
            copy_words(out, position * width, source, places[i & _RING_MASK], width)
    return n


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
    n: Any = u64(rows.size)
    num_words, total = u64(indptr.size) - _ONE, _ZERO
    steps, edge_steps = _steps(origins, _ABSENT), _steps(edge_bounds[: origins.size], _ZERO)
    block, places, begins = np.empty(_BLOCK, np.int64), np.empty(_BLOCK + _BLOCK, np.uint64), np.empty(_BLOCK + _BLOCK, np.uint64)
    for end in range(_ZERO, n + _BLOCK, _BLOCK):  # finds the places from `end` on, then reads the block before them
        half = end & _BLOCK
        if end < n:
            if not _find_places(rows, end, steps, row_bounds, _ONE, num_words, block, places[half : half + _BLOCK]):
                return _first_missing(rows, end, origins, row_bounds), total
            begins[half : half + _BLOCK] = _ZERO
            _add_steps(edge_steps, row_bounds, block, begins[half : half + _BLOCK])
        for i in range(end - min(end, _BLOCK), min(end, n)):
            prefetch(indptr, places[(i + _BLOCK) & _RING_MASK])
            prefetch(indptr, places[(i + _BLOCK) & _RING_MASK] + _ONE)  # one in eight lies in the next cache line
            place = places[i & _RING_MASK]
            start = u64(indptr[place])
            degree = u64(indptr[place + _ONE]) - start  # a negative length wraps to a huge one
            if degree >= _DEGREE_LIMIT:
                return i, total
            count = fanout if degree > fanout or (replace and degree > _ZERO) else degree
            starts[i], degrees[i], counts[i] = i64(start + begins[i & _RING_MASK]), i64(degree), i64(count)
            total += count
    return n, total


@kernel
def scatter(values: NDArray[Any], num_rows: Any, width: Any, positions: NDArray[Any], out: NDArray[Any]) -> Any:
    """Row positions[i] of `out` = row i of `values`; both flat, `width` words a row, `num_rows` rows in `out`."""
    n = u64(positions.size)
    asked = _asked_words(out, width)
    ahead = _AHEAD if width == _ONE else _rows_ahead(out, asked)
    for i in range(n):
        _prefetch_words(out, u64(positions[min(i + ahead, n - _ONE)]) * width, asked)
        row = u64(positions[i])
        if row >= num_rows:
            return i
        if width == _ONE:
            out[row] = values[i]
        else:
            copy_words(out, row * width, values, i * width, width)
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
        p: Any = 0
        for k in range(1, parts):
            p += i64(v >= bounds[k])
        buckets[i] = bucket_of_part[p]
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
def list_segments(counts: NDArray[Any], begins: NDArray[Any], source: NDArray[Any]) -> None:
    """Writes begins[i], begins[i] + 1, ... counts[i] of them, for every i in turn."""
    out = _ZERO
    for i in range(u64(counts.size)):
        for k in range(u64(counts[i])):
            source[out + k] = begins[i] + i64(k)
        out += u64(counts[i])


@kernel
def repeat_positions(counts: NDArray[Any], begin: Any, out: NDArray[Any]) -> Any:
    """Writes begin + i, counts[i] times, for every i in turn; stops where `out` is full. Eight are written at once where there is
    room: those that are too many are written over by the next ones."""
    at, room = _ZERO, u64(out.size)
    for i in range(u64(counts.size)):
        end = at + u64(counts[i])
        if end > room:
            return False
        if at + _EIGHT <= room:
            for k in range(_EIGHT):
                out[at + k] = begin + i64(i)
            at += _EIGHT
        for k in range(at, end):
            out[k] = begin + i64(i)
        at = end
    return at == room
