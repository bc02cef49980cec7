"""CPU kernels that reduce lists of in-edges. `halohop.ops.reference_segments` says in plain torch what they compute.

Arrays are flat: a row of `x` has `heads` times `width` values, an edge `heads`. A kernel does the lists `first` to `last`, so
several threads can share the work; one thread adds up a list, in its order, so the bits do not depend on how many there are. A
kernel returns the number of edges, E; or the place of an edge whose source is out of range; or E + 1 + i where list i does not
begin and end within the edges.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from halohop.ops.cpu_jit import kernel, prefetch

u64, i64 = np.uint64, np.int64

_ZERO, _ONE = u64(0), u64(1)
_EIGHT = u64(8)
_LINE = u64(64)  # bytes of a cache line
BLOCK: Any = u64(64)  # lists whose share of a sum over all lists is added up by itself


@kernel
def _ask(x: NDArray[Any], begin: Any, row: Any) -> None:
    for c in range(_ZERO, row, _LINE // u64(x.itemsize)):
        prefetch(x, begin + c)


@kernel
def _ahead(x: NDArray[Any], row: Any) -> Any:
    """As many rows as keep about 32 cache lines on their way, at least 2."""
    return max(u64(32) * _LINE // (row * u64(x.itemsize) + _LINE), u64(2))


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
    mean: Any,
    first: Any,
    last: Any,
    out: NDArray[Any],
) -> Any:
    """Row i of `out` = the sum of weight times row of `x` over list i, or that divided by the list's length.

    `weight` and `edge` are empty where there are none.
    """
    n, row = u64(src.size), heads * width
    ahead, weighted, placed = _ahead(x, row), weight.size > 0, edge.size > 0
    for i in range(first, last):
        begin, end, into = u64(begins[i]), u64(begins[i + _ONE]), i * row
        if begin > end or end > n:
            return n + _ONE + i
        for c in range(row):
            out[into + c] = 0
        for k in range(begin, end):
            later = min(k + ahead, n - _ONE)
            _ask(x, u64(src[later]) * row, row)
            if u64(src[k]) >= num_src:
                return k
            at = u64(src[k]) * row
            if not weighted:
                for c in range(row):
                    out[into + c] += x[at + c]
                continue
            if placed:
                prefetch(weight, u64(edge[later]) * heads)
            own = (u64(edge[k]) if placed else k) * heads
            for h in range(heads):
                factor, there, here = weight[own + h], at + h * width, into + h * width
                for c in range(width):
                    out[here + c] += factor * x[there + c]
        if mean and end > begin + _ONE:
            length = x.dtype.type(end - begin)
            for c in range(row):
                out[into + c] /= length
    return n


@kernel
def _product(x: NDArray[Any], at: Any, y: NDArray[Any], here: Any, width: Any) -> Any:
    """In eight sums, which one instruction adds to."""
    zero = x.dtype.type(0)
    a, b, c, d, e, f, g, h = zero, zero, zero, zero, zero, zero, zero, zero
    whole = width - width % _EIGHT
    for i in range(_ZERO, whole, _EIGHT):
        p, q = at + i, here + i
        a += x[p] * y[q]
        b += x[p + _ONE] * y[q + _ONE]
        c += x[p + u64(2)] * y[q + u64(2)]
        d += x[p + u64(3)] * y[q + u64(3)]
        e += x[p + u64(4)] * y[q + u64(4)]
        f += x[p + u64(5)] * y[q + u64(5)]
        g += x[p + u64(6)] * y[q + u64(6)]
        h += x[p + u64(7)] * y[q + u64(7)]
    total = ((a + e) + (b + f)) + ((c + g) + (d + h))
    for i in range(whole, width):
        total += x[at + i] * y[here + i]
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
    ahead, placed = _ahead(left, row), edge.size > 0
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
                out[own + h] = _product(left, at + h * width, right, i * row + h * width, width)
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


@kernel
def greatest(
    x: NDArray[Any], row: Any, num_src: Any, src: NDArray[Any], begins: NDArray[Any], first: Any, last: Any, out: NDArray[Any]
) -> Any:
    """Row i of `out` = the greatest of each column over list i, NaN where one is; 0 where it is empty."""
    n, ahead = u64(src.size), _ahead(x, row)
    for i in range(first, last):
        begin, end, into = u64(begins[i]), u64(begins[i + _ONE]), i * row
        if begin > end or end > n:
            return n + _ONE + i
        for c in range(row):
            out[into + c] = 0 if begin == end else -np.inf
        for k in range(begin, end):
            _ask(x, u64(src[min(k + ahead, n - _ONE)]) * row, row)
            if u64(src[k]) >= num_src:
                return k
            at = u64(src[k]) * row
            for c in range(row):
                value, top = x[at + c], out[into + c]
                out[into + c] = value if value > top or value != value else top
    return n


@kernel
def share(
    grad: NDArray[Any],
    x: NDArray[Any],
    top: NDArray[Any],
    row: Any,
    src: NDArray[Any],
    begins: NDArray[Any],
    first: Any,
    last: Any,
    out: NDArray[Any],
) -> Any:
    """Row i of `out` = that of `grad`, divided by how many edges of list i have the greatest value, row i of `top`."""
    n, ahead, one = u64(src.size), _ahead(x, row), x.dtype.type(1)
    for i in range(first, last):
        into = i * row
        for c in range(row):
            out[into + c] = 0
        for k in range(u64(begins[i]), u64(begins[i + _ONE])):
            _ask(x, u64(src[min(k + ahead, n - _ONE)]) * row, row)
            at = u64(src[k]) * row
            for c in range(row):
                out[into + c] += one if x[at + c] == top[into + c] else x.dtype.type(0)
        for c in range(row):
            out[into + c] = grad[into + c] / max(out[into + c], one)
    return n


@kernel
def greatest_backward(
    shares: NDArray[Any],
    x: NDArray[Any],
    top: NDArray[Any],
    row: Any,
    dst: NDArray[Any],
    begins: NDArray[Any],
    first: Any,
    last: Any,
    out: NDArray[Any],
) -> Any:
    """Over lists of out-edges: row i of `out` = the sum of the shares of those destinations whose greatest value x[i] is."""
    n, ahead = u64(dst.size), _ahead(x, row)
    for i in range(first, last):
        into = i * row
        for c in range(row):
            out[into + c] = 0
        for k in range(u64(begins[i]), u64(begins[i + _ONE])):
            later = u64(dst[min(k + ahead, n - _ONE)]) * row
            _ask(shares, later, row)
            _ask(top, later, row)
            at = u64(dst[k]) * row
            for c in range(row):
                out[into + c] += shares[at + c] if x[into + c] == top[at + c] else x.dtype.type(0)
    return n
