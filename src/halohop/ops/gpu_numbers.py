"""Arithmetic on a GPU whose results equal those of the CPU bit by bit."""

import triton.language as tl

from halohop.ops.gpu_launch import kernel


@kernel
def divided(values: tl.tensor, by: tl.tensor) -> tl.tensor:
    """The quotient, rounded to the nearest."""
    return tl.div_rn(values, by) if values.dtype == tl.float32 else values / by


@kernel
def logarithm(x: tl.tensor) -> tl.tensor:
    """As `halohop.ops.cpu_numbers.logarithm`, operation by operation."""
    bits = x.to(tl.int64, bitcast=True)
    fraction = bits & 0xFFFFFFFFFFFFF
    upper = fraction >> 51
    exponent = ((bits >> 52) - 1023 + upper).to(tl.float64)
    m = (fraction | (0x3FF0000000000000 - (upper << 52))).to(tl.float64, bitcast=True)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    series = tl.full(x.shape, 1.0 / 23.0, tl.float64)
    for odd in tl.static_range(10):
        series = series * z + 1.0 / (21 - 2 * odd)
    series = series * z + 1.0
    return exponent * 0.6931471805599453 + 2.0 * s * series
