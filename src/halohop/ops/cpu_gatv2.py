"""CPU kernels of GATv2's scores. `halohop.ops.reference_segments` says in plain torch what they compute.

Arrays, lists and what a kernel returns are as in `halohop.ops.cpu_segments`; an edge's row is that of its source plus that of
its destination, plus its own in `edges`, if there are such.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from halohop.ops.cpu_jit import kernel
from halohop.ops.cpu_segments import _ahead, _ask

u64 = np.uint64

_ONE = u64(1)


@kernel
def _sum_row(
    left: NDArray[Any], at: Any, right: NDArray[Any], here: Any, edges: NDArray[Any], own: Any, out: NDArray[Any]
) -> None:
    for c in range(u64(out.size)):
        out[c] = left[at + c] + right[here + c]
    if edges.size:
        for c in range(u64(out.size)):
            out[c] += edges[own + c]


@kernel
def scores(
    left: NDArray[Any],
    right: NDArray[Any],
    attention: NDArray[Any],
    edges: NDArray[Any],
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
            _sum_row(left, u64(src[k]) * row, right, here, edges, k * row, terms)
            for c in range(row):
                terms[c] = attention[c] * (terms[c] if terms[c] > zero else terms[c] * slope)
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
    edges: NDArray[Any],
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
    both = np.empty(row, there.dtype)
    for i in range(first, last):
        into = i * row
        for c in range(row):
            out[into + c] = zero
        for k in range(u64(begins[i]), u64(begins[i + _ONE])):
            _ask(there, u64(others[min(k + ahead, n - _ONE)]) * row, row)
            place = u64(edge[k]) if placed else k
            _sum_row(there, u64(others[k]) * row, own, into, edges, place * row, both)
            for h in range(heads):
                factor = grad[place * heads + h]
                for c in range(h * width, h * width + width):
                    out[into + c] += factor * (one if both[c] > zero else slope)
        for c in range(row):
            out[into + c] *= attention[c]
    return n


@kernel
def attention_backward(
    left: NDArray[Any],
    right: NDArray[Any],
    edges: NDArray[Any],
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
    both = np.empty(row, left.dtype)
    for i in range(first, last):
        into, here = i // block * row, i * row
        for k in range(u64(begins[i]), u64(begins[i + _ONE])):
            _ask(left, u64(src[min(k + ahead, n - _ONE)]) * row, row)
            _sum_row(left, u64(src[k]) * row, right, here, edges, k * row, both)
            for h in range(heads):
                factor = grad[k * heads + h]
                for c in range(h * width, h * width + width):
                    out[into + c] += factor * (both[c] if both[c] > zero else both[c] * slope)
    return n


@kernel
def edges_backward(
    left: NDArray[Any],
    right: NDArray[Any],
    attention: NDArray[Any],
    edges: NDArray[Any],
    slope: Any,
    grad: NDArray[Any],
    heads: Any,
    width: Any,
    src: NDArray[Any],
    begins: NDArray[Any],
    first: Any,
    last: Any,
    out: NDArray[Any],
) -> Any:
    """The gradient towards `edges`."""
    n, row = u64(src.size), heads * width
    ahead, zero, one = _ahead(left, row), left.dtype.type(0), left.dtype.type(1)
    both = np.empty(row, left.dtype)
    for i in range(first, last):
        for k in range(u64(begins[i]), u64(begins[i + _ONE])):
            _ask(left, u64(src[min(k + ahead, n - _ONE)]) * row, row)
            _sum_row(left, u64(src[k]) * row, right, i * row, edges, k * row, both)
            for h in range(heads):
                factor = grad[k * heads + h]
                for c in range(h * width, h * width + width):
                    out[k * row + c] = factor * attention[c] * (one if both[c] > zero else slope)
    return n
