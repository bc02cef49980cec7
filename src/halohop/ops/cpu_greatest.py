"""CPU kernels of the maximum over lists of in-edges. `halohop.ops.reference_segments` says in plain torch what they compute.

Arrays, lists and what a kernel returns are as in `halohop.ops.cpu_segments`; `row` is how many values a row has.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from halohop.ops.cpu_jit import kernel
from halohop.ops.cpu_segments import _ahead, _ask

u64 = np.uint64

_ONE = u64(1)


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
