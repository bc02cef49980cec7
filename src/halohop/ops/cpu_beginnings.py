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

u64, i64, f64 = np.uint64, np.int64, np.float64

_GOLDEN = u64(0x9E3779B97F4A7C15)
_RAW_STEP = u64(0xD1342543DE82EF95)
_MIX_1, _MIX_2 = u64(0xBF58476D1CE4E5B9), u64(0x94D049BB133111EB)
_S30, _S27, _S31, _S11 = u64(30), u64(27), u64(31), u64(11)
_ZERO, _ONE, _TWO = u64(0), u64(1), u64(2)
_UNIT = 2.0**-53

_PI = math.pi


@kernel
def _mix(x: Any) -> Any:
    x = (x ^ (x >> _S30)) * _MIX_1
    x = (x ^ (x >> _S27)) * _MIX_2
    return x ^ (x >> _S31)


@kernel
def _fraction(word: Any) -> Any:
    """Between 0 and 1, never 0 or 1."""
    return f64(i64((word >> _S11) | _ONE)) * _UNIT


@kernel
def uniform(key: Any, raw: NDArray[Any], width: Any, low: Any, span: Any, out: NDArray[Any]) -> None:
    """Entry c of the row of each id: low + span * the fraction that word c is."""
    for i in range(u64(raw.size)):
        stream, begin = _mix(key + _RAW_STEP * u64(raw[i])), i * width
        for c in range(width):
            out[begin + c] = out.dtype.type(low + span * _fraction(_mix(stream + _GOLDEN * (c + _ONE))))


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
    angle = _mix(stream + _GOLDEN * (c + _TWO))
    radius = math.sqrt(-2.0 * logarithm(_fraction(_mix(stream + _GOLDEN * (c + _ONE)))))
    sign = 1.0 - 2.0 * f64(i64(angle & _ONE))
    cosine, sine = _half_turn(_fraction(angle) - 0.5)
    return sign * radius * cosine, radius * sine


@kernel
def normal(key: Any, raw: NDArray[Any], width: Any, mean: Any, deviation: Any, out: NDArray[Any]) -> None:
    """Entries c and c + 1 of the row of each id, c even: mean + deviation * the pair that words c and c + 1 give."""
    even = width - width % _TWO
    for i in range(u64(raw.size)):
        stream, begin = _mix(key + _RAW_STEP * u64(raw[i])), i * width
        for c in range(_ZERO, even, _TWO):
            first, second = _pair(stream, c)
            out[begin + c] = out.dtype.type(mean + deviation * first)
            out[begin + c + _ONE] = out.dtype.type(mean + deviation * second)
        if even < width:
            first, second = _pair(stream, even)
            out[begin + even] = out.dtype.type(mean + deviation * first)
