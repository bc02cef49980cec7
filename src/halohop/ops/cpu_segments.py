"""CPU kernels that reduce lists of in-edges. `halohop.ops.reference_segments` says in plain torch what they compute.

Arrays are flat: a row of `x` has `heads` times `width` values, an edge `heads`. A kernel does the lists `first` to `last`, so
several threads can share the work; one thread adds up a list, in its order, so the bits do not depend on how many there are. A
kernel returns the number of edges, E; or the place of an edge whose source is out of range; or E + 1 + i where list i does not
begin and end within the edges.

Rows of two bytes are as in `halohop.ops.cpu_halves`; what is made of them is float32.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from halohop.ops.cpu_halves import _read
from halohop.ops.cpu_jit import kernel, prefetch

u64, i64 = np.uint64, np.int64

_ZERO, _ONE = u64(0), u64(1)
_EIGHT = u64(8)
_LINE = u64(64)  # bytes of a cache line
BLOCK: Any = u64(64)  # lists whose share of a sum over all lists is added up by itself


# --- rows -----------------------------------------------------------------


@kernel
def _ask(x: NDArray[Any], begin: Any, row: Any) -> None:
    """Asks for the cache lines of a row, but for the last one where the row begins within a line."""
    for c in range(_ZERO, row, _LINE // u64(x.itemsize)):
        prefetch(x, begin + c)


@kernel
def _ahead(x: NDArray[Any], row: Any) -> Any:
    """As many rows as keep about 32 cache lines on their way, at least 2."""
    return max(u64(32) * _LINE // (row * u64(x.itemsize) + _LINE), u64(2))


# --- lists ----------------------------------------------------------------


@kernel
def by_source(src: NDArray[Any], begins: NDArray[Any], begins_out: NDArray[Any], dst: NDArray[Any], place: NDArray[Any]) -> Any:
    """Lists of out-edges: writes where each source's list begins, and its edges' destinations and places in `src`, in order.

    `begins_out` comes filled with zeros, and has one place more than needed: two after the last source.
    """
    n, num_src = u64(src.size), u64(begins_out.size) - u64(2)
    for k in range(n):
        s = u64(src[k])
        if s >= num_src:
            return k
        begins_out[s + u64(2)] += 1
    for row in range(num_src):
        begins_out[row + u64(2)] += begins_out[row + _ONE]
    for i in range(u64(begins.size) - _ONE):
        begin, end = u64(begins[i]), u64(begins[i + _ONE])
        if begin > end or end > n:
            return n + _ONE + i
        for k in range(begin, end):
            cursor = u64(src[k]) + _ONE
            at = u64(begins_out[cursor])
            dst[at], place[at] = i64(i), i64(k)
            begins_out[cursor] += 1
    return n


@kernel
def weighted_sum(
    x: NDArray[Any],
    heads: Any,
    width: Any,
    num_src: Any,
    src: NDArray[Any],
    begins: NDArray[Any],
    weight: NDArray[Any],
    edge: NDArray[Any],
    own: NDArray[Any],
    mean: Any,
    first: Any,
    last: Any,
    out: NDArray[Any],
) -> Any:
    """Row i of `out` = the sum of weight times row of `x` over list i, or that divided by the list's length; plus own[i] times
    row i of `x`, where there are as many.

    `weight`, `edge` and `own` are empty where there are none.
    """
    n, row = u64(src.size), heads * width
    ahead, weighted, placed, num_own = _ahead(x, row), weight.size > 0, edge.size > 0, u64(own.size) // max(heads, _ONE)
    for i in range(first, last):
        begin, end, into = u64(begins[i]), u64(begins[i + _ONE]), i * row
        if begin > end or end > n:
            return n + _ONE + i
        for c in range(row):
            out[into + c] = 0
        for h in range(heads if i < num_own else _ZERO):
            factor, here = own[i * heads + h], into + h * width
            for c in range(width):
                out[here + c] = factor * _read(x, here + c)
        for k in range(begin, end):
            later = min(k + ahead, n - _ONE)
            _ask(x, u64(src[later]) * row, row)
            if u64(src[k]) >= num_src:
                return k
            at = u64(src[k]) * row
            if not weighted:
                for c in range(row):
                    out[into + c] += _read(x, at + c)
                continue
            if placed:
                prefetch(weight, u64(edge[later]) * heads)
            at_edge = (u64(edge[k]) if placed else k) * heads
            for h in range(heads):
                factor, there, here = weight[at_edge + h], at + h * width, into + h * width
                for c in range(width):
                    out[here + c] += factor * _read(x, there + c)
        if mean and end > begin + _ONE:
            length = out.dtype.type(end - begin)
            for c in range(row):
                out[into + c] /= length
    return n


@kernel
def _product(x: NDArray[Any], at: Any, y: NDArray[Any], here: Any, width: Any, zero: Any) -> Any:
    """In eight sums, which one instruction adds to."""
    a, b, c, d, e, f, g, h = zero, zero, zero, zero, zero, zero, zero, zero
    whole = width - width % _EIGHT
    for i in range(_ZERO, whole, _EIGHT):
        p, q = at + i, here + i
        a += _read(x, p) * _read(y, q)
        b += _read(x, p + _ONE) * _read(y, q + _ONE)
        c += _read(x, p + u64(2)) * _read(y, q + u64(2))
        d += _read(x, p + u64(3)) * _read(y, q + u64(3))
        e += _read(x, p + u64(4)) * _read(y, q + u64(4))
        f += _read(x, p + u64(5)) * _read(y, q + u64(5))
        g += _read(x, p + u64(6)) * _read(y, q + u64(6))
        h += _read(x, p + u64(7)) * _read(y, q + u64(7))
    total = ((a + e) + (b + f)) + ((c + g) + (d + h))
    for i in range(whole, width):
        total += _read(x, at + i) * _read(y, here + i)
    return total


@kernel
def dot(
    left: NDArray[Any],
    right: NDArray[Any],
    heads: Any,
    width: Any,
    num_src: Any,
    src: NDArray[Any],
    begins: NDArray[Any],
    edge: NDArray[Any],
    first: Any,
    last: Any,
    out: NDArray[Any],
) -> Any:
    """Each edge's value in `out` = the product of its source's row of `left` and its destination's row of `right`."""
    n, row = u64(src.size), heads * width
    ahead, placed, zero = _ahead(left, row), edge.size > 0, out.dtype.type(0)
    for i in range(first, last):
        begin, end = u64(begins[i]), u64(begins[i + _ONE])
        if begin > end or end > n:
            return n + _ONE + i
        for k in range(begin, end):
            _ask(left, u64(src[min(k + ahead, n - _ONE)]) * row, row)
            if u64(src[k]) >= num_src:
                return k
            at, own = u64(src[k]) * row, (u64(edge[k]) if placed else k) * heads
            for h in range(heads):
                out[own + h] = _product(left, at + h * width, right, i * row + h * width, width, zero)
    return n


@kernel
def add(
    left: NDArray[Any],
    right: NDArray[Any],
    heads: Any,
    num_src: Any,
    src: NDArray[Any],
    begins: NDArray[Any],
    first: Any,
    last: Any,
    out: NDArray[Any],
) -> Any:
    """Each edge's values in `out` = its source's row of `left` plus its destination's row of `right`."""
    n, ahead = u64(src.size), _ahead(left, heads)
    for i in range(first, last):
        begin, end = u64(begins[i]), u64(begins[i + _ONE])
        if begin > end or end > n:
            return n + _ONE + i
        for k in range(begin, end):
            prefetch(left, u64(src[min(k + ahead, n - _ONE)]) * heads)
            if u64(src[k]) >= num_src:
                return k
            for h in range(heads):
                out[k * heads + h] = left[u64(src[k]) * heads + h] + right[i * heads + h]
    return n
