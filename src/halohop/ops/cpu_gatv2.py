"""CPU kernels of GATv2's scores. `halohop.ops.reference_segments` says in plain torch what they compute.

Arrays, lists and what a kernel returns are as in `halohop.ops.cpu_segments`; an edge's row is that of its source plus that of
its destination.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from halohop.ops.cpu_jit import kernel, prefetch

u64 = np.uint64

_ZERO, _ONE = u64(0), u64(1)
_LINE = u64(64)


@kernel
def _ask(x: NDArray[Any], begin: Any, row: Any) -> None:
    for c in range(_ZERO, row, _LINE // u64(x.itemsize)):
        prefetch(x, begin + c)


@kernel
def _ahead(x: NDArray[Any], row: Any) -> Any:
    return max(u64(32) * _LINE // (row * u64(x.itemsize) + _LINE), u64(2))


@kernel
def scores(
    left: NDArray[Any],
    right: NDArray[Any],
    attention: NDArray[Any],
    slope: Any,
    heads: Any,
    width: Any,
    num_src: Any,
    src: NDArray[Any],
    begins: NDArray[Any],
    first: Any,
    last: Any,
    out: NDArray[Any],
) -> Any:
    """Each edge's value in `out` = the product of attention and leaky_relu of the edge's row, per head."""
    n, row = u64(src.size), heads * width
    ahead, zero = _ahead(left, row), left.dtype.type(0)
    terms = np.empty(row, left.dtype)
    for i in range(first, last):
        begin, end, here = u64(begins[i]), u64(begins[i + _ONE]), i * row
        if begin > end or end > n:
            return n + _ONE + i
        for k in range(begin, end):
            _ask(left, u64(src[min(k + ahead, n - _ONE)]) * row, row)
            if u64(src[k]) >= num_src:
                return k
            at = u64(src[k]) * row
            for c in range(row):
                both = left[at + c] + right[here + c]
                terms[c] = attention[c] * (both if both > zero else both * slope)
            for h in range(heads):
                total = zero
                for c in range(h * width, h * width + width):
                    total += terms[c]
                out[k * heads + h] = total
    return n


@kernel
def rows_backward(
    there: NDArray[Any],
    own: NDArray[Any],
    attention: NDArray[Any],
    slope: Any,
    grad: NDArray[Any],
    heads: Any,
    width: Any,
    others: NDArray[Any],
    begins: NDArray[Any],
    edge: NDArray[Any],
    first: Any,
    last: Any,
    out: NDArray[Any],
) -> Any:
    """The gradient towards `own`, rows of the ends by which edges are listed; `others` are the other ends, rows of `there`."""
    n, row = u64(others.size), heads * width
    ahead, zero, one, placed = _ahead(there, row), there.dtype.type(0), there.dtype.type(1), edge.size > 0
    for i in range(first, last):
        into = i * row
        for c in range(row):
            out[into + c] = zero
        for k in range(u64(begins[i]), u64(begins[i + _ONE])):
            _ask(there, u64(others[min(k + ahead, n - _ONE)]) * row, row)
            at, value = u64(others[k]) * row, (u64(edge[k]) if placed else k) * heads
            for h in range(heads):
                factor = grad[value + h]
                for c in range(h * width, h * width + width):
                    out[into + c] += factor * (one if there[at + c] + own[into + c] > zero else slope)
        for c in range(row):
            out[into + c] *= attention[c]
    return n


@kernel
def attention_backward(
    left: NDArray[Any],
    right: NDArray[Any],
    slope: Any,
    grad: NDArray[Any],
    heads: Any,
    width: Any,
    src: NDArray[Any],
    begins: NDArray[Any],
    block: Any,
    first: Any,
    last: Any,
    out: NDArray[Any],
) -> Any:
    """Row b of `out`, zero at first, gets the share of lists b * block to (b + 1) * block of the gradient towards attention."""
    n, row = u64(src.size), heads * width
    ahead, zero = _ahead(left, row), left.dtype.type(0)
    for i in range(first, last):
        into, here = i // block * row, i * row
        for k in range(u64(begins[i]), u64(begins[i + _ONE])):
            _ask(left, u64(src[min(k + ahead, n - _ONE)]) * row, row)
            at = u64(src[k]) * row
            for h in range(heads):
                factor = grad[k * heads + h]
                for c in range(h * width, h * width + width):
                    both = left[at + c] + right[here + c]
                    out[into + c] += factor * (both if both > zero else both * slope)
    return n
