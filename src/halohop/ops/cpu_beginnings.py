"""CPU kernels of numbers that rows begin with. `halohop.ops.reference_beginnings` says in plain NumPy what they compute.

Entries are made of the words of the stream that the row's id has. Only operations that IEEE 754 rounds in one way are used, and
no library's logarithm or cosine: so all machines compute the same bits.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halohop.ops.cpu_jit import kernel
from halohop.ops.cpu_numbers import logarithm
from halohop.ops.cpu_random import _fraction, _stream_of, _word_of

u64, i64, f64 = np.uint64, np.int64, np.float64

_ZERO, _ONE, _TWO = u64(0), u64(1), u64(2)

_PI = math.pi


@kernel
def uniform(key: Any, raw: NDArray[Any], width: Any, low: Any, span: Any, out: NDArray[Any]) -> None:
    """Entry c of the row of each id: low + span * the fraction that word c is."""
    for i in range(u64(raw.size)):
        stream, begin = _stream_of(key, raw[i]), i * width
        for c in range(width):
            out[begin + c] = out.dtype.type(low + span * _fraction(_word_of(stream, c)))


@kernel
def _half_turn(t: Any) -> Any:
    """Cosine and sine of pi * t, for t between -1/2 and 1/2, by Taylor's series."""
    x = _PI * t
    z = x * x
    sine = -1.0 / 121645100408832000.0  # 19!
    sine = sine * z + 1.0 / 355687428096000.0
    sine = sine * z - 1.0 / 1307674368000.0
    sine = sine * z + 1.0 / 6227020800.0
    sine = sine * z - 1.0 / 39916800.0
    sine = sine * z + 1.0 / 362880.0
    sine = sine * z - 1.0 / 5040.0
    sine = sine * z + 1.0 / 120.0
    sine = sine * z - 1.0 / 6.0
    sine = sine * z + 1.0
    cosine = 1.0 / 2432902008176640000.0  # 20!
    cosine = cosine * z - 1.0 / 6402373705728000.0
    cosine = cosine * z + 1.0 / 20922789888000.0
    cosine = cosine * z - 1.0 / 87178291200.0
    cosine = cosine * z + 1.0 / 479001600.0
    cosine = cosine * z - 1.0 / 3628800.0
    cosine = cosine * z + 1.0 / 40320.0
    cosine = cosine * z - 1.0 / 720.0
    cosine = cosine * z + 1.0 / 24.0
    cosine = cosine * z - 0.5
    cosine = cosine * z + 1.0
    return cosine, x * sine


@kernel
def _pair(stream: Any, c: Any) -> Any:
    """Two independent numbers of the normal distribution, from words c and c + 1 (Box and Muller): a random angle, of which the
    first bit of the second word chooses the half, and the radius that goes with it."""
    angle = _word_of(stream, c + _ONE)
    radius = math.sqrt(-2.0 * logarithm(_fraction(_word_of(stream, c))))
    sign = 1.0 - 2.0 * f64(i64(angle & _ONE))
    cosine, sine = _half_turn(_fraction(angle) - 0.5)
    return sign * radius * cosine, radius * sine


@kernel
def normal(key: Any, raw: NDArray[Any], width: Any, mean: Any, deviation: Any, out: NDArray[Any]) -> None:
    """Entries c and c + 1 of the row of each id, c even: mean + deviation * the pair that words c and c + 1 give."""
    even = width - width % _TWO
    for i in range(u64(raw.size)):
        stream, begin = _stream_of(key, raw[i]), i * width
        for c in range(_ZERO, even, _TWO):
            first, second = _pair(stream, c)
            out[begin + c] = out.dtype.type(mean + deviation * first)
            out[begin + c + _ONE] = out.dtype.type(mean + deviation * second)
        if even < width:
            first, second = _pair(stream, even)
            out[begin + even] = out.dtype.type(mean + deviation * first)
