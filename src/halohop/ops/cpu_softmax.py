"""CPU kernels of softmax within lists of edges. `halohop.ops.reference_segments` says in plain torch what they compute.

Arrays, lists and what a kernel returns are as in `halohop.ops.cpu_segments`.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from halohop.ops.cpu_jit import kernel

u64 = np.uint64
_ONE = u64(1)


@kernel
def below_top(
    scores: NDArray[Any], heads: Any, num_edges: Any, begins: NDArray[Any], first: Any, last: Any, out: NDArray[Any]
) -> Any:
    """How far each score is below the greatest of its list."""
    for i in range(first, last):
        begin, end = u64(begins[i]), u64(begins[i + _ONE])
        if begin > end or end > num_edges:
            return num_edges + _ONE + i
        for h in range(heads):
            top = scores.dtype.type(-np.inf)
            for k in range(begin * heads + h, end * heads + h, heads):
                top = scores[k] if scores[k] > top or scores[k] != scores[k] else top
            for k in range(begin * heads + h, end * heads + h, heads):
                out[k] = scores[k] - top
    return num_edges


@kernel
def add_to_one(values: NDArray[Any], heads: Any, num_edges: Any, begins: NDArray[Any], first: Any, last: Any) -> Any:
    """Divides each value by the sum of its list."""
    for i in range(first, last):
        begin, end = u64(begins[i]) * heads, u64(begins[i + _ONE]) * heads
        for h in range(heads):
            total = values.dtype.type(0)
            for k in range(begin + h, end + h, heads):
                total += values[k]
            for k in range(begin + h, end + h, heads):
                values[k] /= total
    return num_edges


@kernel
def softmax_backward(
    grad: NDArray[Any],
    p: NDArray[Any],
    heads: Any,
    num_edges: Any,
    begins: NDArray[Any],
    first: Any,
    last: Any,
    out: NDArray[Any],
) -> Any:
    """p * (grad - the sum of grad * p over the list)."""
    for i in range(first, last):
        begin, end = u64(begins[i]) * heads, u64(begins[i + _ONE]) * heads
        for h in range(heads):
            total = p.dtype.type(0)
            for k in range(begin + h, end + h, heads):
                total += grad[k] * p[k]
            for k in range(begin + h, end + h, heads):
                out[k] = p[k] * (grad[k] - total)
    return num_edges
