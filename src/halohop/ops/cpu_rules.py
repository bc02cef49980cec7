"""CPU kernels by which gradients change rows. `halohop.ops.reference_rules` says in plain torch what they compute.

The gradient of row lid[i] begins at places[i] of `grads`. All arrays are flat, `width` entries a row. Each kernel passes over the
touched rows once, and asks for the cache lines of a row and its state a few rows ahead. Row numbers have been checked before: a
change that could stop half-way would be no change.

Arithmetic is that of the gradients' dtype, and so is the state. Rows of two bytes are as in `halohop.ops.cpu_halves`.
"""

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from halohop.ops.cpu_halves import _read, _write
from halohop.ops.cpu_index import _prefetch_words
from halohop.ops.cpu_jit import kernel, prefetch

u64, i64, f64 = np.uint64, np.int64, np.float64

_LINE = u64(64)  # bytes of a cache line
_LINES_AHEAD = u64(64)
_ZERO, _ONE, _THREE = u64(0), u64(1), u64(3)


# --- asking ahead ------------------------------------------------------------


@kernel
def _rows_ahead(width: Any, itemsize: Any, arrays: Any) -> Any:
    """As many rows as keep some cache lines on their way, at least 2."""
    return max(_LINES_AHEAD * _LINE // (arrays * (width * u64(itemsize) + _LINE)), u64(2))


# --- rules ------------------------------------------------------------


@kernel
def sgd(
    rows: NDArray[Any], width: Any, lid: NDArray[Any], places: NDArray[Any], grads: NDArray[Any], scale: Any, lr: Any
) -> None:
    n, ahead = u64(lid.size), _rows_ahead(width, rows.itemsize, _ONE)
    for i in range(n):
        _prefetch_words(rows, u64(lid[min(i + ahead, n - _ONE)]) * width, width)
        row, own = u64(lid[i]) * width, places[i]
        for c in range(width):
            _write(rows, row + c, _read(rows, row + c) - lr * (grads[own + c] * scale))


@kernel
def adagrad(
    rows: NDArray[Any],
    sums: NDArray[Any],
    width: Any,
    lid: NDArray[Any],
    places: NDArray[Any],
    grads: NDArray[Any],
    scale: Any,
    lr: Any,
    eps: Any,
) -> None:
    n, ahead = u64(lid.size), _rows_ahead(width, sums.itemsize, u64(2))
    for i in range(n):
        later = u64(lid[min(i + ahead, n - _ONE)]) * width
        _prefetch_words(rows, later, width)
        _prefetch_words(sums, later, width)
        row, own = u64(lid[i]) * width, places[i]
        for c in range(width):
            grad = grads[own + c] * scale
            total = sums[row + c] + grad * grad
            sums[row + c] = total
            _write(rows, row + c, _read(rows, row + c) - lr * (grad / (math.sqrt(total) + eps)))


def _squares_of_eights(typing_context: Any, array: Any, begin: Any, count: Any) -> Any:
    """``_eights(array, begin, count)``: the sum of the squares of count * 8 entries from `begin` on, in float64: eight sums
    side by side, folded in halves. Numba would add the entries one by one, for want of leave to change the order."""
    real = types.float64
    vector = ir.VectorType(ir.DoubleType(), 8)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values, first, number = arguments
        data = context.make_array(signature.args[0])(context, builder, values).data
        narrow = ir.VectorType(context.get_data_type(array.dtype), 8)
        sums = cgutils.alloca_once_value(builder, ir.Constant(vector, [0.0] * 8))
        with cgutils.for_range(builder, number) as loop:
            place = builder.add(first, builder.mul(loop.index, ir.Constant(loop.index.type, 8)))
            eight = builder.load(
                builder.bitcast(builder.gep(data, [place]), narrow.as_pointer()), align=array.dtype.bitwidth // 8
            )
            wide = eight if array.dtype == real else builder.fpext(eight, vector)
            builder.store(builder.fadd(builder.load(sums), builder.fmul(wide, wide)), sums)
        total = builder.load(sums)
        lanes = [builder.extract_element(total, ir.Constant(ir.IntType(32), lane)) for lane in range(8)]
        while len(lanes) > 1:
            half = len(lanes) // 2
            lanes = [builder.fadd(one, other) for one, other in zip(lanes[:half], lanes[half:], strict=True)]
        return lanes[0]

    return real(array, types.uint64, types.uint64), generate


_eights: Any = intrinsic(_squares_of_eights)


@kernel
def _sum_of_squares(values: NDArray[Any], begin: Any, count: Any) -> Any:
    eights = count >> _THREE
    total = _eights(values, begin, eights)
    for at in range(begin + (eights << _THREE), begin + count):
        total += f64(values[at]) * f64(values[at])
    return total


@kernel
def squares(values: NDArray[Any]) -> Any:
    """The sum of the squares of all entries, in float64."""
    return _sum_of_squares(values, _ZERO, u64(values.size))


@kernel
def squares_of_rows(values: NDArray[Any], width: Any, places: NDArray[Any]) -> Any:
    """The same of the rows at some places."""
    total = f64(0)
    for i in range(places.size):
        total += _sum_of_squares(values, places[i], width)
    return total


@kernel
def rowwise_adagrad(
    rows: NDArray[Any],
    sums: NDArray[Any],
    width: Any,
    lid: NDArray[Any],
    places: NDArray[Any],
    grads: NDArray[Any],
    scale: Any,
    lr: Any,
    eps: Any,
    factor: Any,
) -> None:
    """`factor`, float64, makes the mean of a row's scaled and squared gradients of the sum of the squared gradients."""
    n, ahead = u64(lid.size), _rows_ahead(width, rows.itemsize, _ONE)
    for i in range(n):
        later = u64(lid[min(i + ahead, n - _ONE)])
        _prefetch_words(rows, later * width, width)
        prefetch(sums, later)
        at, own = u64(lid[i]), places[i]
        row = at * width
        sums[at] += sums.dtype.type(_sum_of_squares(grads, own, width) * factor)
        size = lr / (math.sqrt(sums[at]) + eps)
        for c in range(width):
            _write(rows, row + c, _read(rows, row + c) - size * (grads[own + c] * scale))


@kernel
def _power(base: Any, exponent: Any) -> Any:
    """By squares, float64: only multiplications, which all machines round alike."""
    result, square, left = f64(1), base, i64(exponent)
    while left > 0:
        if left & 1:
            result = result * square
        square, left = square * square, left >> 1
    return result


@kernel
def adam(
    rows: NDArray[Any],
    mean: NDArray[Any],
    square: NDArray[Any],
    steps: NDArray[Any],
    width: Any,
    lid: NDArray[Any],
    places: NDArray[Any],
    grads: NDArray[Any],
    scale: Any,
    lr: Any,
    eps: Any,
    beta1: Any,
    beta2: Any,
    step: Any,
) -> None:
    """`steps` counts those of each row, or is empty: then `step` is that of all. `lr` and the betas are float64."""
    n, ahead = u64(lid.size), _rows_ahead(width, mean.itemsize, u64(3))
    real = mean.dtype.type
    keep1, keep2 = real(f64(1) - beta1), real(f64(1) - beta2)
    size = real(lr * math.sqrt(f64(1) - _power(beta2, step)) / (f64(1) - _power(beta1, step)))
    for i in range(n):
        later = u64(lid[min(i + ahead, n - _ONE)])
        _prefetch_words(rows, later * width, width)
        _prefetch_words(mean, later * width, width)
        _prefetch_words(square, later * width, width)
        at, own = u64(lid[i]), places[i]
        row = at * width
        if steps.size:
            steps[at] += 1
            size = real(lr * math.sqrt(f64(1) - _power(beta2, steps[at])) / (f64(1) - _power(beta1, steps[at])))
        for c in range(width):
            grad = grads[own + c] * scale
            m = mean[row + c] + (grad - mean[row + c]) * keep1
            v = square[row + c] + (grad * grad - square[row + c]) * keep2
            mean[row + c], square[row + c] = m, v
            _write(rows, row + c, _read(rows, row + c) - size * (m / (math.sqrt(v) + eps)))
