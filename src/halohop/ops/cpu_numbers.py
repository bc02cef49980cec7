"""Numbers that all machines, GPUs too, compute to the last bit: of operations only that IEEE 754 rounds in one way.

Libraries' logarithms differ in the last bit. What is drawn or made by one is the same everywhere with this one.
"""

from typing import Any

import numpy as np

from halohop.ops.cpu_jit import kernel

u64, i64, f64 = np.uint64, np.int64, np.float64

LN2 = 0.6931471805599453
"""Of 2: written out, as a library would have to say it."""

_FRACTION_BITS = u64(52)
_FRACTION = u64(2**52 - 1)
_EXPONENT_OF_ONE = u64(1023 << 52)


@kernel
def logarithm(x: Any) -> Any:
    """Of a normal number above 0: of m, between 3/4 and 3/2, and of the power of two that x is m times of."""
    bits = f64(x).view(u64)
    fraction = bits & _FRACTION
    upper = fraction >> u64(51)  # whether m would be 3/2 or more
    exponent = f64(i64(bits >> _FRACTION_BITS) - i64(1023) + i64(upper))
    m = u64(fraction | (_EXPONENT_OF_ONE - (upper << _FRACTION_BITS))).view(f64)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    series = 1.0 / 23.0
    series = series * z + 1.0 / 21.0
    series = series * z + 1.0 / 19.0
    series = series * z + 1.0 / 17.0
    series = series * z + 1.0 / 15.0
    series = series * z + 1.0 / 13.0
    series = series * z + 1.0 / 11.0
    series = series * z + 1.0 / 9.0
    series = series * z + 1.0 / 7.0
    series = series * z + 1.0 / 5.0
    series = series * z + 1.0 / 3.0
    series = series * z + 1.0
    return exponent * LN2 + 2.0 * s * series
